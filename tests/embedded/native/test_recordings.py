"""Native gangs of the embedded cluster do what Kubernetes 1.37.2 was recorded to do."""

import functools
import json
import re

import pytest

from tests.embedded.native.replay import FOLLOWED, RECORDED, gang_of, play, recorded

SCENARIOS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())

GENERATED = re.compile(r"\b(left|right|trainer)(-\d+)?-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b")
DIGITS = re.compile(r"\d+")
GROUP = re.compile(r"\b(left|right|trainer)-H(-\1-pgt-\d+)-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b")

WHOLE = "the sum over both Jobs"

KNOWN_DIFFERENCES = {
    "native-two-jobs-without-policy": (
        "how two Jobs that start together share what does not suffice for both depends on milliseconds: recorded were "
        "two pods each; the pods of both are compared as one set"
    ),
}
"""What is compared differently, and why."""


def masked(text):
    """Return a text without hashes, generated endings, names of nodes and numbers."""
    text = re.sub(r"lab-worker2?", "NODE", GENERATED.sub(r"\1-H", text))
    return DIGITS.sub("N", GROUP.sub(r"\1-H\2-H", text))


def conditions_of(obj):
    """Return the conditions of an object without times."""
    return tuple(
        (
            c["type"],
            c["status"],
            c.get("reason"),
            masked(c["message"]) if c["type"].startswith("PodGroup") else "",
        )
        for c in (obj.get("status") or {}).get("conditions") or []
    )


def state_of(kind, obj):
    """Return what of an object's state is compared."""
    status = obj.get("status") or {}
    if kind == "Pod":
        meta, spec = obj["metadata"], obj["spec"]
        where = (bool(spec.get("nodeName")), bool(status.get("nominatedNodeName")))
        return (status["phase"], *where, "deletionTimestamp" in meta, conditions_of(obj))
    return (conditions_of(obj), "deletionTimestamp" in obj["metadata"])


def states(stream, together=False):
    """Return, per object, the distinct states in their order; the pods of a gang can stand for each other."""
    each = {}
    for line in stream:
        if line.get("kind") in FOLLOWED[:4]:
            obj = line["object"]
            found = each.setdefault((line["kind"], gang_name(obj, together), obj["metadata"]["uid"]), [])
            now = state_of(line["kind"], obj)
            if now not in found:
                found.append(now)
    out = {}
    for (kind, name, _), listed in each.items():
        out.setdefault((kind, name), []).append(listed)
    return {key: sorted(found, key=repr) for key, found in out.items()}


def gang_name(obj, together):
    """Return the name under which objects that can stand for each other are listed."""
    if together:
        return WHOLE
    return gang_of(obj) if obj["kind"] == "Pod" else masked(obj["metadata"]["name"])


def events(stream):
    """Return the distinct events of the control plane; the shape of the scheduler's depends on how it was started."""
    out = set()
    for line in stream:
        event = line["object"] if line.get("kind") == "Event" else {}
        if event and event["reportingComponent"] != "kubelet":
            about = event["involvedObject"]["kind"]
            out.add(
                (about, event["type"], event["reason"], masked(event["message"]), event["reportingComponent"])
            )
    return out


def specs(stream):
    """Return what objects are made with: masked names, owners, finalizers, specs of Workload and PodGroup."""
    out = {}
    for line in stream:
        if line["type"] != "ADDED" or line["kind"] not in FOLLOWED[1:4]:
            continue
        obj = line["object"]
        owners = tuple(
            (o["kind"], masked(o["name"]), o.get("controller"), o.get("blockOwnerDeletion"))
            for o in obj["metadata"].get("ownerReferences") or []
        )
        spec = obj["spec"]
        if line["kind"] == "Pod":
            spec = spec.get("schedulingGroup")
        finalizers = tuple(obj["metadata"].get("finalizers") or ())
        key = (line["kind"], gang_name(obj, together=False))
        out.setdefault(key, set()).add((owners, finalizers, masked(json.dumps(spec, sort_keys=True))))
    return out


@functools.cache
def played(name):
    """Return what the embedded cluster makes of a recording."""
    return play(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_objects_and_events_are_as_recorded(name):
    """Objects are made as recorded and go through the recorded states, and the same events are reported."""
    ours, theirs, together = played(name), recorded(name), name in KNOWN_DIFFERENCES
    assert states(ours, together) == states(theirs, together)
    assert events(ours) == events(theirs)
    assert specs(ours) == specs(theirs)


@pytest.mark.parametrize("stream", [played, recorded])
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_comes_first_is_as_recorded(name, stream):
    """Workload, PodGroup, pods are made in this order; no pod is bound before minCount pods are there."""
    first, created, bound = {}, {}, {}
    for index, line in enumerate(stream(name)):
        if line.get("kind") in FOLLOWED[1:4]:
            obj = line["object"]
            owner = (
                gang_of(obj) if obj["kind"] == "Pod" else masked(obj["metadata"]["name"]).partition("-")[0]
            )
            first.setdefault((line["kind"], owner), index)
            if obj["kind"] == "Pod" and obj["spec"].get("schedulingGroup"):
                created.setdefault(owner, {}).setdefault(obj["metadata"]["name"], index)
                if obj["spec"].get("nodeName"):
                    bound.setdefault(owner, index)
            if line["kind"] == FOLLOWED[1]:
                least = (obj["spec"]["schedulingPolicy"].get("gang") or {}).get("minCount", 1)
                first["minCount", owner] = least
    for kind, owner in list(first):
        if kind == FOLLOWED[2]:
            assert first[kind, owner] < first[FOLLOWED[1], owner] < first["Pod", owner]
    for owner, at in bound.items():
        assert sorted(created[owner].values())[first["minCount", owner] - 1] < at


@pytest.mark.parametrize(
    ("defect", "name"),
    [
        ("native.gate-off", "native-job-gang-over-capacity"),
        ("native.binds-partially", "native-gang-over-capacity"),
        ("native.basic-policy", "native-job-gang-over-capacity"),
        ("native.min-count-short", "native-job-gang-over-capacity"),
        ("native.forgets-room", "native-gang-room-appears"),
        ("native.never-says", "native-gang-over-capacity"),
    ],
)
def test_a_defect_is_not_taken_for_the_real_thing(defect, name):
    """The comparison finds each defect."""
    assert states(play(name, defects=(defect,))) != states(recorded(name))
