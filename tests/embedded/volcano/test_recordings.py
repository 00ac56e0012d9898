"""The embedded Volcano does what the real one was recorded to do."""

import re

import pytest

from tests.embedded.volcano import projection
from tests.embedded.volcano.replay import RECORDED, Played, Recording, play

NOT_PLAYED = {
    "d-refusals": "answers only, see test_admission_answers",
    "h1-": "no object of Volcano",
    "h2-": "no object of Volcano",
    "h4-": "no object of Volcano",
    "r": "real kubelets: their times and phases are not simulated here",
}
"""Beginnings of recordings that are not replayed, and why."""

SCENARIOS = sorted(p.name for p in RECORDED.iterdir() if not p.name.startswith(tuple(NOT_PLAYED)))

RECORDED_PERIOD = 0.9
"""A little less than the second of the recordings, whose sessions are not in step with their requests."""
SHORT_PERIOD = 0.05
"""The embedded cluster's own. Sessions then see what lasts less than a second (pods Bound, Releasing), so that
PodGroups and events show more than was recorded; Jobs and pods must not."""

ORIGIN = re.compile(r"Origin reason is .*")

KNOWN_DIFFERENCES = {
    "f10-node-lost-below-min": (
        "the real controller created the lost pod's replacement twice: a pod that is deleted while unbound "
        "appears once in the recording"
    ),
    "c3-two-gangs-without-gang-plugin-run": (
        "of several refused pods the real scheduler quotes a random one as Origin reason, ours the first"
    ),
    "c3-two-gangs-without-gang-plugin-swapped": "as run",
}
"""Beginnings of scenarios that are compared with one thing left out, and why."""

TWICE_CREATED = ("Pending", False, True, ())


def played(scenario: str, period: float) -> tuple[Recording, Played]:
    """Return a recording and what the embedded cluster makes of it."""
    recording = Recording(scenario)
    return recording, play(recording, period=period)


def comparable_states(scenario: str, found: projection.States) -> projection.States:
    """Leave out the state that is a known difference."""
    if not scenario.startswith("f10-"):
        return found
    return {
        key: [[state for state in listed if state != TWICE_CREATED] for listed in each]
        for key, each in found.items()
    }


def comparable_events(scenario: str, found: projection.Events) -> projection.Events:
    """Leave out the random part of texts where it is a known difference."""
    if not scenario.startswith("c3-") or not scenario.startswith(tuple(KNOWN_DIFFERENCES)):
        return found
    return {(*event[:4], ORIGIN.sub("Origin reason is one of them", event[4])) for event in found}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_objects_and_events_are_as_recorded(scenario):
    """Every object is created as recorded and goes through the recorded states, and the same events are reported."""
    recording, got = played(scenario, RECORDED_PERIOD)
    stream = recording.stream()
    assert comparable_states(scenario, projection.states(got.stream)) == comparable_states(
        scenario, projection.states(stream)
    )
    assert comparable_events(scenario, projection.events(got.stream)) == comparable_events(
        scenario, projection.events(stream)
    )
    assert projection.specs(got.stream) == projection.specs(stream)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_short_period_leads_to_the_same_phases(scenario):
    """With the short period of the embedded cluster Jobs and pods go through the recorded states too."""
    recording, got = played(scenario, SHORT_PERIOD)
    ours = comparable_states(scenario, projection.states(got.stream))
    theirs = comparable_states(scenario, projection.states(recording.stream()))
    for key in ours.keys() | theirs.keys():
        if key[0] in ("Pod", "Job.batch.volcano.sh"):
            assert ours.get(key) == theirs.get(key), key


def test_a_missing_gang_gate_is_not_taken_for_the_real_thing():
    """The comparison finds a scheduler that binds a gang in part where the recording has all or nothing."""
    recording = Recording("b3-room-for-n-minus-one-then-room")
    got = play(recording, period=RECORDED_PERIOD, defects=("gang.binds-partially",))
    assert projection.states(got.stream) != projection.states(recording.stream())
