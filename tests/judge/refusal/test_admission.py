"""REF-003 and REF-004: a refusal proves something only if it is the gate's own, for the fault, beside a control."""

import dataclasses

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.judge import attribution
from tests import recordings

INVALID, SHUT = "invalid", "closed-queue"
ROWS = [("REF-003", INVALID), ("REF-004", SHUT)]
OURS = "validatejob.volcano.sh"


def _denied(webhook: str, why: str) -> str:
    return f'admission webhook "{webhook}" denied the request{why}'


SITE = "ValidatingAdmissionPolicy 'site-queues' with binding 'all' denied request: no such queue"
FOREIGN = {
    "kyverno": (400, _denied("validate.kyverno.svc-fail", ": blocked by policies: disallow-latest-tag")),
    "gatekeeper": (403, _denied("validation.gatekeeper.sh", ": [owner] you must provide labels")),
    "speaks of the fault": (400, _denied("jobs.example.com", ": queue: duplicated task name")),
    "lookalike": (400, _denied("validatejob.notvolcano.sh", ": unable to find job queue")),
    "policy of a site": (422, f"jobs.batch.volcano.sh is forbidden: {SITE}"),
    "quota": (403, 'jobs.batch.volcano.sh "x" is forbidden: exceeded quota: gpus, requested: count/jobs=1'),
    "permission": (403, 'jobs.batch.volcano.sh is forbidden: User "ci" cannot create resource "jobs"'),
    "no answer": (500, f'failed calling webhook "{OURS}": connection refused'),
    "without a word": (400, _denied(OURS, " without explanation")),
    "another fault": (400, _denied(OURS, ": spec.task[0].image: Required")),
}


def judged(row: str, evidence: Evidence):
    """Return the finding of a row on evidence of a scenario of ours."""
    return recordings.JUDGES[row](evidence, evidence.given)


def answering(evidence: Evidence, code: int, message: str) -> Evidence:
    """Return evidence in which Volcano's refusals were given with another code and text."""

    def answer(line):
        said = str((line.data.get("status") or {}).get("message"))
        if line.type != "RESPONSE" or OURS not in said:
            return line
        status = {**line.data["status"], "code": code, "message": message}
        return dataclasses.replace(line, data={**line.data, "code": code, "status": status})

    return mutants.with_lines(evidence, [answer(line) for line in evidence.lines])


@pytest.mark.parametrize(("row", "scenario"), ROWS)
@pytest.mark.parametrize("gate", FOREIGN)
def test_a_refusal_by_another_gate_or_for_another_fault_proves_nothing(row, scenario, gate):
    """Whoever refuses for whatever reason else: the row is not decided, and who refused is named."""
    finding = judged(row, answering(recordings.embedded(scenario), *FOREIGN[gate]))
    assert finding.verdict == "inconclusive"
    assert finding.causes


def test_the_policy_that_volcanos_chart_installs_is_its_own_gate():
    """Volcano's admission may be policies instead of webhooks; they speak of the same faults."""

    def said_by_policy(line):
        status = line.data.get("status") or {}
        message = str(status.get("message"))
        if line.type != "RESPONSE" or OURS not in message:
            return line
        why = message.partition("denied the request: ")[2]
        text = f"ValidatingAdmissionPolicy 'volcano-jobs-validation' with binding 'b' denied request: {why}"
        changed = {"status": {**status, "code": 422, "message": text}, "code": 422}
        return dataclasses.replace(line, data={**line.data, **changed})

    base = recordings.embedded(INVALID)
    finding = judged("REF-003", mutants.with_lines(base, map(said_by_policy, base.lines)))
    assert finding.verdict == "pass", finding.observed
    assert "volcano-jobs-validation" in finding.observed


def _of(job: str, kind: str, name: str, metadata: dict) -> dict:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "x", "uid": f"made-{name}", **metadata},
        "spec": {},
    }


OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "uid": "gone"}
UUID = "0d7a8f0e-4f5f-4f0e-9a54-6f6a2f1b9c11"
MADE = {
    "the Job itself": lambda job: ("Job.batch.volcano.sh", _of(job, "Job", job, {})),
    "a pod by its owner": lambda job: ("Pod", _of(job, "Pod", "p", {"ownerReferences": [{**OWNER, "name": job}]})),
    "a pod by its label": lambda job: ("Pod", _of(job, "Pod", "p", {"labels": {"volcano.sh/job-name": job}})),
    "a pod by its group": lambda job: (
        "Pod", _of(job, "Pod", "p", {"annotations": {"scheduling.k8s.io/group-name": f"{job}-{UUID}"}}),
    ),
    "a PodGroup by its name": lambda job: ("PodGroup", _of(job, "PodGroup", f"{job}-{UUID}", {})),
    "a Service by its owner": lambda job: (
        "Service", _of(job, "Service", job, {"ownerReferences": [{**OWNER, "name": job}]}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("row", "scenario"), ROWS)
@pytest.mark.parametrize("what", MADE)
def test_what_exists_of_a_refused_job_is_found_however_it_is_known(row, scenario, what):
    """Nothing is created, not for a moment: by owner, label, annotation or name."""
    base = recordings.embedded(scenario)
    answer = next(a for a in attribution.answers(base).values() if not a.accepted)
    kind, obj = MADE[what](answer.name)
    made = dataclasses.replace(
        answer.line, t=answer.line.t + 0.01, type="ADDED", kind=kind, object=obj, data={}
    )
    finding = judged(row, mutants.with_lines(base, (*base.lines, made)))
    assert finding.verdict == "fail"
    assert finding.violation


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "Job.batch.volcano.sh"])
@pytest.mark.parametrize(("row", "scenario"), ROWS)
def test_that_nothing_was_created_must_have_been_watched(row, scenario, kind):
    """A kind that was not watched through the window may have had objects of the refused Jobs."""
    base = recordings.embedded(scenario)
    end = next(iter(base.notes("window-end"))).t
    blind = [dataclasses.replace(s, end=end - 0.3) if s.kind == kind else s for s in base.spans]
    finding = judged(row, Evidence(base.lines, header=base.header, spans=blind))
    assert finding.verdict == "inconclusive"
    assert f"{kind} was not watched" in finding.observed


@pytest.mark.parametrize(("row", "scenario"), ROWS)
def test_a_window_must_follow_the_last_refusal(row, scenario):
    """A controller that works on what was refused needs a moment: the end of the watching comes a window later."""
    base = recordings.embedded(scenario)
    short = mutants.without(base, lambda line: str(line.data.get("note")).startswith("window"))
    stop = [line for line in short.lines if line.data.get("note") != "end"]
    last = max(line.t for line in stop if line.type == "RESPONSE")
    finding = judged(row, mutants.with_lines(short, [line for line in stop if line.t <= last + 0.1]))
    assert finding.verdict == "inconclusive"


def test_of_two_answers_to_a_case_the_one_that_took_it_counts():
    """A Job that was accepted first and refused when it was tried again was accepted."""
    base = recordings.embedded(INVALID)
    first = next(line for line in base.responses() if line.data.get("case") == "duplicate-task")
    taken = dataclasses.replace(first, t=first.t - 0.001, data={**first.data, "code": 201, "status": {}})
    assert judged("REF-003", mutants.with_lines(base, (*base.lines, taken))).verdict == "fail"


def test_in_a_recording_some_valid_job_must_have_been_accepted():
    """Nobody made controls for a recording: where no Job at all was taken, everything may have been refused."""
    base = recordings.stream("d-refusals")
    refusing = mutants.without(base, lambda line: bool(line.data.get("accepted_spec")))
    assert recordings.JUDGES["REF-003"](base, {}).verdict == "pass"
    assert recordings.JUDGES["REF-003"](refusing, {}).verdict == "inconclusive"
