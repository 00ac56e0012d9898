"""GANG-007: bind spread and start spread, as numbers with their bounds."""

from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Span
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.judge.gang import spread
from tests import recordings

R1 = "r1-real-kubelet-pytorch-gang"
BOUNDS = {"bind_spread": 1.0, "start_spread": 3.0}


def _numbers(finding: Any) -> dict[str, Any]:
    return {number.name: number for number in finding.numbers}


def test_both_are_measured_and_say_where_their_bound_is_from():
    """On real kubelets members were bound together and started one after the other."""
    finding = spread.within(recordings.stream(R1), BOUNDS)
    assert finding.verdict == "pass"
    numbers = _numbers(finding)
    assert numbers["bind spread"].value == pytest.approx(0.0145, abs=1e-4)
    assert numbers["start spread"].value == pytest.approx(2.53, abs=1e-3)
    assert [numbers[name].origin for name in numbers] == ["profile bind_spread", "profile start_spread"]
    assert "last Pod/torch-worker-2 on node-2" in finding.observed
    assert finding.evidence


def test_a_start_that_came_too_late_names_the_member():
    """The member that started last is named, with the cause and its fix."""
    finding = spread.within(recordings.stream(R1), {**BOUNDS, "start_spread": 2.0})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "start spread 2.53 s (bound 2.00 s, last Pod/torch-worker-2 on node-2)" in finding.observed
    assert "image" in finding.causes[0].text


def test_a_bound_of_zero_is_a_bound():
    """Zero is declared, not absent."""
    assert spread.within(recordings.stream(R1), {"bind_spread": 0}).verdict == "fail"


def test_without_a_bound_both_are_reported_and_nothing_is_judged():
    """No bound: measured, reported, not applicable. One bound: that one is judged, the other reported."""
    finding = spread.within(recordings.stream(R1), {})
    assert finding.verdict == "not_applicable"
    assert all(number.value is not None and number.bound is None for number in finding.numbers)
    one = spread.within(recordings.stream(R1), {"bind_spread": 1.0})
    assert one.verdict == "pass"
    assert _numbers(one)["start spread"].origin == "no start_spread declared"


HALF = ["h1-default-scheduler-over-capacity", "h6-volcano-without-gang-plugin", "native-basic-policy-partial"]


@pytest.mark.parametrize("name", HALF)
def test_a_bind_that_never_came_is_at_least_so_late(name: str):
    """A gang that stays half placed is above any bound that is shorter than it was watched, and else undecided."""
    finding = spread.within(recordings.stream(name), {"bind_spread": 0.5})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "bind spread at least" in finding.observed
    assert spread.within(recordings.stream(name), {"bind_spread": 500.0}).verdict == "inconclusive"


def _one_never_starts(pod: Any) -> Any:
    """Return r1 with one member whose containers never start."""

    def wait(obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Pending"}

    return mutants.each(
        recordings.stream(R1), lambda line: line.uid == pod.uid and "spec" in line.object, wait
    )


def test_a_member_that_never_starts_is_at_least_so_late():
    """A member whose image does not come is above the bound as soon as it is over, and undecided before."""
    (gang,) = gangs.gangs(recordings.stream(R1))
    evidence = _one_never_starts(next(pod for pod in gang.pods if pod.name == "torch-worker-1"))
    late = spread.within(evidence, BOUNDS)
    assert (late.verdict, late.violation) == ("fail", True)
    assert "start spread at least" in late.observed
    assert "torch-worker-1" in late.observed
    assert spread.within(evidence, {"start_spread": 60.0}).verdict == "inconclusive"


def test_a_member_that_was_never_seen_to_run_is_not_measured():
    """A process that ends before its pod is seen Running started at an unknown time: no number, no pass."""
    (gang,) = gangs.gangs(recordings.stream(R1))
    short = next(pod for pod in gang.pods if pod.task == "master")

    def end(obj: dict[str, Any]) -> None:
        if obj["status"].get("phase") == "Running":
            obj["status"]["phase"] = "Succeeded"

    evidence = mutants.each(recordings.stream(R1), lambda line: line.uid == short.uid, end)
    finding = spread.within(evidence, BOUNDS)
    assert finding.verdict == "inconclusive"
    assert "start spread not measured" in finding.observed


def test_a_clock_of_whole_seconds_is_not_trusted_to_the_second():
    """Times of objects have whole seconds: within one second of the bound nothing is decided."""
    base = recordings.stream(R1)
    lines = [
        {"t": ln.t, "type": ln.type, "kind": ln.kind, "object": dict(ln.object), **ln.data}
        for ln in base.lines
    ]
    evidence = recordings.evidence_of(lines, header={"clock": "object"})
    verdicts = [spread.within(evidence, {"start_spread": bound}).verdict for bound in (1.0, 2.0, 3.0, 4.0)]
    assert verdicts == ["fail", "inconclusive", "inconclusive", "pass"]


def test_surplus_members_do_not_count():
    """The spread is that of the members that are needed; what comes later may."""
    finding = spread.within(recordings.stream("b4-min-below-replicas"), BOUNDS)
    assert finding.verdict == "pass"
    assert "12 members needed" in finding.observed


def test_a_gap_in_the_watch_makes_the_times_worthless():
    """What was received after a gap happened at an unknown time."""
    base = recordings.stream(R1)
    spans = [Span("*", 0.0, 2.845, "test"), Span("*", 2.85, base.end, "test")]
    evidence = mutants.with_lines(base, base.lines, spans=spans)
    assert spread.within(evidence, BOUNDS).verdict == "inconclusive"


def test_nothing_bound_is_nothing_measured():
    """A gang that was refused says nothing about spreads."""
    finding = spread.within(recordings.stream("b2-fragmentation"), BOUNDS)
    assert finding.verdict == "inconclusive"
    assert "no member of Job.batch.volcano.sh/frag was ever bound" in finding.observed
