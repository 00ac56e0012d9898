"""The timeline of a scenario's gangs."""

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import vocabulary
from pytest_gpucluster.evidence.scheduling import timeline
from tests.defects import matrix


def test_moments_are_notes_of_the_vocabulary():
    """A misspelt one would never be drawn."""
    assert set(timeline.MOMENTS) <= set(vocabulary.NOTES)


@pytest.mark.parametrize("scenario", ["scarce", "healthy", "removals", "kueue-teams", "two-gangs"])
def test_times_of_a_lane_are_in_their_order(scenario):
    """Created, bound, running, gone; within the timeline; of gangs that play a role alone."""
    evidence = matrix.evidence(scenario)
    told = timeline.timeline(evidence)
    roles = {(role, who["name"]) for role, whos in evidence.given["roles"].items() for who in whos}
    assert told["gangs"]
    for gang in told["gangs"]:
        assert (gang["role"], gang["title"].rpartition("/")[2]) in roles
        for lane in gang["lanes"]:
            times = [lane[name] for name in ("created", "bound", "running", "deleted") if name in lane]
            assert times == sorted(times)
            assert 0 <= times[0] <= times[-1] <= told["end"]


def test_lanes_are_bounded_and_the_rest_is_counted(monkeypatch):
    """A gang of a thousand does not fill the page."""
    monkeypatch.setattr(timeline, "LANES", 3)
    whole = matrix.evidence("scarce")
    told = timeline.timeline(Evidence(whole.lines, header=whole.header, spans=whole.spans))
    assert [len(gang["lanes"]) for gang in told["gangs"]] == [3]
    assert told["left_out"] == 1


@pytest.mark.parametrize(
    "given", [{}, {"roles": None}, {"roles": {"subject": None}}, {"roles": {"subject": ["x"]}}]
)
def test_without_roles_there_is_none(given):
    """Of a stream of somebody else nobody knows who is meant."""
    whole = matrix.evidence("scarce")
    assert (
        timeline.timeline(Evidence(whole.lines, header={**whole.header, "given": given}, spans=whole.spans))
        == {}
    )
