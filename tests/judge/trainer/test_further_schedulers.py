"""TRN-003: each further scheduler by itself, right and wrong."""

import dataclasses

import pytest

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge.trainer import further_schedulers
from tests import recordings

FURTHER = recordings.embedded("further")


def test_native_gangs_hold_on_the_embedded_cluster():
    """The finding names the scheduler and what held; its numbers say whose they are."""
    found = further_schedulers.further_hold(FURTHER, FURTHER.given)
    assert found.verdict == "pass"
    assert found.observed.startswith("native: ")
    for word in further_schedulers.JUDGES:
        assert f"{word} holds" in found.observed
    assert {number.name.partition(":")[0] for number in found.numbers} == {
        "native",
        "jobset-native",
        "jobset-volcano",
    }


def test_nothing_tried_is_not_decided():
    """A profile without further schedulers has no such evidence; evidence without gangs decides nothing."""
    empty = Evidence((), header={"given": {}})
    assert further_schedulers.further_hold(empty, {}).verdict == "inconclusive"


def test_two_schedulers_are_judged_apart():
    """Of two schedulers of which one holds, the other one is named, and what held of the first is told."""
    start, end = FURTHER.lines[0].t, FURTHER.end
    shift = end - start + 1.0

    def renamed(line):
        data = {**line.data}
        if data.get("note") == "tries":
            data["scheduler"] = "kueue"
        return dataclasses.replace(line, t=line.t + shift, data=data)

    # The second scheduler's gangs come after the first's: the same lines, but none of them ever has a pod bound.
    again = [renamed(line) for line in FURTHER.lines if line.kind not in ("Pod", "Node")]
    roles = dict(FURTHER.given["roles"])
    roles |= {role.replace("native:", "kueue:"): who for role, who in roles.items()}
    lines = [dataclasses.replace(line, index=n) for n, line in enumerate([*FURTHER.lines, *again])]
    both = Evidence(lines, header=FURTHER.header, spans=FURTHER.spans)
    found = further_schedulers.further_hold(both, {**FURTHER.given, "roles": roles})
    assert found.verdict == "inconclusive"
    assert found.observed.startswith("kueue, ")
    assert "native: two gangs for the room of one holds" in found.observed


@pytest.mark.parametrize(
    ("stream", "roles", "verdict"),
    [
        ("native-two-job-gangs-room-for-one", ("left", "right"), "pass"),
        ("native-two-jobs-without-policy", ("left", "right"), "inconclusive"),
    ],
)
def test_runs_whole_on_recorded_gangs(stream, roles, verdict):
    """Of two gangs the first that was whole must have run whole; half started jobs never were."""
    evidence = recordings.stream(stream)
    given = {"roles": {role: [{"kind": "Job.batch", "name": role, "uid": ""}] for role in roles}}
    assert further_schedulers.runs(evidence, given).verdict == verdict
