"""The embedded Volcano does what the real one was recorded to do."""

import re

import pytest

from tests.embedded.volcano import projection
from tests.embedded.volcano.replay import RECORDED, Played, Recording, play

NOT_PLAYED = {
    "d-refusals": "answers only, see test_admission_answers",
    "h1-": "no object of Volcano, see tests/embedded/test_recorded",
    "h2-": "no object of Volcano, see tests/embedded/test_recorded",
    "h4-": "no object of Volcano, see tests/embedded/test_recorded",
    "r7-": "no object of Volcano, see tests/embedded/test_recorded",
}
"""Beginnings of recordings that are not replayed, and why."""

SCENARIOS = sorted(p.name for p in RECORDED.iterdir() if not p.name.startswith(tuple(NOT_PLAYED)))

RECORDED_PERIOD = 0.9
"""A little less than the second of the recordings, whose sessions are not in step with their requests."""
IN_STEP = {"r4-": 1.0}
"""Beginnings of recordings in which a session must fall between two moments of a kubelet, less than a second apart; it
does with the recorded period, from 0.95 to 1.1 s."""
SHORT_PERIOD = 0.05
"""The embedded cluster's own. Sessions then see what lasts less than a second (pods Bound, Releasing), so that
PodGroups and events show more than was recorded; Jobs and pods must not."""

ORIGIN = re.compile(r"Origin reason is [^:]+: (.*)")

KNOWN_DIFFERENCES = {
    "f10-": (
        "the real controller created the lost pod's replacement twice, from a cache that was behind: a pod that is "
        "deleted while unbound appears once in the recording"
    ),
    "r4-": (
        "a session of the real scheduler fell into the tenth of a second in which the controller ended the attempt, "
        "and saw one pod failed and two running; here an attempt ends in one step"
    ),
}
"""Beginnings of scenarios that are compared with one thing left out, and why."""

TWICE_CREATED = ("Pending", False, True, ())
BETWEEN = "pod group is not ready, N Failed, N Running, N minAvailable"


def played(scenario: str, period: float) -> tuple[Recording, Played]:
    """Return a recording and what the embedded cluster makes of it."""
    recording = Recording(scenario)
    return recording, play(recording, period=period)


def is_left_out(scenario: str, kind: str, state: projection.State) -> bool:
    """Report whether a state is the known difference of a scenario."""
    if scenario.startswith("f10-"):
        return kind == "Pod" and state == TWICE_CREATED
    in_between = (kind == "PodGroup" and state[0] == "Unknown") or (
        kind == "Queue" and ("nvidia.com/gpu", "2") in state[1]
    )
    return scenario.startswith("r4-") and in_between


def comparable_states(scenario: str, found: projection.States) -> projection.States:
    """Leave out the states that are a known difference."""
    return {
        key: [[state for state in listed if not is_left_out(scenario, key[0], state)] for listed in each]
        for key, each in found.items()
    }


def comparable_events(scenario: str, found: projection.Events) -> projection.Events:
    """Leave out what is a known difference, and which of several refused pods is quoted.

    The real scheduler quotes a random one, from run to run and session to session; it must be one that was refused.
    """
    refusals = {event[4] for event in found if event[3] == "FailedScheduling"}

    def quoted(match: re.Match[str]) -> str:
        return "Origin reason is that of a refused pod" if match[1] in refusals else match[0]

    return {
        (*event[:4], ORIGIN.sub(quoted, event[4]))
        for event in found
        if not (scenario.startswith("r4-") and event[4].endswith(BETWEEN))
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_objects_and_events_are_as_recorded(scenario):
    """Every object is created as recorded and goes through the recorded states, and the same events are reported."""
    period = next((p for name, p in IN_STEP.items() if scenario.startswith(name)), RECORDED_PERIOD)
    recording, got = played(scenario, period)
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
