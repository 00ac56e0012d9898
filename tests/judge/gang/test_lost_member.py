"""GANG-009 and 010: gangs that lose members after they were whole."""

import dataclasses
from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Span
from pytest_gpucluster.evidence.scheduling import gangs, lost_members
from pytest_gpucluster.judge.gang import lost_member
from pytest_gpucluster.requirement import Verdict
from tests import recordings

F10 = "f10-node-lost-below-min"
F3 = "f3-pod-deleted-no-policy"


def _own() -> Any:
    return recordings.embedded("lost")


def _shortages(evidence: Any) -> tuple[lost_members.Shortage, ...]:
    (gang,) = gangs.gangs(evidence)
    return lost_members.shortages(evidence, gang)


def test_a_loss_is_read_from_the_stream():
    """Who went, how long the gang was short, what its object said, and that it was whole again."""
    short, ended = _shortages(recordings.stream(F3))
    assert [pod.name for pod in short.missing] == ["nopol-worker-1"]
    assert (short.held, short.healed, short.lost) == (3, True, True)
    assert short.seconds == pytest.approx(0.72, abs=0.01)
    assert [what for _, what, _ in short.reports] == ["phase Pending"]
    assert (ended.lost, ended.healed) == (False, False)


def test_ends_on_purpose_are_no_losses():
    """What a completion policy, an abort or a restart ends is short only until the Job says so."""
    for name in ("a-gang-fits", "f4-abort-resume", "f2-podevicted-restartjob"):
        for short in _shortages(recordings.stream(name)):
            assert short.seconds < 0.6, name
            assert lost_member.healed(recordings.stream(name), {}).verdict == "inconclusive"


def test_own_scenario_passes_with_numbers():
    """The PodGroup says at once that it is short; the gang is whole within the declared time."""
    evidence = _own()
    said = lost_member.reported(evidence, evidence.given)
    assert said.verdict == "pass"
    assert "phase Unknown" in said.observed
    healed = lost_member.healed(evidence, evidence.given)
    assert healed.verdict == "pass"
    (number,) = healed.numbers
    assert number.bound == evidence.given["recovery"]
    assert number.value is not None
    assert 0 < number.value < number.bound
    assert "from its slot was back" in number.origin
    assert any(key.startswith("NOTE:slots-set") for key in healed.evidence)
    assert healed.currency == "slots"


def test_a_recorded_loss_on_real_components():
    """The cordoned node: reported within a period, and whole again after the node took pods again."""
    said = lost_member.reported(recordings.stream(F10), {})
    assert said.verdict == "pass"
    assert "15 of 16 members for 7.7 s" in said.observed
    assert "phase Unknown" in said.observed
    healed = lost_member.healed(recordings.stream(F10), {"recovery": 60.0})
    assert healed.verdict == "pass"
    assert "7.70 s after the loss (declared: 60.00 s)" in healed.observed


def _node(t: float, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "gpu-1", "uid": "node-1"}
    status = {"allocatable": {"nvidia.com/gpu": "8"}}
    return {
        "t": t, "type": "MODIFIED" if t else "ADDED", "kind": "Node",
        "object": {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status},
    }  # fmt: skip


def test_the_return_of_a_node_is_the_return_of_its_slots():
    """A node that takes pods again is the sign from which the recovery counts."""
    nodes = [_node(0.0), _node(3.36, unschedulable=True), _node(10.4)]
    evidence = recordings.added(F10, nodes)
    (short, _) = (*_shortages(evidence), None)
    assert short is not None
    assert short.returned == (10.4, "Node/gpu-1@10.400")
    finding = lost_member.healed(evidence, {"recovery": 1.0})
    assert finding.verdict == "pass"
    assert "whole again 0.69 s after its slot was back" in finding.observed


def _silent(evidence: Any) -> Any:
    return mutants.MUTANTS["gang.short-unsaid"].act(evidence)


def test_a_podgroup_that_never_says_so_fails():
    """A PodGroup that says Running while a member is missing for a window is a violation that names the member."""
    evidence = _silent(_own())
    finding = lost_member.reported(evidence, evidence.given)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "never reported it (Running)" in finding.observed
    assert finding.where == ("Pod/lost-worker-0 on gpu-0",)
    assert finding.causes[0].fix


def test_silence_shorter_than_the_window_is_undecided():
    """A scheduler needs a session to notice."""
    evidence = _silent(_own())
    finding = lost_member.reported(evidence, {**evidence.given, "window": 5.0})
    assert finding.verdict == "inconclusive"
    assert "shorter than the window of 5.00 s" in finding.observed


def test_silence_over_a_gap_is_undecided():
    """What was not watched may have been said."""
    base = _silent(_own())
    spans = [Span("Pod", 0.0, base.end, "test"), Span("Node", 0.0, base.end, "test")]
    evidence = mutants.with_lines(base, base.lines, spans=spans)
    assert lost_member.reported(evidence, evidence.given).verdict == "inconclusive"


def _native_loss() -> Any:
    """Return the recorded native gang that fits, with one member deleted while the others run."""
    base = recordings.stream("native-gang-fits")
    (gang,) = gangs.gangs(base)
    pod = gang.pods[1]
    kept = [line for line in base.lines if not (line.t > 8 and line.kind == "Pod")]
    last = next(line for line in reversed(kept) if line.uid == pod.uid)
    gone = {"t": 8.0, "type": "DELETED", "kind": "Pod", "object": dict(last.object)}
    end = {"t": 30.0, "type": "NOTE", "note": "end"}
    more = recordings.evidence_of([gone, end]).lines
    return mutants.with_lines(base, [*kept, *more], spans=[Span("*", 0.0, 30.0, "test")])


def test_a_native_podgroup_never_says_so():
    """The condition of a native PodGroup is terminal: that is the cause, with what to watch instead."""
    finding = lost_member.reported(_native_loss(), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "PodGroupInitiallyScheduled" in finding.causes[0].text
    healed = lost_member.healed(_native_loss(), {})
    assert healed.verdict == "inconclusive"
    assert "that its slot came back was not seen" in healed.observed


def test_not_healed_and_not_said_is_a_violation():
    """The slot is back, the member is not, and the PodGroup says Running."""
    evidence = mutants.MUTANTS["gang.not-healed-unsaid"].act(_own())
    finding = lost_member.healed(evidence, evidence.given)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "its object says Running" in finding.observed
    assert lost_member.reported(evidence, evidence.given).verdict == "pass"


def test_not_healed_but_said_is_allowed():
    """A gang that stays short and says so is reported as short: that is the other half of the sentence."""
    base = mutants.MUTANTS["gang.not-healed-unsaid"].act(_own())

    def short(obj: dict[str, Any]) -> None:
        obj["status"]["phase"] = "Unknown"

    back = next(note.t for note in base.notes("slots-set") if note.data["slots"] > note.data["was"])
    evidence = mutants.each(base, lambda line: line.kind == "PodGroup" and line.t > back, short)
    finding = lost_member.healed(evidence, evidence.given)
    assert finding.verdict == "pass"
    assert "its object reports it: phase Unknown" in finding.observed


def test_too_late_and_not_said_is_a_violation():
    """Whole again after the declared time, without a word until then."""
    base = mutants.MUTANTS["gang.short-unsaid"].act(_own())
    back = next(note.t for note in base.notes("slots-set") if note.data["slots"] > note.data["was"])
    evidence = mutants.with_lines(
        base,
        [line if line.t <= back else dataclasses.replace(line, t=line.t + 10) for line in base.lines],
        spans=[Span("*", 0.0, base.end + 10, "test")],
    )
    finding = lost_member.healed(evidence, evidence.given)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "(declared: 2.00 s), and its object did not report it" in finding.observed


def test_healed_without_a_declared_time():
    """No time declared: reported as short until whole is right; healed in silence is measured and not judged."""
    told = {key: value for key, value in _own().given.items() if key != "recovery"}
    assert lost_member.healed(_own(), told).verdict == "pass"
    silent = lost_member.healed(_silent(_own()), told)
    assert silent.verdict == "not_applicable"
    assert silent.numbers[0].value is not None
    assert "no recovery declared" in silent.numbers[0].origin


def test_a_state_without_a_history_is_read_from_the_object():
    """A PodGroup that was Scheduled and is Unknown tells both: it was whole, and it says that it no longer is."""
    members = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"big-{n}", "namespace": "n", "uid": f"u{n}",
                         "annotations": {"scheduling.k8s.io/group-name": "big"}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "m"}], "nodeName": f"gpu-{n}"},
            "status": {"phase": "Running"},
        }
        for n in range(8)
    ]  # fmt: skip
    conditions = [
        {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"},
        {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "message": "12/8 tasks in gang",
        },
    ]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "big", "namespace": "n", "uid": "g"}, "spec": {"minMember": 20},
        "status": {"phase": "Unknown", "running": 8, "conditions": conditions},
    }  # fmt: skip
    lines = [{"t": 0.0, "type": "ADDED", "object": obj} for obj in (group, *members)]
    evidence = recordings.evidence_of([*lines, {"t": 60.0, "type": "NOTE", "note": "end"}])
    finding = lost_member.reported(evidence, {})
    assert finding.verdict == "pass"
    assert "8 of 20 members" in finding.observed


def test_nothing_lost_is_nothing_shown():
    """No loss, no verdict."""
    for evidence in (
        recordings.evidence_of([]),
        recordings.stream("b2-fragmentation"),
        recordings.embedded("minimums"),
    ):
        assert lost_member.reported(evidence, {}).verdict is Verdict.INCONCLUSIVE
        assert lost_member.healed(evidence, {}).verdict is Verdict.INCONCLUSIVE
