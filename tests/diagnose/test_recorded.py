"""Every recorded stream at the moments that matter: its cause, from the stream and from a snapshot of that moment."""

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Diagnosis, State
from pytest_gpucluster.evidence import Evidence
from tests import recordings
from tests.diagnose import cases

HEALTHY, STARTING, GONE = "healthy", "starting", "gone"

MOMENTS = {
    "a-gang-fits": ["4.6 fits healthy", "7.7 fits healthy"],
    "b1-over-capacity-by-one-gpu": ["7.8 toobig no-room", "11 toobig room-taken", "11 control healthy"],
    "b2-fragmentation": ["8.4 frag no-room", "17.7 control blocked-by-enqueued"],
    "b3-room-for-n-minus-one-then-room": ["7.8 gang room-taken", "13 gang healthy"],
    "b4-min-below-replicas": ["6 elastic healthy", "12.9 elastic healthy"],
    "b5-per-task-minimum": ["5.5 roles no-room", "11.7 roles2 healthy"],
    "b6-inqueue-gang-blocks-others": [
        "7 frag no-room", "10 small healthy", "14 same-queue blocked-by-enqueued",
        "17 other-queue blocked-by-enqueued", "25 same-queue healthy",
    ],
    "b7-shortfall-filler-same-queue": ["9.5 gang room-taken", "15.8 gang healthy"],
    "b7b-shortfall-filler-same-queue-fragment": ["8.7 gang room-taken", "14.5 gang healthy"],
    "b7c-shortfall-filler-other-queue": ["9.6 gang no-room", "14.2 gang healthy"],
    "c-two-gangs-run0": ["3 left healthy", "3 right room-taken", "9.3 right healthy"],
    "c-two-gangs-run1": ["3 left healthy", "3 right room-taken", "9.3 right healthy"],
    "c-two-gangs-run2": ["3 left healthy", "3 right room-taken", "9.3 right healthy"],
    "c-two-gangs-run3": ["3 left healthy", "3 right room-taken", "9.3 right healthy"],
    "c-two-gangs-run4": ["3 left healthy", "3 right room-taken", "9.3 right healthy"],
    "c2-two-gangs-gang-gate-run0": ["5.3 left healthy", "5.3 right room-taken", "12.7 right healthy"],
    "c2-two-gangs-gang-gate-run1": ["5.3 left healthy", "5.3 right room-taken", "12.7 right healthy"],
    "c2-two-gangs-gang-gate-run2": ["5.3 left healthy", "5.3 right room-taken", "12.7 right healthy"],
    "c2-two-gangs-gang-gate-swapped-run0": ["5.3 left healthy", "5.3 right room-taken", "12.5 right healthy"],
    "c2-two-gangs-gang-gate-swapped-run1": ["5.3 left healthy", "5.3 right room-taken", "12.5 right healthy"],
    "c2-two-gangs-gang-gate-swapped-run2": ["5.3 left healthy", "5.3 right room-taken", "12.5 right healthy"],
    "c2-two-gangs-gang-gate-four-nodes-run0": ["5.3 left healthy", "5.3 right room-taken", "12.5 right healthy"],
    "c2-two-gangs-gang-gate-four-nodes-run1": ["5.3 left healthy", "5.3 right room-taken", "12.5 right healthy"],
    "c2-two-gangs-gang-gate-four-nodes-run2": ["5.3 left healthy", "5.3 right room-taken", "12.5 right healthy"],
    "c2-two-gangs-gang-gate-three-nodes-equal": ["5.3 left healthy", "5.3 right room-taken", "11.1 right healthy"],
    "c2-two-gangs-gang-gate-two-nodes": ["4.8 left healthy", "4.8 right room-taken", "10.3 right healthy"],
    "c2-two-gangs-gang-gate-sum-over-total": ["5.3 left healthy", "5.3 right room-taken", "11.7 right healthy"],
    "c2-two-gangs-gang-gate-two-queues": ["5 right healthy", "5.5 left room-taken", "10.8 left healthy"],
    "c3-two-gangs-without-gang-plugin-four-nodes-run0": ["5.5 left half-placed", "5.5 right half-placed"],
    "c3-two-gangs-without-gang-plugin-four-nodes-run1": ["5.5 left half-placed", "5.5 right half-placed"],
    "c3-two-gangs-without-gang-plugin-four-nodes-run2": ["5.5 left half-placed", "5.5 right half-placed"],
    "c3-two-gangs-without-gang-plugin-three-nodes-equal": ["5.6 left half-placed", "5.6 right half-placed"],
    "c3-two-gangs-without-gang-plugin-run0": ["5.6 right healthy", "5.6 left half-placed"],
    "c3-two-gangs-without-gang-plugin-run1": ["5.6 right healthy", "5.6 left half-placed"],
    "c3-two-gangs-without-gang-plugin-run2": ["5.6 right healthy", "5.6 left half-placed"],
    "c3-two-gangs-without-gang-plugin-swapped": ["5.6 left healthy", "5.6 right half-placed"],
    "c3-two-gangs-without-gang-plugin-two-nodes": ["5.6 left healthy", "5.6 right half-placed"],
    "d-refusals": ["12 pytorch-no-master rank-variables", "12 plugin-bad-argument rank-variables"],
    "e1-env-svc-ssh": ["5.7 plug healthy", "9.5 plug healthy"],
    "e2-pytorch": ["5.8 torch healthy", "9.6 torch healthy"],
    "e3-mpi": ["5.7 mpi healthy", "9.5 mpi healthy"],
    "e4-pytorch-wrong-task-name": ["3.2 nomatch rank-variables", "5.2 nomatch rank-variables"],
    "e5-pytorch-wait-master": ["3.6 waitm healthy", "6 waitm healthy"],
    "e6-pytorch-wrong-worker-name": ["4.7 nowork rank-variables", "7.7 nowork rank-variables"],
    "f1-podfailed-restartjob-maxretry": ["3.2 retry healthy", "10.7 retry retries-exhausted"],
    "f10-node-lost-below-min": ["8.6 lost member-lost", "14.3 lost healthy"],
    "f11-finished-member-deleted": ["5.4 mixed healthy", "14 mixed no-complete-policy", "17.8 mixed healthy"],
    "f11b-finished-member-deleted-podevicted-restartjob": ["20.3 mixed no-complete-policy", "23.9 mixed healthy"],
    "f2-podevicted-restartjob": ["4.5 evict healthy", "14.7 evict healthy"],
    "f3-pod-deleted-no-policy": ["13.6 nopol healthy"],
    "f4-abort-resume": ["5.5 susp suspended", "14.8 susp healthy"],
    "f5-ttl": ["3.4 ttl healthy"],
    "f6-no-complete-policy-lingers": ["3.5 linger healthy", "8.6 linger no-complete-policy"],
    "f7-minsuccess": ["5 minsucc healthy"],
    "f8-exitcode-terminate": ["3.7 exitc healthy", "6.1 exitc member-failed"],
    "f9-podfailed-abort": ["3.4 pfab healthy", "5.6 pfab member-failed"],
    "g1-queue-capability": ["6.4 overcap no-room", "10.6 overcap over-capability", "10.6 fitscap healthy"],
    "g2-queue-close-reopen": ["9 waiter queue-closed", "20.6 waiter healthy"],
    "g3-priority-order": ["5.1 low1 healthy", "5.1 low2 room-taken", "5.1 high1 room-taken"],
    "g4-preempt-action": ["19.5 victim healthy", "19.5 urgent room-taken"],
    "g5-preempt-elastic-victim": ["9.9 urgent healthy", "9.9 victim healthy", "16.4 victim healthy"],
    "h1-default-scheduler-over-capacity": ["6.3 toobig half-placed"],
    "h2-default-scheduler-two-gangs": ["8.3 left half-placed", "8.3 right half-placed"],
    "h3-vcjob-under-default-scheduler": ["8.6 nogang no-room"],
    "h4-default-scheduler-two-gangs-partial": ["6.4 left healthy", "6.4 right half-placed"],
    "h5-vcjob-fragmented-under-default-scheduler": ["6.7 nogang scheduler-name"],
    "h6-volcano-without-gang-plugin": ["6.4 nogang half-placed"],
    "l1-scheduler-not-running": ["5.7 early starting", "11.5 early scheduler-silent", "19.1 early healthy"],
    "r1-real-kubelet-pytorch-gang": ["5.9 torch starting", "9 torch healthy", "14 torch grace", "19.5 torch healthy"],
    "r2-real-kubelet-podevicted-restartjob": ["9.2 evict restarting", "30.6 evict healthy"],
    "r3-real-kubelet-evicted-and-failed-policies": ["18.5 both deleted-member"],
    "r4-real-kubelet-podfailed-maxretry": ["5 retry healthy", "16.6 retry retries-exhausted"],
    "r5-real-kubelet-over-capacity": ["6.4 toobig no-room"],
    "r6-real-kubelet-topology-affinity-error": ["4.6 five kubelet-rejects", "15.2 four healthy"],
    "r7-real-kubelet-indexed-job-headless-service": ["9.3 ring healthy"],
}  # fmt: skip
"""Stream -> moments: seconds of its clock, job, and the code of the likeliest cause or the state."""

EVERY = [
    (name, float(t), job, expected)
    for name, moments in MOMENTS.items()
    for t, job, expected in (moment.split() for moment in moments)
]


def of(evidence: Evidence, job: str) -> Diagnosis:
    """Return the diagnosis of one job of a stream."""
    (found,) = diagnose.subjects(evidence, job)
    return diagnose.diagnose(found, recordings.JUDGES)


def told(found: Diagnosis) -> str:
    """Return the code of the likeliest cause, else the state."""
    return found.suspects[0].code if found.suspects else found.state.value


def test_the_table_names_every_stream_of_volcano():
    """A stream that is added has to be diagnosed on purpose."""
    assert set(MOMENTS) == {
        folder.name for folder in recordings.folders() if folder.parent == recordings.VOLCANO
    }


@pytest.mark.parametrize(("name", "t", "job", "expected"), EVERY)
def test_a_stream_is_diagnosed(name: str, t: float, job: str, expected: str):
    """Somebody who watched until that moment is told the right cause first."""
    found = of(cases.at(name, t), job)
    assert told(found) == expected, diagnose.render(found, full=True)


@pytest.mark.parametrize(("name", "t", "job", "expected"), EVERY)
def test_a_snapshot_is_diagnosed_like_the_stream(name: str, t: float, job: str, expected: str):
    """Somebody who looks once at that moment is told the same: whole seconds and no history suffice."""
    found = of(cases.snapshot(name, t), job)
    assert told(found) == expected, diagnose.render(found, full=True)


@pytest.mark.parametrize(("name", "t", "job", "expected"), EVERY)
def test_a_refusal_is_no_fault(name: str, t: float, job: str, expected: str):
    """A gang that is refused as it should is never called broken, and a healthy job has no cause."""
    found = of(cases.at(name, t), job)
    if expected in {"no-room", "room-taken", "over-capability", "grace", "suspended", "restarting"}:
        assert found.state is State.REFUSED, diagnose.render(found)
    elif expected in {HEALTHY, STARTING, GONE}:
        assert found.state.value == expected
        assert not found.suspects
    else:
        assert found.state is State.TROUBLE
    assert all(one.cause.text and one.cause.fix and one.seen for one in (*found.suspects, *found.notes))


NAMES = [
    ("b2-fragmentation", 17.7, "control", ["frag", "stays reserved", "15 nvidia.com/gpu"]),
    ("b3-room-for-n-minus-one-then-room", 7.8, "gang", ["16 nvidia.com/gpu", "blocker", "15 of the 16"]),
    ("b6-inqueue-gang-blocks-others", 17.0, "other-queue", ["frag", "even in other queues"]),
    ("e4-pytorch-wrong-task-name", 5.2, "nomatch", ["'master'", "--master="]),
    ("e6-pytorch-wrong-worker-name", 7.7, "nowork", ["'workers'", "--worker=", "world of one"]),
    ("f1-podfailed-restartjob-maxretry", 10.7, "retry", ["maxRetry 3", "3 attempts"]),
    ("f10-node-lost-below-min", 8.6, "lost", ["lost-worker-1", "15 of 16", "cordoned"]),
    ("f8-exitcode-terminate", 6.1, "exitc", ["exit code 3", "TerminateJob"]),
    ("f9-podfailed-abort", 5.6, "pfab", ["AbortJob"]),
    ("g1-queue-capability", 10.6, "overcap", ["9 nvidia.com/gpu", "queue small may have 8"]),
    ("g2-queue-close-reopen", 9.0, "waiter", ["Closing", "open it"]),
    ("h5-vcjob-fragmented-under-default-scheduler", 6.7, "nogang", ["nogang is default-scheduler", "2 of 3"]),
    ("l1-scheduler-not-running", 11.5, "early", ["no phase", "volcano-system"]),
    ("r1-real-kubelet-pytorch-gang", 14.0, "torch", ["grace period", "torch-worker-0"]),
    ("r4-real-kubelet-podfailed-maxretry", 16.6, "retry", ["maxRetry 2", "exit code 7"]),
    ("r6-real-kubelet-topology-affinity-error", 4.6, "five", ["TopologyAffinityError", "node-", "NUMA node"]),
    ("c3-two-gangs-without-gang-plugin-three-nodes-equal", 5.6, "left", ["3 of 4", "right holds 3 of 4"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "t", "job", "words"), NAMES)
def test_the_diagnosis_names_who_and_how_much(name: str, t: float, job: str, words: list[str]):
    """The first cause carries the names and numbers that a person needs to act."""
    text = " ".join(diagnose.render(of(cases.at(name, t), job)).split())
    for word in words:
        assert word in text, text
