"""REF-008: that no scheduler looks at a gang is measured from when its members were there."""

import json

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.evidence.log.model import WATCH_TYPES
from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.judge.refusal import no_scheduler
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
    (gang,) = no_scheduler.subjects.everyone(evidence)
    return no_scheduler.silence_of(evidence, GIVEN, gang)


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
    (gang,) = no_scheduler.subjects.everyone(recordings.evidence_of(lines))
    (generation,) = gang.generations
    assert (generation.start, generation.made) == (10.0, 10.01)


def printed(path, *, without=(), later=""):
    """Return what `kubectl get -w` prints of a cluster whose scheduler does not run, up to the first phase.

    Args:
        path: where to write it.
        without: kinds that nobody asked kubectl for.
        later: kind of an object that was printed long after.
    """
    base = recordings.stream("l1-scheduler-not-running")
    phase = min(ln.t for ln in base.of_kind("PodGroup") if (ln.object.get("status") or {}).get("phase"))
    told = [ln for ln in base.lines if ln.type in WATCH_TYPES and ln.t < phase and ln.kind not in without]
    objects = [{"type": ln.type, "object": dict(ln.object)} for ln in told]
    meta = {"name": "other", "namespace": "x", "uid": "other", "creationTimestamp": "2099-01-01T00:00:00Z"}
    version = "scheduling.volcano.sh/v1beta1" if later == "PodGroup" else "v1"
    more = {"apiVersion": version, "kind": later, "metadata": meta, "spec": {}, "status": {}}
    event = {**more, "apiVersion": "v1", "kind": "Event", "metadata": {**meta, "name": "e", "uid": "e"}}
    if later:
        objects.append({"type": "ADDED", "object": more})
    if "Event" not in without:
        objects.append({"type": "ADDED", "object": event})
    path.write_text("\n".join(json.dumps(obj) for obj in objects), encoding="utf-8")
    return read(path)


@pytest.mark.parametrize(
    ("without", "later", "verdict"),
    [
        pytest.param((), "PodGroup", "pass", id="another-podgroup-was-printed-later"),
        pytest.param((), "Pod", "inconclusive", id="only-pods-were-printed-later"),
        pytest.param(("Event",), "PodGroup", "inconclusive", id="events-not-asked-for"),
        pytest.param(("Event",), "Pod", "inconclusive", id="neither"),
    ],
)
def test_silence_in_what_kubectl_printed_ends_with_the_last_line_of_the_kind(
    tmp_path, without, later, verdict
):
    """REF-008 on a dump: another kind that was printed later does not show that this one was still watched."""
    evidence = printed(tmp_path / "dump.json", without=without, later=later)
    finding = no_scheduler.not_served_is_no_refusal(evidence, {})
    assert finding.verdict == verdict, finding.observed


@pytest.mark.parametrize(
    ("later", "verdict"),
    [
        pytest.param("PodGroup", "fail", id="another-podgroup-was-printed-later"),
        pytest.param("Pod", "inconclusive", id="only-pods-were-printed-later"),
    ],
)
def test_a_scheduler_is_not_called_silent_for_time_that_nobody_watched(tmp_path, later, verdict):
    """INV-001 on a dump: what kubectl printed later of another kind does not lengthen the wait for a phase."""
    finding = scheduler_parts.phase_given(printed(tmp_path / "dump.json", later=later), {})
    assert finding.verdict == verdict, finding.observed


def test_a_list_shows_no_silence(tmp_path):
    """`kubectl get -o json` is one look: what was said and done before it is not known."""
    objects = [json.loads(line)["object"] for line in _lines(tmp_path)]
    (tmp_path / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    evidence = read(tmp_path / "list.json")
    assert no_scheduler.not_served_is_no_refusal(evidence, {}).verdict == "inconclusive"


def _lines(folder):
    printed(folder / "dump.json", later="PodGroup")
    return (folder / "dump.json").read_text(encoding="utf-8").splitlines()
