"""What happened to the pods of a scenario's gangs: a lane per pod with its times, and the moments between."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang, gangs

LANES = 32
"""Most pods of which a timeline tells; it says how many it leaves out."""

MOMENTS: Mapping[str, str] = {
    "window-begin": "watched from here",
    "window-end": "to here",
    "room-made": "room made",
    "slots-set": "slots changed",
    "evicted-by-us": "evicted",
    "rebooted-by-us": "node rebooted",
    "commanded": "commanded",
    "deleted-by-us": "deleted by the suite",
    "timed-out": "a wait ran out",
}
"""Notes of the driver that a person looks for -> how they are called."""

_TIMES = ("created", "bound", "running", "finished", "deleting", "deleted")


def timeline(evidence: Evidence) -> dict[str, Any]:
    """Return the timeline of the gangs that play a role, {} if there is no pod of one.

    Returns:
        `zero`: the time of the evidence at which it starts; `end`: its length; `gangs`: title, minimum and `lanes` of
        each, a lane with the pod's name, its node, and the times at which it was created, bound, running, finished,
        asked to go and gone; `moments`: time and name; `left_out`: pods without a lane. Times are seconds after zero.
    """
    return evidence.derived(_timeline)


def _timeline(evidence: Evidence) -> dict[str, Any]:
    roles = evidence.given.get("roles")
    known = {
        str(who.get("uid")): str(role)
        for role, whos in (roles.items() if isinstance(roles, Mapping) else ())
        for who in (whos if isinstance(whos, list) else ())
        if isinstance(who, Mapping)
    }
    found = [(gang, known[gang.uid]) for gang in gangs(evidence) if gang.uid in known and gang.pods]
    if not found:
        return {}
    zero = min(gang.created for gang, _ in found)
    room = LANES
    told: list[dict[str, Any]] = []
    for gang, role in found:
        told.append(_gang(gang, role, zero, room))
        room -= len(told[-1]["lanes"])
    count = sum(len(gang.pods) for gang, _ in found)
    moments = _moments(evidence.notes(), zero)
    times = [time for gang in told for lane in gang["lanes"] for time in _numbers(lane)]
    return {
        "zero": round(zero, 3),
        "end": round(max([*times, *(moment["t"] for moment in moments), 0.0]), 3),
        "gangs": [gang for gang in told if gang["lanes"]],
        "moments": moments,
        "left_out": count - sum(len(gang["lanes"]) for gang in told),
    }


def _gang(gang: Gang, role: str, zero: float, room: int) -> dict[str, Any]:
    pods = sorted(gang.pods, key=lambda pod: (pod.created, pod.name))[: max(0, room)]
    return {
        "title": gang.title,
        "role": role,
        "minimum": gang.minimum,
        "lanes": [_lane(pod, zero) for pod in pods],
    }


def _lane(pod: PodStory, zero: float) -> dict[str, Any]:
    times = {name: getattr(pod, name) for name in _TIMES}
    return {
        "pod": pod.name,
        "node": pod.node,
        "phase": pod.phase,
        **{name: round(max(0.0, time - zero), 3) for name, time in times.items() if time is not None},
    }


def _numbers(lane: Mapping[str, Any]) -> Iterable[float]:
    return (lane[name] for name in _TIMES if name in lane)


def _moments(notes: Iterable[Line], zero: float) -> list[dict[str, Any]]:
    return [
        {"t": round(line.t - zero, 3), "name": MOMENTS[note]}
        for line in notes
        if (note := str(line.data.get("note"))) in MOMENTS and line.t >= zero
    ]
