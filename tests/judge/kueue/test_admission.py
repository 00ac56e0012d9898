"""The judges of Kueue on recorded streams of Kueue v0.17.0, right and wrong."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Span
from pytest_gpucluster.evidence.scheduling import kueue, kueue_workloads
from pytest_gpucluster.judge.kueue import over_quota, shared, wait_for_pods_ready
from pytest_gpucluster.requirement import Finding, Verdict
from tests import amount, recordings

PASS, FAIL, NO, NOT_DECLARED = "pass", "fail", "inconclusive", "not_applicable"

ROWS = tuple(row for row in recordings.JUDGES if row.startswith("KUE-"))

OFF = {"KUE-004": NOT_DECLARED}
"""Neither waitForPodsReady nor a topology was configured there."""

DECIDED: dict[str, dict[str, str]] = {
    "k1-admitted": {"KUE-001": PASS, **OFF},
    "k1b-not-suspended-by-user": {"KUE-001": PASS, **OFF},
    "k2-over-quota-never-fits": {"KUE-001": PASS, "KUE-002": PASS, **OFF},
    "k2b-unknown-local-queue": {"KUE-008": PASS, **OFF},
    "k2c-uncovered-resource": {"KUE-002": PASS, **OFF},
    "k3-two-jobs-room-for-one": {"KUE-001": PASS, "KUE-003": PASS, **OFF},
    "k4-hold": {"KUE-001": PASS, **OFF},
    "k4b-hold-and-drain": {"KUE-001": PASS, "KUE-005": PASS, **OFF},
    "k5-quota-above-capacity": {"KUE-009": PASS, **OFF},
    "k6-validation": {"KUE-001": PASS, **OFF},
    "k7-waitforpodsready-timeout": {
        "KUE-004": PASS,
        "KUE-005": PASS,
        "KUE-009": PASS,
    },
    "k8-block-admission-two-gangs": {"KUE-001": PASS},
    "k9-without-admission": {"KUE-001": FAIL, "KUE-002": FAIL, "KUE-005": FAIL, **OFF},
}

TEXTS = [
    ("k1b-not-suspended-by-user", "KUE-001", "was stored suspended, admitted whole"),
    ("k2-over-quota-never-fits", "KUE-002", "insufficient quota for nvidia.com/gpu"),
    ("k2c-uncovered-resource", "KUE-002", "resource rdma/hca unavailable"),
    ("k2b-unknown-local-queue", "KUE-008", "LocalQueue nosuch doesn't exist"),
    (
        "k3-two-jobs-room-for-one",
        "KUE-003",
        "right ran whole and its last pod ended at t=3.00 s; left waited",
    ),
    ("k4b-hold-and-drain", "KUE-005", "its quota was free 0.22 s later"),
    ("k5-quota-above-capacity", "KUE-009", "16 of 17 members bound"),
    ("k5-quota-above-capacity", "KUE-009", "17 nvidia.com/gpu of 64 nvidia.com/gpu"),
    ("k7-waitforpodsready-timeout", "KUE-004", "(16 of 17 pods bound) was evicted 4.5 s after its admission"),
    ("k7-waitforpodsready-timeout", "KUE-004", "was admitted again at t=7.29 s"),
    ("k9-without-admission", "KUE-002", "17 pods of it existed from t=4.40 s until t=6.40 s, 16 of them ran"),
    ("k9-without-admission", "KUE-001", "seen with suspend false at t=9.46 s, without quota"),
]


def _judge(row: str, lines: list[dict[str, Any]], **told: Any) -> Finding:
    return recordings.JUDGES[row](recordings.evidence_of(lines), told)


def _edited(name: str, change: Any) -> list[dict[str, Any]]:
    lines = [json.loads(json.dumps(line)) for line in recordings.raw(name)]
    return [line for line in lines if change(line) is not False]


def _of(line: dict[str, Any], kind: str, name: str) -> bool:
    obj = line.get("object") or {}
    return obj.get("kind") == kind and obj["metadata"]["name"].startswith(name)


def test_the_table_names_every_stream():
    """A stream that is added has to be judged on purpose."""
    assert set(DECIDED) == {folder.name for folder in recordings.KUEUE.iterdir()}


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_every_row_on_every_stream(name: str):
    """Each stream gets exactly the verdicts of the table; a fail is a violation and is complete."""
    found = {row: recordings.JUDGES[row](recordings.stream(name), {}) for row in ROWS}
    assert {row: str(f.verdict) for row, f in found.items()} == {
        row: DECIDED[name].get(row, NO) for row in ROWS
    }
    for finding in found.values():
        if finding.verdict is Verdict.FAIL:
            assert finding.violation
            assert finding.where
            assert finding.evidence
            assert finding.repeat
            assert all(cause.text and cause.fix for cause in finding.causes)


@pytest.mark.parametrize(("name", "row", "text"), TEXTS)
def test_what_is_said(name: str, row: str, text: str):
    """The observed part names what decides, with numbers."""
    assert text in recordings.JUDGES[row](recordings.stream(name), {}).observed


def test_without_webhooks_one_fitting_job_that_was_stored_suspended_is_fine():
    """k9: who submits suspended is served well; the cause named for the others is the missing webhook."""
    evidence = recordings.stream("k9-without-admission")
    first = kueue.held(evidence)[0]
    assert first.gang.name == "fits"
    assert first.loose is None
    finding = over_quota.over_quota_held(evidence, {})
    assert "webhook" in finding.causes[0].text


def test_conditions_that_are_there_and_false_prove_nothing():
    """After its second admission a Workload still has Evicted, with status False: no eviction, and no pending one."""
    (workload,) = kueue_workloads.workloads(recordings.stream("k4b-hold-and-drain"))
    assert len(workload.when("Evicted")) == 1
    assert [one.message for one in workload.when("Evicted", "False")] == [
        "Previously: The ClusterQueue is stopped"
    ]
    assert len(workload.reserved) == 2
    only_presence = _edited(
        "k4b-hold-and-drain",
        lambda line: (
            [
                c.update(status="False")
                for c in ((line.get("object") or {}).get("status") or {}).get("conditions", [])
                if _of(line, "Workload", "job-run") and c["type"] == "Evicted"
            ]
            and None
        ),
    )
    assert _judge("KUE-005", only_presence).verdict is Verdict.INCONCLUSIVE


def test_an_eviction_that_keeps_its_quota_is_found():
    """Kueue #14811: Evicted, Admitted and QuotaReserved are all True, and stay so."""
    stays: dict[str, Any] = {}

    def keep(line: dict[str, Any]) -> None:
        if not _of(line, "Workload", "job-run"):
            return
        status = line["object"].get("status", {})
        if any(c["type"] == "Evicted" and c["status"] == "True" for c in status.get("conditions", [])):
            stays.setdefault("status", status)
        if stays:
            line["object"]["status"] = stays["status"]

    finding = _judge("KUE-005", _edited("k4b-hold-and-drain", keep))
    assert finding.verdict is Verdict.FAIL
    assert "is Evicted (ClusterQueueStopped) since t=2.15 s and held its quota" in finding.observed


def test_a_pod_for_a_moment_breaks_the_refusal():
    """One pod of the Job above quota, for a tenth of a second, is enough."""
    evidence = recordings.stream("k2-over-quota-never-fits")
    job = next(one for one in kueue.held(evidence) if one.gang.name == "toobig")
    pod = json.loads(json.dumps(next(line for line in evidence.of_kind("Pod")).object))
    pod["metadata"].update(name="toobig-0-x", uid="x")
    pod["metadata"]["ownerReferences"][0].update(name="toobig", uid=job.gang.uid)
    extra = [{"t": t, "type": kind, "object": pod} for t, kind in ((3.0, "ADDED"), (3.1, "DELETED"))]
    base = recordings.raw("k2-over-quota-never-fits")
    finding = _judge("KUE-002", [*base, *extra])
    assert finding.verdict is Verdict.FAIL
    assert "1 pod of it existed from t=3.00 s until t=3.10 s" in finding.observed


def test_a_gap_in_the_watch_leaves_never_open():
    """Where pods were not watched for a second nobody can say that there was none."""
    lines = recordings.raw("k2-over-quota-never-fits")
    spans = (
        Span("Pod", 0.0, 2.0, "test"), Span("Pod", 3.0, 9.0, "test"), Span("Job.batch", 0.0, 9.0, "test"),
        Span("Workload", 0.0, 9.0, "test"),
    )  # fmt: skip
    finding = over_quota.over_quota_held(recordings.evidence_of(lines, spans=spans), {})
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "was not watched from t=2.00 s to 3.00 s" in finding.observed


def test_a_timeout_is_held_against_what_the_profile_says():
    """A gang that is evicted long after the declared timeout fails; one within it passes with its number."""
    evidence = recordings.stream("k7-waitforpodsready-timeout")
    good = wait_for_pods_ready.evicts_what_is_not_ready(evidence, {"wait_for_pods_ready": 5})
    assert good.verdict is Verdict.PASS
    assert [(n.name, n.bound) for n in good.numbers] == [("evicted after", 5.0)]
    late = [
        line if line["t"] < 5 else {**line, "t": line["t"] + 9}
        for line in recordings.raw("k7-waitforpodsready-timeout")
    ]
    assert _judge("KUE-004", late, wait_for_pods_ready=5).verdict is Verdict.FAIL


def test_a_gang_that_is_never_evicted_fails_only_where_a_timeout_is_declared():
    """k5 has no waitForPodsReady: declared or not decides between a fail and a row that does not apply."""
    evidence = recordings.stream("k5-quota-above-capacity")
    assert wait_for_pods_ready.evicts_what_is_not_ready(evidence, {}).verdict is Verdict.NOT_APPLICABLE
    assert (
        wait_for_pods_ready.evicts_what_is_not_ready(evidence, {"wait_for_pods_ready": 1}).verdict
        is Verdict.FAIL
    )
    assert (
        wait_for_pods_ready.evicts_what_is_not_ready(evidence, {"wait_for_pods_ready": 60}).verdict
        is Verdict.INCONCLUSIVE
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            {"t": 0.1, "type": "RESPONSE", "case": "api:ClusterQueue", "code": 404},
            "the API does not serve ClusterQueue",
        ),
        (
            {"t": 0.1, "type": "NOTE", "note": "refused", "kind": "ClusterQueue", "name": "q", "code": 500},
            "its webhook does not answer",
        ),
        (
            {
                "t": 0.1,
                "type": "NOTE",
                "note": "timed-out",
                "what": "ClusterQueue q is Active",
                "seconds": 5.0,
            },
            "waited 5.0 s in vain until ClusterQueue q is Active",
        ),
    ],
)
@pytest.mark.parametrize("row", ROWS)
def test_kueue_declared_and_absent_is_a_fail(row: str, line: dict[str, Any], text: str):
    """No API, no webhook, no manager: every row fails with one clear line, and none passes."""
    roles = {"queue": [{"kind": "ClusterQueue", "name": "q", "uid": "u"}]}
    finding = _judge(row, [line], roles=roles, topology={"levels": ["a/rack"], "required": "a/rack"})
    assert finding.verdict is Verdict.FAIL
    assert text in finding.observed
    assert finding.causes


FEW = amount.examples(40, suppress_health_check=[HealthCheck.too_slow])
SMALL = [name for name in DECIDED if not name.startswith(("k7", "k9"))]


def _ask(lines: list[dict[str, Any]], told: dict[str, Any]) -> dict[str, Verdict]:
    evidence = recordings.evidence_of(lines)
    assert shared.control_ran(evidence, told).held in (True, False, None)
    return {row: recordings.JUDGES[row](evidence, told).verdict for row in ROWS}


@FEW
@given(name=st.sampled_from(SMALL), data=st.data())
def test_no_subset_and_no_order_makes_a_judge_raise(name: str, data: st.DataObject):
    """Whatever lines are missing, and in whatever order they come, every judge answers."""
    lines = [dict(line) for line in recordings.raw(name)]
    keep = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    _ask([line for line, kept in zip(lines, keep, strict=True) if kept], {})
    for line in lines:
        line["t"] = data.draw(st.floats(0, 20))
    _ask(
        lines, {"roles": {data.draw(st.sampled_from(["subject", "left", "over-quota"])): ["fits", "toobig"]}}
    )


@FEW
@given(data=st.data())
def test_no_truncation_turns_a_fail_into_a_pass(data: st.DataObject):
    """A row that fails on the whole of k9 does not pass on a beginning of it that shows the violation's start."""
    lines = recordings.raw("k9-without-admission")
    stop = data.draw(st.integers(1, len(lines)))
    whole, part = _ask(lines, {}), _ask(lines[:stop], {})
    for row, verdict in whole.items():
        if verdict is Verdict.FAIL and row != "KUE-001":  # which passes until the Job comes that was not held
            assert part[row] is not Verdict.PASS, row


def test_what_our_own_cleaning_up_leaves_for_a_while_is_no_disagreement():
    """Real kubelets: the Job and its Workload are gone seconds before its pods are told to end."""

    def linger(line: dict[str, Any]) -> Any:
        obj = line.get("object") or {}
        return not (line["t"] > 1.6 and obj.get("kind") in ("Pod", "Job", "Workload"))

    lines = _edited("k4b-hold-and-drain", linger)
    last = {
        kind: next(o for o in reversed(lines) if _of(o, kind, name))
        for kind, name in (("Job", "run"), ("Workload", "job-run"))
    }
    lines.append({"t": 2.0, "type": "NOTE", "note": "end"})
    lines += [{**last[kind], "t": t, "type": "DELETED"} for kind, t in (("Job", 2.1), ("Workload", 9.0))]
    lines.append({"t": 12.0, "type": "NOTE", "text": "end of window"})
    finding = _judge("KUE-005", lines)
    assert finding.verdict is Verdict.INCONCLUSIVE, finding.observed
    early = [line for line in lines if line.get("note") != "end"]
    assert "held quota for 6.9 s after its Job was gone" in _judge("KUE-005", early).observed


@pytest.mark.parametrize("row", ["KUE-001", "KUE-002", "KUE-003", "KUE-005", "KUE-008"])
def test_a_job_of_which_only_the_end_was_seen_decides_nothing(row):
    """Whether it was suspended, and when it came, is not known."""
    evidence = recordings.stream("k1-admitted")
    last = [line for line in evidence.lines if line.kind == "Job.batch"][-1]
    gone = dataclasses.replace(last, type="DELETED")
    lines = [
        gone if line is last else line for line in evidence.lines if line.kind != "Job.batch" or line is last
    ]
    found = recordings.JUDGES[row](mutants.with_lines(evidence, lines), evidence.given)
    assert found.verdict in {Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE}
