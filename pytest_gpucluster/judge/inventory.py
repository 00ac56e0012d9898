"""INV-001: the declared gang scheduler is there, and its three parts answer."""

from collections.abc import Sequence
from typing import Any

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.gangs import Gang
from pytest_gpucluster.evidence.model import Evidence, Line
from pytest_gpucluster.judge import attribution, kueue_parts, native_parts, say, terms
from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "the scheduler's APIs are served, its admission fills in a dry-run Job, its controllers make a PodGroup, and its "
    "scheduler gives it a phase"
)
API_CASE = "api:"
DRY_RUN_CASE = "dry-run"

ADMISSION = Cause(
    "no mutating admission filled in the Job: schedulerName, minAvailable or task names stayed empty",
    "install the admission (vc-webhook-manager) and check `kubectl get mutatingwebhookconfigurations` for Jobs of "
    "batch.volcano.sh",
)
CONTROLLERS = Cause(
    "the controllers did not make a PodGroup for the Job",
    "check that vc-controller-manager runs and that the CRDs are complete (kubectl get crd | grep volcano.sh)",
)


@terms.judge
def scheduler_answers(evidence: Evidence, given: terms.Given) -> Finding:
    """Judge INV-001."""
    declared = str(given.get("scheduler") or "volcano")
    if declared == schedulers.NATIVE:
        return _together(native_parts.answers(evidence, given), native_parts.REQUIRED)
    if declared == schedulers.KUEUE:
        return _together(kueue_parts.answers(evidence, given), kueue_parts.REQUIRED)
    if declared != schedulers.VOLCANO:
        text = f"{declared} is no gang scheduler with parts of its own"
        return say.finding(Verdict.NOT_APPLICABLE, REQUIRED, text)
    parts = (
        _apis(evidence),
        _admission(evidence),
        _controllers(evidence, given),
        phase_given(evidence, given),
    )
    return _together(parts, REQUIRED)


def _together(parts: Sequence[Finding], required: str) -> Finding:
    """Return the one finding of a scheduler's parts, all of which must answer."""
    worst = say.gravest(parts)
    if worst.verdict is Verdict.FAIL:
        return worst
    text = "; ".join(part.observed for part in parts)
    keys = tuple(key for part in parts for key in part.evidence)
    numbers = tuple(number for part in parts for number in part.numbers)
    return say.finding(worst.verdict, required, text, evidence=keys, causes=worst.causes, numbers=numbers)


def _part(verdict: Verdict, text: str, key: str = "", *causes: Cause, **more: Any) -> Finding:
    keys = (key,) if key else ()
    repeat = ("kubectl api-resources | grep volcano.sh", "kubectl -n volcano-system get pods")
    return say.finding(verdict, REQUIRED, text, evidence=keys, causes=causes, repeat=repeat, **more)


def _answers(evidence: Evidence) -> list[Line]:
    return [line for line in evidence.responses() if str(line.data.get("case") or "").startswith(API_CASE)]


def _apis(evidence: Evidence) -> Finding:
    answers = _answers(evidence)
    missing = {
        str(a.data["case"]).removeprefix(API_CASE): a for a in answers if not attribution.answer(a).accepted
    }
    if missing:
        line = next(iter(missing.values()))
        text = f"not served: {say.listed(sorted(missing), 4)}"
        return _part(Verdict.FAIL, text, line.key, say.NOT_INSTALLED, violation=True)
    if answers:
        return _part(Verdict.PASS, f"{len(answers)} API kinds served", answers[0].key)
    seen = [kind for kind in (names.VC_JOB, "PodGroup") if evidence.of_kind(kind)]
    if len(seen) == 2:
        return _part(
            Verdict.PASS, "Volcano Jobs and PodGroups are served", evidence.of_kind("PodGroup")[0].key
        )
    return _part(Verdict.INCONCLUSIVE, "whether the APIs are served was not asked")


def _admission(evidence: Evidence) -> Finding:
    line = next((r for r in evidence.responses() if r.data.get("case") == DRY_RUN_CASE), None)
    if line is None:
        return _part(Verdict.INCONCLUSIVE, "admission was not asked with a dry-run Job")
    answer = attribution.answer(line)
    if not answer.accepted:
        text = (
            f"the dry-run Job was refused: HTTP {answer.code} by {answer.component} ({answer.message[:160]})"
        )
        if answer.at_admission and not answer.volcano and answer.component != attribution.SCHEMA:
            return _part(Verdict.INCONCLUSIVE, text, line.key, attribution.FOREIGN)
        cause = say.NOT_INSTALLED if answer.code == 404 else ADMISSION
        return _part(Verdict.FAIL, text, line.key, cause)
    spec = fields.sub(line.data, "object", "spec") or fields.sub(line.data, "status", "spec")
    if not spec:
        return _part(Verdict.INCONCLUSIVE, "the answer to the dry-run Job carries no object", line.key)
    lacking = [name for name in ("schedulerName", "minAvailable") if not spec.get(name)]
    tasks = fields.items(spec, "tasks")
    if not tasks or any(not task.get("name") for task in tasks):
        lacking.append("task names")
    if lacking:
        text = f"the dry-run Job came back without {', '.join(lacking)}"
        return _part(Verdict.FAIL, text, line.key, ADMISSION, violation=True)
    text = f"admission answers (schedulerName {spec['schedulerName']}, minAvailable {spec['minAvailable']})"
    return _part(Verdict.PASS, text, line.key)


def _probes(evidence: Evidence, given: terms.Given) -> tuple[Gang, ...]:
    named = terms.cast(evidence, given, "subject", "probe")
    return tuple(g for g in (named or terms.everyone(evidence)) if g.kind == names.VC_JOB and g.job)


def _controllers(evidence: Evidence, given: terms.Given) -> Finding:
    probes = _probes(evidence, given)
    if not probes:
        return _part(
            Verdict.INCONCLUSIVE, "no Volcano Job was submitted to see whether the controllers answer"
        )
    with_group = next((gang for gang in probes if gang.groups), None)
    if with_group is not None:
        return _part(Verdict.PASS, f"a PodGroup appeared for {with_group.name}", with_group.groups[0].key)
    job = probes[0]
    end = min(evidence.end, job.job.deleted if job.job and job.job.deleted is not None else evidence.end)
    waited = end - job.created
    if terms.silent(evidence, given, job.created, end) and not evidence.gaps("PodGroup", job.created, end):
        text = f"no PodGroup for {job.title} in {waited:.1f} s"
        return _part(Verdict.FAIL, text, job.job.key if job.job else "", CONTROLLERS, violation=True)
    return _part(Verdict.INCONCLUSIVE, f"no PodGroup for {job.title} yet ({waited:.1f} s)")


def phase_given(evidence: Evidence, given: terms.Given) -> Finding:
    """Judge whether the scheduler gave a phase to each PodGroup, within the time after which it counts as silent."""
    limits = terms.of(evidence, given)
    waits = [(gang, group) for gang in _probes(evidence, given) for group in gang.groups if not group.native]
    if not waits:
        return _part(Verdict.INCONCLUSIVE, "no PodGroup to give a phase to")
    longest = 0.0
    seen = False
    for gang, group in waits:
        first = group.phases[0][0] if group.phases else None
        end = (
            first
            if first is not None
            else min(evidence.end, group.deleted if group.deleted is not None else evidence.end)
        )
        waited = end - group.created
        longest = max(longest, waited)
        seen = seen or first is not None
        missed = terms.silent(evidence, given, group.created, end)
        if missed and not evidence.gaps("PodGroup", group.created, end):
            text = (
                f"the PodGroup of {gang.title} had no phase for {waited:.1f} s: the scheduler does not answer"
            )
            number = Number(
                "time to the first phase", waited, "s", limits.silent, "no phase by then: scheduler silent"
            )
            return _part(
                Verdict.FAIL,
                text,
                group.key,
                say.SCHEDULER_SILENT,
                say.NOT_INSTALLED,
                violation=True,
                numbers=(number,),
            )
    number = Number(
        "time to the first phase", longest, "s", limits.silent, "no phase by then: scheduler silent"
    )
    if not seen:
        return _part(Verdict.INCONCLUSIVE, f"no phase yet after {longest:.1f} s", numbers=(number,))
    return _part(Verdict.PASS, f"the scheduler gave it a phase within {longest:.2f} s", numbers=(number,))
