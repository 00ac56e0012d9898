"""Who was evicted by a scheduler for another, and which priority gangs have."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation, gangs

PREEMPT, RECLAIM = "preempt", "reclaim"

EVICTING_EVENTS = {"volcano": frozenset({"Evict"}), "default-scheduler": frozenset({"Preempted"})}
"""Reasons of pod events by which schedulers say that they evict a pod."""

WHY = re.compile(r"because of (\w+)")
"""How Volcano names the action in such an event."""


@dataclasses.dataclass(frozen=True)
class Taken:
    """A member that a scheduler evicted.

    Attributes:
        t: when that was first seen.
        why: the action, `preempt` or `reclaim`, "" where nothing says so.
        key: of the line that says it.
    """

    pod: PodStory
    gang: Gang
    generation: Generation
    t: float
    why: str
    key: str


def read_taken(evidence: Evidence) -> tuple[Taken, ...]:
    """Find the evicted members of gangs: by the pod's condition DisruptionTarget, or the scheduler's event."""
    found = []
    for gang in gangs(evidence):
        for gen in gang.generations:
            for pod in gen.members:
                one = _taken(evidence, gang, gen, pod)
                if one is not None and one.t < gen.end:
                    found.append(one)
    unique = {one.pod.uid: one for one in found}
    return tuple(sorted(unique.values(), key=lambda one: one.t))


def taken(evidence: Evidence) -> tuple[Taken, ...]:
    """Return the evicted members of gangs, in order of time; found once per evidence."""
    return evidence.derived(read_taken)


def _taken(evidence: Evidence, gang: Gang, gen: Generation, pod: PodStory) -> Taken | None:
    seen: list[tuple[float, str, str]] = []
    for line in evidence.history(pod.uid):
        target = fields.condition(line.object, "DisruptionTarget")
        if (target.get("status"), target.get("reason")) == ("True", "PreemptionByScheduler"):
            seen.append((line.t, line.key, ""))
            break
    for said in owners.said_about(evidence, "Pod", pod.namespace, pod.name, pod.uid):
        if said.reason in EVICTING_EVENTS.get(said.reporter, frozenset()):
            match = WHY.search(said.message)
            seen.append((said.t, said.key, match[1] if match else PREEMPT))
            break
    if not seen:
        return None
    t, key, _ = min(seen)
    return Taken(pod, gang, gen, t, next((why for _, _, why in seen if why), ""), key)


def by_attempt(seen: Sequence[Taken]) -> tuple[tuple[Taken, ...], ...]:
    """Return the evicted members grouped by the attempt of the gang that lost them, in order of time."""
    found: dict[tuple[str, str, int], list[Taken]] = {}
    for one in seen:
        found.setdefault((one.gang.title, one.gang.uid, one.generation.number), []).append(one)
    return tuple(tuple(each) for each in found.values())


def classes(evidence: Evidence) -> Mapping[str, int]:
    """Return the values of the priority classes that were seen, by name."""
    found: dict[str, int] = {}
    for line in evidence.of_kind("PriorityClass"):
        value = fields.number(line.object, "value")
        if value is not None:
            found[line.name] = value
    return found


def priority(evidence: Evidence, gang: Gang) -> int | None:
    """Return the priority of a gang: what admission wrote into its pods, else its class's value; None if not known."""
    for pod in gang.pods:
        value = fields.number(pod.last, "spec", "priority")
        if value is not None:
            return value
    name = fields.text(gang.job.last, "spec", "priorityClassName") if gang.job is not None else ""
    name = name or next(
        (text for g in gang.groups if (text := fields.text(g.last, "spec", "priorityClassName"))), ""
    )
    return classes(evidence).get(name) if name else 0


def staying(gen: Generation, t: float) -> tuple[PodStory, ...]:
    """Return the members that hold a place at a time and whose deletion was not asked for."""
    return tuple(
        pod
        for pod in gen.members
        if pod.bound is not None
        and pod.bound <= t
        and ((pod.finished is not None and pod.finished <= t) or not pod.going(t))
    )
