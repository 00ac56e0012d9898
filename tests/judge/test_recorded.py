"""What every judge says of every recorded stream, as it is and without being told anything."""

import pytest

from pytest_gpucluster.evidence.log import ingest
from tests import recordings

PASS, FAIL, NO, NOT_DECLARED = "pass", "fail", "inconclusive", "not_applicable"

DECIDED: dict[str, dict[str, str]] = {
    "a-gang-fits": {"GANG-001": PASS, "PLG-001": PASS, "LIFE-001": PASS},
    # The queue declares no capability: the row does not apply.
    "b1-over-capacity-by-one-gpu": {"GANG-001": PASS, "REF-001": PASS, "REF-002": NOT_DECLARED},
    "b2-fragmentation": {},
    "b3-room-for-n-minus-one-then-room": {"GANG-001": PASS, "GANG-002": PASS},
    "b4-min-below-replicas": {"GANG-001": PASS},
    "b5-per-task-minimum": {"GANG-001": PASS, "REF-001": PASS, "REF-002": NOT_DECLARED},
    "b6-inqueue-gang-blocks-others": {"GANG-001": PASS, "REF-001": PASS, "REF-007": PASS},
    "b7-shortfall-filler-same-queue": {"GANG-001": PASS},
    "b7b-shortfall-filler-same-queue-fragment": {"GANG-001": PASS, "GANG-002": PASS},
    "b7c-shortfall-filler-other-queue": {"GANG-001": PASS, "GANG-002": PASS},
    **{f"c-two-gangs-run{n}": {"GANG-001": PASS} for n in range(5)},
    # No pod of the loser would have fitted: nothing bound is weak evidence of a gang rule.
    **{f"c2-two-gangs-gang-gate-run{n}": {"GANG-001": PASS} for n in range(3)},
    "c2-two-gangs-gang-gate-sum-over-total": {"GANG-001": PASS},
    **{
        f"c2-two-gangs-gang-gate-{name}": {"GANG-001": PASS, "GANG-002": PASS, "GANG-004": PASS}
        for name in (
            *(f"four-nodes-run{n}" for n in range(3)),
            *(f"swapped-run{n}" for n in range(3)),
            "three-nodes-equal",
            "two-nodes",
            "two-queues",
        )
    },
    **{
        f"c3-two-gangs-without-gang-plugin-{name}": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-004": FAIL}
        for name in (
            *(f"four-nodes-run{n}" for n in range(3)),
            *(f"run{n}" for n in range(3)),
            "swapped",
            "three-nodes-equal",
            "two-nodes",
        )
    },
    "d-refusals": {"REF-003": PASS, "REF-004": PASS},
    "e1-env-svc-ssh": {"GANG-001": PASS, "LIFE-001": PASS},
    "e2-pytorch": {"GANG-001": PASS, "PLG-001": PASS, "LIFE-001": PASS},
    "e3-mpi": {"GANG-001": PASS, "LIFE-001": PASS},
    "e4-pytorch-wrong-task-name": {"GANG-001": PASS, "PLG-001": FAIL, "PLG-005": PASS},
    "e5-pytorch-wait-master": {"GANG-001": PASS, "PLG-001": PASS, "LIFE-001": PASS},
    "e6-pytorch-wrong-worker-name": {"GANG-001": PASS, "PLG-001": FAIL, "PLG-005": PASS, "LIFE-001": PASS},
    "f1-podfailed-restartjob-maxretry": {"GANG-001": PASS},
    "f10-node-lost-below-min": {"GANG-001": PASS},
    "f11-finished-member-deleted": {"GANG-001": PASS, "LIFE-002": PASS},
    "f11b-finished-member-deleted-podevicted-restartjob": {"GANG-001": PASS, "LIFE-002": PASS},
    "f2-podevicted-restartjob": {"GANG-001": PASS},
    "f3-pod-deleted-no-policy": {"GANG-001": PASS},
    "f4-abort-resume": {"GANG-001": PASS},
    "f5-ttl": {"GANG-001": PASS},
    "f6-no-complete-policy-lingers": {"GANG-001": PASS, "LIFE-002": PASS},
    "f7-minsuccess": {"GANG-001": PASS},
    "f8-exitcode-terminate": {"GANG-001": PASS},
    "f9-podfailed-abort": {"GANG-001": PASS},
    "g1-queue-capability": {"GANG-001": PASS, "REF-002": PASS},
    "g2-queue-close-reopen": {"GANG-001": PASS, "REF-004": PASS, "INV-005": FAIL},
    "g3-priority-order": {"GANG-001": PASS, "LIFE-013": PASS},
    "g4-preempt-action": {"GANG-001": PASS, "REF-002": NOT_DECLARED},
    "g5-preempt-elastic-victim": {"GANG-001": PASS, "REF-006": PASS, "LIFE-014": PASS},
    "h1-default-scheduler-over-capacity": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-008": PASS, "REF-001": FAIL},
    "h2-default-scheduler-two-gangs": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-004": FAIL, "GANG-008": PASS},
    "h3-vcjob-under-default-scheduler": {},
    "h4-default-scheduler-two-gangs-partial": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-004": FAIL, "GANG-008": PASS},
    "h5-vcjob-fragmented-under-default-scheduler": {
        "GANG-001": FAIL, "GANG-002": FAIL, "GANG-008": PASS, "REF-001": FAIL,
    },
    "h6-volcano-without-gang-plugin": {"GANG-001": FAIL, "GANG-002": FAIL, "REF-001": FAIL},
    "l1-scheduler-not-running": {"INV-001": FAIL, "GANG-001": PASS, "REF-008": PASS},
    "r1-real-kubelet-pytorch-gang": {"GANG-001": PASS, "PLG-001": PASS, "LIFE-001": PASS},
    "r2-real-kubelet-podevicted-restartjob": {"GANG-001": PASS},
    "r3-real-kubelet-evicted-and-failed-policies": {"GANG-001": PASS},
    "r4-real-kubelet-podfailed-maxretry": {"GANG-001": PASS},
    "r5-real-kubelet-over-capacity": {},
    "r6-real-kubelet-topology-affinity-error": {"GANG-001": PASS, "NUMA-002": PASS},
    "r7-real-kubelet-indexed-job-headless-service": {"GANG-001": PASS},
    "native-basic-policy-partial": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-008": PASS, "REF-001": FAIL},
    "native-gang-fits": {"GANG-001": PASS},
    "native-gang-over-capacity": {},
    "native-gang-room-appears": {"GANG-001": PASS, "GANG-002": PASS},
    "native-group-missing": {},
    "native-job-gang-fits": {"GANG-001": PASS},
    "native-job-gang-over-capacity": {},
    "native-job-min-below-parallelism": {"GANG-001": PASS},
    "native-job-without-policy-partial": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-008": PASS, "REF-001": FAIL},
    "native-two-job-gangs-room-for-one": {"GANG-001": PASS, "GANG-002": PASS, "GANG-004": PASS},
    "native-two-jobs-without-policy": {"GANG-001": FAIL, "GANG-002": FAIL, "GANG-004": FAIL, "GANG-008": PASS},
}  # fmt: skip
"""Stream -> what is decided about it; every row that is not named is inconclusive."""

COMPLETED = (
    "a-gang-fits", "b1-over-capacity-by-one-gpu", "b3-room-for-n-minus-one-then-room", "b6-inqueue-gang-blocks-others",
    "b7-shortfall-filler-same-queue", "b7b-shortfall-filler-same-queue-fragment", "b7c-shortfall-filler-other-queue",
    *(name for name in DECIDED if name.startswith(("c-", "c2-", "e"))), "f11-finished-member-deleted",
    "f11b-finished-member-deleted-podevicted-restartjob", "f2-podevicted-restartjob", "f3-pod-deleted-no-policy",
    "f4-abort-resume", "f5-ttl", "f7-minsuccess", "g1-queue-capability", "g2-queue-close-reopen", "g3-priority-order",
    "g5-preempt-elastic-victim", "l1-scheduler-not-running", "r1-real-kubelet-pytorch-gang",
    "r2-real-kubelet-podevicted-restartjob", "r6-real-kubelet-topology-affinity-error",
)  # fmt: skip
"""Streams in which a Volcano Job completes."""

LIFECYCLE: dict[str, dict[str, str]] = {
    "f1-podfailed-restartjob-maxretry": {"LIFE-004": PASS, "LIFE-007": PASS},
    "f11-finished-member-deleted": {"LIFE-010": FAIL},
    "f11b-finished-member-deleted-podevicted-restartjob": {"LIFE-003": PASS, "LIFE-010": FAIL},
    "f2-podevicted-restartjob": {"LIFE-003": PASS},
    "f4-abort-resume": {"LIFE-009": PASS},
    "f5-ttl": {"LIFE-005": PASS},
    "f7-minsuccess": {"LIFE-006": PASS},
    "f8-exitcode-terminate": {"LIFE-007": PASS},
    "f9-podfailed-abort": {"LIFE-007": PASS},
    "r2-real-kubelet-podevicted-restartjob": {"LIFE-003": PASS},
    # The killed process made the pod Failed: the policy for PodFailed acted, the one for PodEvicted was not tried.
    "r3-real-kubelet-evicted-and-failed-policies": {"LIFE-007": PASS},
    "r4-real-kubelet-podfailed-maxretry": {"LIFE-004": PASS, "LIFE-007": PASS},
}
"""The same for how jobs end."""

for _name in (*COMPLETED, *LIFECYCLE):
    DECIDED[_name] = {
        **DECIDED[_name], **({"LIFE-008": PASS} if _name in COMPLETED else {}), **LIFECYCLE.get(_name, {}),
    }  # fmt: skip

TEXTS = [
    (
        "f11-finished-member-deleted",
        "LIFE-010",
        "mixed-master-0 of Job.batch.volcano.sh/mixed had ended with 0",
    ),
    ("f5-ttl", "LIFE-005", "removed 2.1 s later with its 2 pods"),
    ("f4-abort-resume", "LIFE-009", "retries used: 1"),
    (
        "r3-real-kubelet-evicted-and-failed-policies",
        "LIFE-003",
        "before it was gone, so PodFailed -> AbortJob acted",
    ),
    ("r4-real-kubelet-podfailed-maxretry", "LIFE-004", "2 of 2 attempts"),
    ("b7-shortfall-filler-same-queue", "GANG-002", "refused before the gang gate"),
    ("c-two-gangs-run0", "GANG-004", "refused before the gang gate"),
    ("c2-two-gangs-gang-gate-run0", "GANG-004", "weak evidence"),
    ("a-gang-fits", "GANG-002", "never scarce"),
    ("b2-fragmentation", "REF-001", "the control control did not run"),
    ("g1-queue-capability", "REF-001", "queue small may have 8"),
    ("g1-queue-capability", "REF-002", "it asks for 9 nvidia.com/gpu and queue small may have 8"),
    ("b1-over-capacity-by-one-gpu", "REF-002", "its queue default declares no capability"),
    ("b1-over-capacity-by-one-gpu", "REF-005", "no fitting Job was seen to start in another queue"),
    ("b6-inqueue-gang-blocks-others", "REF-005", "it is what blocks the others (REF-007)"),
    ("b6-inqueue-gang-blocks-others", "REF-007", "after the enqueued gang was gone"),
    ("b2-fragmentation", "REF-007", "nothing shows that it would have fitted"),
    ("d-refusals", "REF-004", "closed-queue (closed-q, Closed): HTTP 400 by validatejob.volcano.sh"),
    ("g2-queue-close-reopen", "REF-004", "closed-queue (small, Closing)"),
    ("l1-scheduler-not-running", "REF-008", "was not refused: its PodGroup had no phase for 10.5 s"),
    ("r5-real-kubelet-over-capacity", "REF-008", "every gang was handled"),
    ("l1-scheduler-not-running", "INV-001", "had no phase for 10.5 s"),
    ("h5-vcjob-fragmented-under-default-scheduler", "GANG-002", "2 of 3 members bound"),
    ("h5-vcjob-fragmented-under-default-scheduler", "GANG-008", "schedulerName"),
    ("c3-two-gangs-without-gang-plugin-three-nodes-equal", "GANG-004", "mutual starvation"),
    ("e4-pytorch-wrong-task-name", "PLG-005", "--master="),
    ("e6-pytorch-wrong-worker-name", "PLG-005", "--worker="),
]

NO_VOLCANO_PODS = {
    "d-refusals": "refused",
    "h1-default-scheduler-over-capacity": "no Volcano Job",
    "h2-default-scheduler-two-gangs": "no Volcano Job",
    "h3-vcjob-under-default-scheduler": "refused at enqueue",
    "h4-default-scheduler-two-gangs-partial": "no Volcano Job",
    "r5-real-kubelet-over-capacity": "refused at enqueue",
    "r7-real-kubelet-indexed-job-headless-service": "no Volcano Job",
}
"""Volcano streams in which no pod of a Volcano Job shows its labels."""

WITH_HOSTS = {
    "a-gang-fits", "e1-env-svc-ssh", "e2-pytorch", "e3-mpi", "e4-pytorch-wrong-task-name", "e5-pytorch-wait-master",
    "e6-pytorch-wrong-worker-name", "f5-ttl", "r1-real-kubelet-pytorch-gang",
}  # fmt: skip
"""Streams with a Job that has the svc or env plugin, and pods."""

WITH_MASTER = {
    "a-gang-fits", "e2-pytorch", "e5-pytorch-wait-master", "e6-pytorch-wrong-worker-name",
    "r1-real-kubelet-pytorch-gang",
}  # fmt: skip
"""Streams with a Job whose pytorch plugin found its master."""


NEVER_BOUND = {
    "b2-fragmentation", "d-refusals", "h3-vcjob-under-default-scheduler", "r5-real-kubelet-over-capacity",
    "native-gang-over-capacity", "native-group-missing", "native-job-gang-over-capacity",
}  # fmt: skip
"""Streams in which no gang was bound; of all others the spreads are measured, and no bound is declared."""


SHORT = {
    "f10-node-lost-below-min": {"GANG-009": PASS, "GANG-010": PASS},
    "f3-pod-deleted-no-policy": {"GANG-009": PASS, "GANG-010": PASS},
    # A member that had ended was taken away, killed on its way to a restart, or failed: the PodGroup says each.
    "f11-finished-member-deleted": {"GANG-009": PASS},
    "r2-real-kubelet-podevicted-restartjob": {"GANG-009": PASS},
    "r4-real-kubelet-podfailed-maxretry": {"GANG-009": PASS},
}
"""Streams in which a gang that had been whole was short of a member for long enough that its PodGroup said so."""


def expected(name: str) -> dict[str, str]:
    """Return what is decided about a stream: the table's rows, and those that most streams decide alike."""
    volcano = (recordings.VOLCANO / name).is_dir()
    labelled = {"PLG-007": PASS} if volcano and name not in NO_VOLCANO_PODS else {}
    spread = {"GANG-007": NOT_DECLARED} if name not in NEVER_BOUND else {}
    ported = {"PLG-002": PASS} if name in WITH_MASTER else {}
    hosts = {"PLG-006": PASS} if name in WITH_HOSTS else {}
    # No recorded node is cordoned or carries a mark of a health system.
    well = {"HLT-005": PASS} if recordings.stream(name).of_kind("Node") else {}
    return {**labelled, **spread, **ported, **hosts, **well, **SHORT.get(name, {}), **DECIDED[name]}


def test_the_table_names_every_stream():
    """A stream that is added has to be judged on purpose."""
    assert set(DECIDED) == {folder.name for folder in recordings.folders()}


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_every_judge_on_every_stream(name: str):
    """Each recorded stream gets exactly the verdicts of the table, and each violation is marked as one."""
    evidence = recordings.stream(name)
    found = {row: judge(evidence, {}) for row, judge in recordings.JUDGES.items()}
    verdicts = {row: str(finding.verdict) for row, finding in found.items()}
    assert verdicts == {row: expected(name).get(row, NO) for row in recordings.JUDGES}
    assert {row for row, finding in found.items() if finding.violation} == {
        row for row, verdict in DECIDED[name].items() if verdict == FAIL
    }


@pytest.mark.parametrize(("name", "row", "text"), TEXTS)
def test_what_is_said(name: str, row: str, text: str):
    """The observed part names what decides, with numbers."""
    assert text in recordings.JUDGES[row](recordings.stream(name), {}).observed


@pytest.mark.parametrize("name", sorted(name for name, rows in DECIDED.items() if FAIL in rows.values()))
def test_a_finding_is_complete(name: str):
    """A fail says what is required and observed, where, why with a fix, by which lines, and how to look again."""
    for row, verdict in DECIDED[name].items():
        finding = recordings.JUDGES[row](recordings.stream(name), {})
        if verdict == FAIL:
            assert finding.required
            assert finding.observed
            assert finding.evidence
            assert finding.repeat
            assert all(cause.text and cause.fix for cause in finding.causes)
            assert finding.causes
            assert finding.as_dict()["verdict"] == "fail"


@pytest.mark.parametrize("name", sorted(name for name, rows in DECIDED.items() if FAIL in rows.values()))
def test_no_prefix_of_a_failing_stream_passes_the_failed_row(name: str):
    """Whatever is cut off the end of a stream that ends in a violation, the row never passes."""
    lines = [o for o in ingest.lines_of(recordings.stream(name)) if o["type"] not in ("HEADER", "SPAN")]
    for stop in range(1, len(lines), 3):
        evidence = recordings.evidence_of(lines[:stop])
        for row, verdict in DECIDED[name].items():
            if verdict == FAIL:
                assert recordings.JUDGES[row](evidence, {}).verdict != PASS, (row, stop)


def test_attribution_of_a_refusal_is_data():
    """Who refused a gang, at which gate and why, stands in the finding as data."""
    refusal = recordings.JUDGES["REF-001"](recordings.stream("b1-over-capacity-by-one-gpu"), {}).refusal
    assert refusal is not None
    assert (refusal.reporter, refusal.reason, refusal.meaning) == ("volcano", "Unschedulable", "enqueue")


def test_what_was_scarce_is_named():
    """The currency of a gang that asks for GPUs is gpu."""
    assert (
        recordings.JUDGES["GANG-002"](recordings.stream("b3-room-for-n-minus-one-then-room"), {}).currency
        == "gpu"
    )
