"""REF-008: that no scheduler looks at a gang is measured from when its members were there."""

import pytest

from pytest_gpucluster.judge import unserved
from tests import recordings

GIVEN = {"scheduler": "default-scheduler", "window": 0.5, "scheduler_period": 0.05}
JOB = {
    "kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "train", "uid": "job", "namespace": "x"},
    "spec": {"parallelism": 2, "completions": 2}, "status": {},
}  # fmt: skip
OWNER = {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "job", "controller": True}


def pod(index, uid):
    """Return a member that no scheduler knows."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": uid, "uid": uid, "namespace": "x", "ownerReferences": [OWNER],
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "resources": {}}]},
        "status": {"phase": "Pending"},
    }  # fmt: skip


def unseen(job_at, end):
    """Return how nobody looked at two pods of 10.00 and 10.01 s, whose Job was told of at some time."""
    lines = [
        {"type": "ADDED", "t": 10.0, "kind": "Pod", "object": pod(0, "a")},
        {"type": "ADDED", "t": 10.01, "kind": "Pod", "object": pod(1, "b")},
        {"type": "ADDED", "t": job_at, "kind": "Job.batch", "object": JOB},
        {"type": "NOTE", "t": end, "note": "end"},
    ]
    evidence = recordings.evidence_of(lines, header={"given": GIVEN})
    (gang,) = unserved.terms.everyone(evidence)
    return unserved.silence_of(evidence, GIVEN, gang)


@pytest.mark.parametrize("job_at", [9.99, 10.005, 10.2, 10.5])
def test_the_watch_of_jobs_may_tell_later_than_that_of_pods(job_at):
    """As on a busy machine, where the Job came 33 ms after its pods and the window was 5 ms too short by that."""
    found = unseen(job_at, 10.53)
    assert found is not None
    assert found.seconds == pytest.approx(0.52)


def test_a_window_that_is_too_short_shows_nothing():
    """Counted from the last member."""
    assert unseen(9.99, 10.45) is None


def test_a_gang_begins_with_what_is_heard_of_it_first():
    """A condition that comes before the Job's own line is still said of this gang."""
    lines = [
        {"type": "ADDED", "t": 10.0, "kind": "Pod", "object": pod(0, "a")},
        {"type": "ADDED", "t": 10.01, "kind": "Pod", "object": pod(1, "b")},
        {"type": "ADDED", "t": 10.4, "kind": "Job.batch", "object": JOB},
        {"type": "NOTE", "t": 11.0, "note": "end"},
    ]
    (gang,) = unserved.terms.everyone(recordings.evidence_of(lines))
    (generation,) = gang.generations
    assert (generation.start, generation.made) == (10.0, 10.01)
