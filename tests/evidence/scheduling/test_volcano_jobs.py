"""What a Volcano Job was told to do, and what it did, read from recorded streams and from anything else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang, gangs
from tests import recordings

F1, F2, R3 = (
    "f1-podfailed-restartjob-maxretry", "f2-podevicted-restartjob", "r3-real-kubelet-evicted-and-failed-policies",
)  # fmt: skip

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 999) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["policies", "event", "events", "exitCode", "action", "x"]), inner)
    ),
    max_leaves=12,
)


def only(name: str) -> Gang:
    """Return the only gang of a stream."""
    (gang,) = gangs(recordings.stream(name))
    return gang


@given(ANYTHING)
def test_policies_of_anything_are_read(holder: Any):
    """Whatever stands where policies should, reading it does not raise, and each policy can be asked."""
    for policy in volcano_jobs.policies(holder):
        assert policy.matches("PodFailed", 3) in (True, False)
        assert policy.when is not None


@given(st.sampled_from(["PodFailed", "PodEvicted", "TaskCompleted"]), st.integers(1, 255))
def test_events_and_exit_codes(event: str, code: int):
    """An event sets off policies for it and for any; an exit code only those for failures with it."""
    holder = {
        "policies": [
            {"event": event, "action": "A"},
            {"events": ["*"], "action": "B"},
            {"exitCode": code, "action": "C"},
        ]
    }
    mine, anything, coded = volcano_jobs.policies(holder)
    assert mine.matches(event, None)
    assert anything.matches("whatever", None)
    assert coded.matches("PodFailed", code)
    assert not coded.matches("PodFailed", code + 1)
    assert not coded.matches("PodEvicted", code)


def test_the_first_failure_of_each_attempt():
    """Three attempts, three failures of the same member, with the exit code."""
    gang = only(F1)
    found = volcano_jobs.first_failures(recordings.stream(F1), gang)
    assert [(one.pod.name, one.exit_code) for one in found] == [("retry-bad-0", 7)] * 3
    assert volcano_jobs.attempts(gang) == 3
    assert [count for _, count, _ in volcano_jobs.retry_path(recordings.stream(F1), gang.job)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        (F1, []),
        (F2, ["evict-worker-1"]),
        (R3, ["both-worker-1"]),
        ("f11-finished-member-deleted", ["mixed-master-0"]),
        ("f4-abort-resume", []),
        ("a-gang-fits", []),
        ("f5-ttl", []),
        ("f7-minsuccess", []),
        ("f9-podfailed-abort", []),
    ],
)
def test_who_was_lost(name: str, lost: list[str]):
    """Only pods that somebody other than the controller took away are losses."""
    evidence = recordings.stream(name)
    assert [pod.name for pod in volcano_jobs.removals(evidence, only(name))] == lost


def test_commands_are_read_from_events():
    """Without notes of ours the controllers' own words say when a Job was suspended and resumed."""
    found = volcano_jobs.commands(recordings.stream("f4-abort-resume"), only("f4-abort-resume"))
    assert (round(found.suspend, 1), round(found.resume, 1)) == (3.8, 5.9)
    assert volcano_jobs.commands(recordings.stream(F2), only(F2)) == volcano_jobs.Commands(None, None)
