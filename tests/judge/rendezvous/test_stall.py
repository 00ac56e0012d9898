"""Judges of what cannot go on: a rendezvous out of reach, a rank that stands still."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.judge.rendezvous import stall, unreachable_endpoint
from pytest_gpucluster.judge.rendezvous.presuppositions import no_interception
from tests import recordings

START = "Starting elastic_operator with launch configs"
TIMED_OUT = "The client socket has timed out after 60s while trying to connect to (cls-main-0.cls, 29500)."
MILLIS = "The client socket has timed out after 60000ms while trying to connect to (cls-main-0.cls, 29500)."


def logged(*lines: tuple[float, str], end: float = 0.0) -> Evidence:
    """Return what one launcher wrote, and nothing else."""
    said = [{"t": t, "type": "LOG", "pod": "cls-main-0", "uid": "u", "line": text} for t, text in lines]
    return recordings.evidence_of([*said, {"t": max(end, said[-1]["t"]), "type": "NOTE", "note": "end"}])


def exit_codes(code: int, name: str = "") -> Callable[[Evidence], Evidence]:
    """Return the change that lets pods end with a code."""

    def change(obj: dict[str, Any]) -> None:
        for status in obj["status"].get("containerStatuses") or []:
            if "terminated" in status.get("state", {}):
                status["state"] = copy.deepcopy(status["state"])
                status["state"]["terminated"]["exitCode"] = code

    return lambda evidence: mutants.each(
        evidence, lambda line: line.kind == "Pod" and name in line.name, change
    )


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([(1.0, START), (61.0, TIMED_OUT)], "pass"),
        ([(1.0, START), (83.0, MILLIS)], "pass"),
        ([(1.0, START), (400.0, MILLIS)], "fail"),
        ([(1.0, START), (616.0, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")], "pass"),
        ([(1.0, START), (1853.0, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")], "fail"),
        ([(1.0, START)], "inconclusive"),
    ],
)
def test_what_torch_says_of_a_rendezvous_that_it_could_not_reach(lines, verdict: str):
    """The bound is the one that the message names, else the launcher's own; connecting may overshoot it."""
    finding = unreachable_endpoint.ends_explained(logged(*lines), {})
    assert finding.verdict == verdict, finding.observed
    assert verdict != "fail" or finding.causes


def test_a_declared_bound_counts():
    """What is declared is shorter than the launcher's default."""
    lines = [(1.0, START), (400.0, "RendezvousTimeoutError")]
    finding = unreachable_endpoint.ends_explained(logged(*lines), {"join_timeout": 60})
    assert finding.verdict == "fail"
    assert "its bound is 60 s" in finding.observed


def test_a_member_that_fails_with_0_hides_its_failure():
    """The Job would count it as done."""
    evidence = exit_codes(0, "name-worker")(recordings.embedded("unreachable"))
    finding = unreachable_endpoint.ends_explained(evidence, evidence.given)
    assert finding.verdict == "fail"
    assert "ended with 0" in finding.observed


def test_a_member_that_reached_its_endpoint_shows_nothing():
    """Both cases must be tried."""
    evidence = mutants.without(
        recordings.embedded("unreachable"), lambda line: '"resolved"' in str(line.data.get("line"))
    )
    assert unreachable_endpoint.ends_explained(evidence, evidence.given).verdict == "inconclusive"


def test_what_stands_between_is_another_matter():
    """A try that was dropped says that something stands between; a refused one says that nobody hosts it."""
    evidence = recordings.embedded("unreachable")
    assert no_interception(evidence, evidence.given).held is True
    dropped = mutants.MUTANTS["plugins.reset-connections"].act(evidence)
    assert no_interception(dropped, evidence.given).held is False


def test_ranks_that_stand_are_named_with_place_and_line():
    """All three places, none of them the rank that went on."""
    evidence = recordings.embedded("stalled")
    finding = stall.ends_named(evidence, evidence.given)
    assert finding.verdict == "pass"
    for place, function in (
        ("import", "shard_reader.py"),
        ("restore", "restore_checkpoint"),
        ("data", "next_batch"),
    ):
        assert f"in {place}" in finding.observed
        assert function in finding.observed
    assert "rank 0" not in finding.observed


def test_a_rank_that_stands_and_ends_with_0_fails():
    """Nobody would notice."""
    evidence = exit_codes(0, "rank-2")(recordings.embedded("stalled"))
    finding = stall.ends_named(evidence, evidence.given)
    assert finding.verdict == "fail"
    assert "rank 2" in finding.observed


def test_a_place_that_was_to_be_tried_and_was_not_leaves_the_row_open():
    """Three places were arranged."""
    evidence = recordings.embedded("stalled")
    given = {**evidence.given, "stalls": ["1:import", "2:restore", "3:data", "0:import"]}
    finding = stall.ends_named(evidence, given)
    assert finding.verdict == "inconclusive"
    assert "0:import" in finding.observed


def test_a_watchdog_that_accuses_a_rank_that_went_on_fails():
    """A dump of a rank that passed its place: its bound is too short."""
    evidence = recordings.embedded("stalled")
    (uid,) = {line.uid for line in evidence.of_kind("Pod") if "rank-0" in line.name}
    dump = ["Timeout (0:00:01)!", '  File "/workspace/stall.py", line 9 in restore_checkpoint']
    lines = [
        {
            "t": evidence.end,
            "type": "LOG",
            "pod": "stalled-rank-0-0",
            "uid": uid,
            "container": "main",
            "line": text,
        }
        for text in dump
    ]
    told = mutants.with_lines(evidence, [*evidence.lines, *recordings.evidence_of(lines).lines])
    finding = stall.ends_named(told, evidence.given)
    assert finding.verdict == "fail"
    assert "rank 0" in finding.observed
