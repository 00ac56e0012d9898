"""What was wrong before is not undone by what came after, and what came first is told by versions, not by receipt."""

import dataclasses
import math

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence.log import order
from pytest_gpucluster.evidence.scheduling import kueue, kueue_workloads
from tests import recordings


def judged(row, evidence):
    """Return the finding of a row on evidence of a scenario of ours."""
    return recordings.JUDGES[row](evidence, evidence.given)


def test_a_pod_that_lacked_a_label_for_a_time():
    """PLG-007: the controllers may put back what was taken away; it was not there."""
    evidence = recordings.stream("e2-pytorch")
    assert judged("PLG-007", evidence).verdict == "pass"
    seen = [line for line in evidence.of_kind("Pod") if line.type == "MODIFIED"]

    def strip(pod):
        pod["metadata"]["labels"].pop("volcano.sh/task-index")

    finding = judged("PLG-007", mutants.each(evidence, lambda line: line is seen[0], strip))
    assert finding.verdict == "fail"
    assert "label volcano.sh/task-index is absent" in finding.observed


def test_a_sum_that_was_wrong_in_an_attempt_before():
    """RDZV-001: the process that its launcher started again got it right."""
    evidence = recordings.healthy()
    pod = next(line for line in evidence.of_kind("Pod") if line.name.endswith("worker-0"))
    told = {"rank": 1, "world": 4, "local_rank": 0, "expected": 10.0, "got": 9.0}
    (line,) = recordings.evidence_of(
        [recordings.word(7.6, _Pod(pod.name, pod.uid, pod.object), "sum", **told)]
    ).lines
    finding = judged("RDZV-001", mutants.with_lines(evidence, (*evidence.lines, line)))
    assert finding.verdict == "fail"
    assert "got 9.0, expected 10.0" in finding.observed


@dataclasses.dataclass(frozen=True)
class _Pod:
    name: str
    uid: str
    last: dict


def test_a_step_that_was_wrong_before():
    """RDZV-002: in the same pod, or in one that was replaced since."""
    evidence = recordings.embedded("indexed-world")
    assert judged("RDZV-002", evidence).verdict == "pass"
    log = next(line for line in evidence.logs() if '"trained"' in str(line.data.get("line")))
    wrong = str(log.data["line"]).replace('"ok":true', '"ok":false').replace('"ok": true', '"ok": false')
    before = dataclasses.replace(log, t=log.t - 0.001, data={**log.data, "line": wrong})
    finding = judged("RDZV-002", mutants.with_lines(evidence, (*evidence.lines, before)))
    assert (finding.verdict, finding.violation) == ("fail", True)


def test_every_restart_of_a_node_counts():
    """LIFE-011: that one restart went well says nothing of the next, which nobody noticed."""
    evidence = recordings.embedded("reboot")
    assert judged("LIFE-011", evidence).verdict == "pass"
    (note,) = evidence.notes("rebooted-by-us")
    end = min(line.t for line in evidence.notes("deleted-by-us") if line.t > note.t)
    again = dataclasses.replace(note, t=end - 0.001)
    finding = judged("LIFE-011", mutants.with_lines(evidence, (*evidence.lines, again)))
    assert finding.verdict == "inconclusive"


def test_room_that_came_long_after_something_was_taken():
    """LIFE-014: that the gang got the room of who was taken is not shown."""
    evidence = recordings.embedded("priorities")
    finding = judged("LIFE-014", evidence)
    assert finding.verdict == "pass"
    taken = float(finding.evidence[0].rpartition("@")[2]) + 0.001
    late = judged("LIFE-014", mutants.base.later(evidence, taken, 600.0))
    assert late.verdict == "inconclusive"
    assert "later: nothing shows that it got this room" in late.observed


# -- which came first ------------------------------------------------------------------------------------------------


def pod_and_quota(evidence):
    """Return the first pod's first line, and the line that shows the reservation of its Job's quota."""
    job = next(one for one in kueue.held(evidence) if one.reserved and one.gang.pods)
    pod = min(job.gang.pods, key=lambda one: one.created)
    made = evidence.history(pod.uid)[0]
    held = next(
        line for line in evidence.of_kind(kueue_workloads.WORKLOAD) if line.key == job.reserved[0].key
    )
    return made, held


def moved(evidence, *, version=None, told=True):
    """Let the first pod be told just before the reservation; with another version, or let nothing tell one."""
    made, held = pod_and_quota(evidence)
    early = dataclasses.replace(made, t=held.t - 0.01)
    if version is not None:
        changed = str(order.version(held) + version)
        early = mutants.edited(early, lambda obj: obj["metadata"].update(resourceVersion=changed))
    lines = [early if line is made else line for line in evidence.lines]
    seen = mutants.with_lines(evidence, lines)
    if told:
        return seen
    return mutants.each(
        seen, lambda line: bool(line.kind), lambda obj: obj["metadata"].pop("resourceVersion", 0)
    )


@pytest.mark.parametrize("name", ["k1-admitted", "k3-two-jobs-room-for-one"])
def test_a_pod_that_was_made_just_before_its_quota(name):
    """No tolerance where versions tell; the watch that was late is no violation; where nothing tells it is open."""
    evidence = recordings.stream(name)
    assert judged("KUE-001", evidence).verdict == "pass"
    assert judged("KUE-001", moved(evidence)).verdict == "pass"
    early = judged("KUE-001", moved(evidence, version=-1))
    assert (early.verdict, early.violation) == ("fail", True)
    assert "1 pod made without quota" in early.observed
    open_ = judged("KUE-001", moved(evidence, told=False))
    assert open_.verdict == "inconclusive"
    assert "no version orders them" in open_.observed


def test_versions_of_stores_apart_order_nothing():
    """Where receipt contradicts them by more than watches are ever out of step, they are not counted through."""
    evidence = recordings.stream("k1-admitted")
    assert order.versions(evidence)
    last = max((line for line in evidence.lines if line.type == "MODIFIED"), key=lambda line: line.t)
    other = mutants.each(
        evidence, lambda line: line is last, lambda obj: obj["metadata"].update(resourceVersion="1")
    )
    assert order.versions(other) == {} or len(evidence.of_kind("Pod")) < 2


@pytest.mark.parametrize("batch", [0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("name", ["k1-admitted", "k3-two-jobs-room-for-one"])
def test_a_busy_machine_reads_several_changes_in_one_moment(name, batch):
    """Lines of one object that were received together still tell by their versions what came before them."""
    evidence = recordings.stream(name)

    def at(line):
        # Each watch has its own beat, so that the kinds are out of step, too.
        beat = batch * (1 + len(line.kind) % 3)
        return dataclasses.replace(line, t=math.ceil(line.t / beat) * beat) if line.kind else line

    seen = mutants.with_lines(evidence, [at(line) for line in evidence.lines])
    assert len({line.key for line in seen.lines}) < len({line.key for line in evidence.lines})
    finding = judged("KUE-001", seen)
    assert finding.verdict == "pass", finding.observed


def test_versions_that_overlap_order_nothing():
    """What lies between the two changes that one key names came before the one or the other."""
    one, other = order.Versions(3, 9), order.Versions(5, 5)
    assert order.before(one, other) is order.before(other, one) is order.before(None, one) is None
    assert order.before(one, order.Versions(10, 12)) is True
    assert order.before(order.Versions(10, 12), one) is False


def test_a_change_had_happened_when_a_later_one_was_seen():
    """A watch that is half a second late tells too late; the versions of other kinds bound when it was."""
    evidence = recordings.stream("k1-admitted")
    made, _ = pod_and_quota(evidence)
    late = mutants.with_lines(
        evidence,
        [
            dataclasses.replace(line, t=line.t + 0.5) if line.kind == "Pod" else line
            for line in evidence.lines
        ],
    )
    seen = next(line for line in late.of_kind("Pod") if line.uid == made.uid)
    assert made.t <= order.no_later(late, order.version(seen), seen.t) < seen.t
    assert order.seen_by(late, seen.key, seen.t) == order.no_later(late, order.version(seen), seen.t)
    assert order.no_later(late, None, 7.0) == 7.0
    assert order.seen_by(late, "Pod/nobody@1.000", 7.0) == 7.0
