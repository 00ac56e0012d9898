"""Whether a gang fits: free places on nodes, where the evidence has the nodes.

Pods alone do not tell what is free; Node objects together with the pods bound to them do.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import pods
from pytest_gpucluster.evidence.scheduling.gangs import Gang


@dataclasses.dataclass(frozen=True)
class Room:
    """Free room of one resource on one node at some time."""

    node: str
    capacity: Fraction
    allocatable: Fraction
    used: Fraction

    @property
    def free(self) -> Fraction:
        """Return what is left; below zero where devices were lost under running pods."""
        return self.allocatable - self.used


def rooms(evidence: Evidence, resource: str, t: float = math.inf) -> tuple[Room, ...]:
    """Return the room on every node that takes pods: not cordoned, not tainted, and Ready or without that condition.

    Args:
        evidence: the evidence.
        resource: the resource.
        t: when, in seconds; infinite for the end of the evidence.
    """
    used: dict[str, Fraction] = {}
    for pod in pods(evidence):
        ended = [when for when in (pod.deleted, pod.finished) if when is not None and when <= t]
        if pod.phase in {"Succeeded", "Failed"} and t == math.inf:
            continue
        if pod.bound is not None and pod.bound <= t and not ended:
            used[pod.node] = used.get(pod.node, Fraction(0)) + fields.requested(pod.last, resource)
    newest = {line.name: line for line in evidence.of_kind("Node") if line.t <= t}
    found = []
    for name, line in newest.items():
        spec = fields.sub(line.object, "spec")
        ready = fields.condition(line.object, "Ready").get("status", "True")
        if line.type == "DELETED" or spec.get("unschedulable") or _tainted(spec) or ready != "True":
            continue
        amounts = [
            fields.quantity(fields.sub(line.object, "status", part).get(resource, 0))
            for part in ("capacity", "allocatable")
        ]
        found.append(Room(name, amounts[0], amounts[1], used.get(name, Fraction(0))))
    return tuple(found)


def _tainted(spec: fields.Object) -> bool:
    """Report whether a node has a taint that may keep pods off it: PreferNoSchedule only asks."""
    taints: object = spec.get("taints") or []
    if not isinstance(taints, list):
        return True
    return any(not isinstance(one, Mapping) or one.get("effect") != "PreferNoSchedule" for one in taints)


def member_request(gang: Gang) -> tuple[str, Fraction] | None:
    """Return (resource, amount) that each needed member asks for, None where members differ or ask for none."""
    asked = {
        (resource, fields.requested(pod.last, resource))
        for pod in gang.pods
        for resource in fields.scarce_resources(pod.last)
    }
    if not gang.pods:
        for group in gang.groups[-1:]:
            for resource, total in fields.sub(group.last, "spec", "minResources").items():
                if "/" in resource and not resource.startswith(("requests.", "limits.", "count/")):
                    asked.add((resource, fields.quantity(total) / max(gang.minimum, 1)))
    return next(iter(asked)) if len(asked) == 1 else None


def asked_by(members: Sequence[fields.Object], minimum: int) -> dict[str, Fraction]:
    """Return what as many members as are needed ask for at least, by resource: those that ask for least are counted.

    Args:
        members: pods, or templates, one per member.
        minimum: how many are needed; 0 for all.
    """
    return {
        resource: sum(
            sorted(fields.requested(one, resource) for one in members)[: minimum or None], Fraction(0)
        )
        for resource in dict.fromkeys(r for one in members for r in fields.resources(one))
    }


def fits_on(evidence: Evidence, gang: Gang) -> tuple[tuple[str, ...], tuple[Room, ...]] | None:
    """Return (nodes on which the needed members fit, all rooms); None where they do not or it cannot be told.

    A queue's capability that the gang would exceed, and node selectors or affinities of its pods, are reasons not to
    tell.
    """
    request = member_request(gang)
    if request is None or not evidence.of_kind("Node"):
        return None
    resource, amount = request
    if (
        amount <= 0
        or any(_choosy(pod.last) for pod in gang.pods)
        or _above_capability(evidence, gang, resource, amount)
    ):
        return None
    every = rooms(evidence, resource)
    places = [room.node for room in every for _ in range(max(0, int(room.free // amount)))]
    if len(places) < gang.minimum:
        return None
    return tuple(dict.fromkeys(places[: gang.minimum])), every


def _choosy(pod: fields.Object) -> bool:
    spec = fields.sub(pod, "spec")
    return bool(spec.get("nodeSelector") or spec.get("affinity") or spec.get("topologySpreadConstraints"))


def _above_capability(evidence: Evidence, gang: Gang, resource: str, amount: Fraction) -> bool:
    queue = next((line for line in reversed(evidence.of_kind("Queue")) if line.name == gang.queue), None)
    if queue is None:
        return False
    limit = fields.sub(queue.object, "spec", "capability").get(resource)
    held = fields.quantity(fields.sub(queue.object, "status", "allocated").get(resource, 0))
    return limit is not None and held + amount * gang.minimum > fields.quantity(limit)
