"""The judge of a fleet on a second interface: by its connections, whatever was asked for."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.judge.rendezvous import secondary_interface
from pytest_gpucluster.mutants import base
from tests import recordings


def evidence() -> Evidence:
    """Return the recorded fleet."""
    return recordings.embedded("secondary-interface")


def judged(changed: Evidence, **more: Any) -> Any:
    """Return what the judge finds."""
    return secondary_interface.over_declared(changed, {**changed.given, **more})


def wired(change: Callable[[dict[str, Any]], Any], member: str = "wired-1") -> Evidence:
    """Return the recording in which one member tells something else."""

    def act(line: Any, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == "wired" and str(line.data.get("pod")).startswith(member):
            change(told)
        return told

    return base.words(evidence(), act)


def failed(changed: Evidence, code: int) -> Evidence:
    """Return the evidence in which the second member failed."""

    def change(obj: dict[str, Any]) -> None:
        if obj["status"].get("phase") in ("Succeeded", "Failed"):
            obj["status"]["phase"] = "Failed"
            obj["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": code}}

    return mutants.each(changed, lambda line: line.kind == "Pod" and line.name.startswith("wired-1"), change)


def test_a_fleet_on_its_interface_passes() -> None:
    """With the number of its connections, and of members that use no other."""
    finding = judged(evidence())
    assert finding.verdict == "pass"
    assert (finding.numbers[0].value, finding.numbers[0].bound) == (2.0, 2.0)
    assert "all from net1" in finding.observed


def test_a_second_interface_without_route_is_told_from_names_and_variables() -> None:
    """Recorded with the defect planted: the far end is right, the near end is the first interface."""
    recorded = read(recordings.FOLDER / "embedded-defects" / "secondary-interface-without-route.jsonl")
    finding = judged(recorded)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "connected from eth0 to 10.89." in finding.observed
    assert finding.causes == (secondary_interface.ROUTE,)
    assert " on gpu-" in finding.where[0]


@pytest.mark.parametrize(
    ("part", "cause"), [("rendezvous", secondary_interface.NAMED), ("collective", secondary_interface.UNSET)]
)
def test_a_connection_of_the_first_network_names_rank_and_part(part: str, cause: object) -> None:
    """The rendezvous by a name, collectives by a variable."""
    changed = wired(lambda w: w[part].append(["eth0", "10.88.1.2", "10.88.1.1"]))
    finding = judged(changed)
    assert finding.verdict == "fail"
    assert "rank 1 on wired-1-" in finding.observed
    assert f"its {part} is connected from eth0 to 10.88.1.1" in finding.observed
    assert finding.causes == (cause,)


def test_a_variable_that_is_not_set_is_named() -> None:
    """The one of gloo."""

    def change(word: dict[str, Any]) -> None:
        word["asked"]["GLOO_SOCKET_IFNAME"] = ""
        word["collective"] = [["eth0", "10.88.1.2", "10.88.1.1"]]

    assert "GLOO_SOCKET_IFNAME not set to it" in judged(wired(change)).observed


def test_a_member_with_itself_is_no_traffic() -> None:
    """The launcher that hosts the store is its own client; loopback leads nowhere."""
    own = [["eth0", "10.88.1.2", "10.88.1.2"], ["lo", "127.0.0.1", "127.0.0.1"]]
    assert judged(wired(lambda w: w["rendezvous"].extend(own))).verdict == "pass"


def test_another_address_in_the_annotation_is_a_fault() -> None:
    """The result that was told is not what the pod has."""
    finding = judged(wired(lambda w: w["has"].update(net1="10.89.7.7")))
    assert finding.verdict == "fail"
    assert "the pod has 10.89.7.7" in finding.observed


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.update(collective=[]),
        lambda w: w.update(rendezvous=[["net1", "10.89.1.2", "10.89.1.2"]]),
        lambda w: w.update(rendezvous="none"),
        lambda w: w.pop("collective"),
    ],
    ids=["none", "only itself", "no list", "untold"],
)
def test_connections_that_were_not_seen_leave_the_row_open(change: Callable[[dict[str, Any]], Any]) -> None:
    """No connection is no proof."""
    finding = judged(wired(change))
    assert finding.verdict == "inconclusive"
    assert "rank 1" in finding.observed


@pytest.mark.parametrize("got", [float("nan"), None, 2.0])
def test_a_wrong_sum_fails(got: object) -> None:
    """Also one that is no number."""
    assert judged(wired(lambda w: w.update(got=got))).verdict == "fail"


def test_a_member_that_died_before_its_line_fails_with_its_code() -> None:
    """Where it has said that it has the interface."""
    lost = base.drop("wired", alone=True)(evidence())
    assert judged(lost).verdict == "inconclusive"
    finding = judged(failed(lost, 1))
    assert finding.verdict == "fail"
    assert "ended with 1" in finding.observed


def test_half_a_line_leaves_the_row_open() -> None:
    """Even where the member failed."""
    lines = [
        dataclasses.replace(line, data={**line.data, "line": str(line.data["line"])[:300]})
        if line.type == "LOG" and '"wired"' in str(line.data["line"]) and "wired-1" in str(line.data["pod"])
        else line
        for line in evidence().lines
    ]
    finding = judged(failed(base.with_lines(evidence(), lines), 1))
    assert finding.verdict == "inconclusive"
    assert "is cut" in finding.observed


def test_without_a_declared_interface_there_is_nothing_to_judge() -> None:
    """Rule 6: not applicable."""
    assert judged(evidence(), secondary=None).verdict == "not_applicable"


def test_a_first_member_whose_name_is_unknown_is_a_missing_ground() -> None:
    """DNS is no matter of the interface."""
    act = mutants.MUTANTS["rendezvous.nobody-asks"].act
    changed = act(evidence())
    assert secondary_interface.meeting_told(changed, changed.given).held is False
    assert secondary_interface.meeting_told(evidence(), evidence().given).held is True


@pytest.mark.parametrize("name", [path.name for path in recordings.folders()])
def test_no_recorded_stream_is_judged(name: str) -> None:
    """Streams of others tell no connections."""
    told = {"secondary": {"interface": "net1"}}
    assert secondary_interface.over_declared(recordings.stream(name), told).verdict == "inconclusive"
