"""The embedded Kueue does what the real one was recorded to do."""

import pytest

from pytest_gpucluster.embedded.kueue import names
from tests.embedded.kueue import projection
from tests.embedded.kueue.replay import RECORDED, Played, Recording, play

SCENARIOS = sorted(p.name for p in RECORDED.iterdir())
SHORT_BATCH = 0.05
"""The embedded cluster's own. What is counted in queues then shows more than was recorded; all else must not."""

KNOWN_DIFFERENCES = {
    "": (
        "a LocalQueue made at once after its ClusterQueue first said that it is inactive, from a cache that was behind "
        "(not always: k8 has no such state); here it is ready at once"
    ),
    "k7-": (
        "the recording ends while the pods of the second eviction are still being removed; here they are gone by then, "
        "and the quota is given back"
    ),
    "k9-": (
        "the real Job controller went on with what it had begun, and looked at a suspended Job again a second later: "
        "pods of unsuspended Jobs ran for that long, and the Jobs' states between were never written"
    ),
}
"""Beginnings of scenarios that are compared with something left out, and why."""

FLASH = ("False", "ClusterQueueIsInactive")


def played(scenario: str, batch: float = 1.0, *defects: str) -> tuple[Recording, Played]:
    """Return a recording and what the embedded cluster makes of it."""
    recording = Recording(scenario)
    return recording, play(recording, batch=batch, defects=defects)


def comparable_states(scenario: str, found: projection.States) -> projection.States:
    """Leave out the states that are a known difference."""
    out = {}
    for (kind, name), listed in found.items():
        kept = [s for s in listed if not (kind == names.LOCAL_QUEUE and s[0] and s[0][0][:2] == FLASH and
                                          s[1] == "None" and '"reservingWorkloads": 0' in s[3])]  # fmt: skip
        if scenario.startswith("k9-") and kind == "Job.batch" and name != "fits":
            kept = []
        if scenario.startswith("k7-") and kind == names.WORKLOAD:
            kept = [s for s in kept if not (s[2] == 2 and "admission" not in s[4])]
        out[kind, name] = kept
    return out


def comparable_pods(scenario: str, found):
    """Leave out the pods whose life is a known difference."""
    if scenario.startswith("k7-"):
        return {job: len(listed) for job, listed in found.items()}
    if scenario.startswith("k9-"):
        return {job: listed for job, listed in found.items() if job == "fits"}
    return found


def comparable_events(scenario: str, found: projection.Events) -> projection.Events:
    """Leave out the events that are a known difference."""
    about = {"fits-unsuspended", "fits-unsuspended-N-X", "toobig", "toobig-N-X"}
    theirs = {"job-controller", "default-scheduler"}
    return {e for e in found if not (scenario.startswith("k9-") and e[1] in about and e[5] in theirs)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_objects_and_events_are_as_recorded(scenario):
    """Every object is made as recorded and goes through the recorded states, and the same events are reported."""
    recording, got = played(scenario)
    stream = recording.stream()
    assert comparable_states(scenario, projection.states(got.stream)) == comparable_states(
        scenario, projection.states(stream)
    )
    assert projection.specs(got.stream) == projection.specs(stream)
    assert comparable_pods(scenario, projection.pods(got.stream)) == comparable_pods(
        scenario, projection.pods(stream)
    )
    assert comparable_events(scenario, projection.events(got.stream)) == comparable_events(
        scenario, projection.events(stream)
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_requests_are_answered_as_recorded(scenario):
    """The same requests are accepted and refused, in the same words."""
    recording, got = played(scenario)
    answers = {key.partition(" ->")[0]: answer for key, answer in got.answers.items()}
    for line in recording.responses():
        code, text = answers[line["request"]]
        assert code == line["code"], line["request"]
        if code >= 400:
            assert text == line["response"]["message"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_short_batch_leads_to_the_same_states(scenario):
    """With the short batch of the embedded cluster Workloads and Jobs go through the recorded states too."""
    recording, got = played(scenario, SHORT_BATCH)
    ours = comparable_states(scenario, projection.states(got.stream))
    theirs = comparable_states(scenario, projection.states(recording.stream()))
    for key in ours.keys() | theirs.keys():
        if key[0] in (names.WORKLOAD, "Job.batch"):
            assert ours.get(key) == theirs.get(key), key


# Pairs of moments whose order holds across objects: (kind, what it says) before (kind, what it says).
ORDER = [
    (("Workload", "QuotaReserved"), ("Job.batch", "started")),
    (("Job.batch", "started"), ("Pod", "made")),
    (("Job.batch", "complete"), ("Workload", "Finished")),
]


def moments(stream, job):
    """Return when a Job's Workload, the Job and its first pod first said some things."""
    out = {}
    for line in stream:
        kind, obj = line.get("kind"), line.get("object") or {}
        name = (obj.get("metadata") or {}).get("name", "")
        t = line["t"]
        if kind == "Workload" and name.startswith(f"job-{job}-"):
            for c in (obj.get("status") or {}).get("conditions") or []:
                if c["status"] == "True":
                    out.setdefault((kind, c["type"]), t)
        elif kind == "Job.batch" and name == job:
            if not obj["spec"]["suspend"]:
                out.setdefault((kind, "started"), t)
            if any(c["type"] == "Complete" for c in obj["status"].get("conditions") or []):
                out.setdefault((kind, "complete"), t)
        elif kind == "Pod" and name.startswith(f"{job}-"):
            out.setdefault((kind, "made"), t)
    return out


@pytest.mark.parametrize(
    ("scenario", "job"),
    [
        ("k1-admitted", "fits"),
        ("k1b-not-suspended-by-user", "fits"),
        ("k2-over-quota-never-fits", "control"),
        ("k3-two-jobs-room-for-one", "left"),
        ("k4b-hold-and-drain", "run"),
    ],
)
def test_what_comes_before_what(scenario, job):
    """Quota before the start, the start before the pods, the Job's end before the Workload's: here as there."""
    recording, got = played(scenario, SHORT_BATCH)
    for stream in (recording.stream(), got.stream):
        seen = moments(stream, job)
        for first, second in ORDER:
            assert seen[first] <= seen[second], (first, second)


def test_missing_quota_is_not_taken_for_the_real_thing():
    """The comparison finds a scheduler that admits over quota where the recording has a refusal."""
    recording, got = played("k2-over-quota-never-fits", 1.0, "kueue.admits-over-quota")
    assert projection.states(got.stream) != projection.states(recording.stream())
