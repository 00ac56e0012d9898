"""Gangs that must stay inside one domain of the network: the level they demand, and where members were put."""

import dataclasses
import math
from collections.abc import Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.network_places import Domain, Levels
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import capacity
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.plain import names


def demanded(gang: Gang) -> str:
    """Return the label of the level within one domain of which a gang asks to be placed, "" where it does not ask."""
    templates = [] if gang.job is None else [fields.sub(gang.job.last, "spec", "template")]
    for template in (*templates, *(pod.last for pod in gang.pods)):
        asked = fields.text(fields.sub(template, "metadata", "annotations"), names.ANNOTATION_KUEUE_TOPOLOGY)
        if asked:
            return asked
    own = {} if gang.job is None else fields.sub(gang.job.last, "spec", "scheduling")
    for constrained in (
        *(fields.sub(group.last, "spec") for group in reversed(gang.groups) if group.native),
        own,
    ):
        for one in fields.items(constrained, "schedulingConstraints", "topology")[:1]:
            return fields.text(one, "key")
    return ""


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the members of one attempt of a gang were put.

    Attributes:
        domains: domain -> the members on its nodes.
        unplaced: members whose node does not tell its place.
    """

    domains: Mapping[Domain, tuple[PodStory, ...]]
    unplaced: tuple[PodStory, ...]

    @property
    def members(self) -> tuple[PodStory, ...]:
        """Return all members that have a node."""
        return (*(pod for pods in self.domains.values() for pod in pods), *self.unplaced)


def placement(evidence: Evidence, gen: Generation, known: Levels, level: str = "") -> Placement:
    """Return where the members of an attempt were put, at a level, by default the required one."""
    found: dict[Domain, list[PodStory]] = {}
    unplaced: list[PodStory] = []
    for pod in gen.bound_members:
        domain = known.domain(labels_of(evidence, pod.node, pod.bound or 0.0), level)
        if domain is None:
            unplaced.append(pod)
        else:
            found.setdefault(domain, []).append(pod)
    return Placement({domain: tuple(found[domain]) for domain in sorted(found)}, tuple(unplaced))


def labels_of(evidence: Evidence, node: str, t: float) -> fields.Object:
    """Return the labels of a node as they were at a time; where it was seen only later, as it was seen first."""
    lines = [line for line in evidence.of_kind("Node") if line.name == node]
    before: Line | None = next((line for line in reversed(lines) if line.t <= t), lines[0] if lines else None)
    return fields.sub(before.object, "metadata", "labels") if before is not None else {}


def relabelled(evidence: Evidence, gang: Gang, known: Levels, until: float = math.inf) -> tuple[str, ...]:
    """Return the nodes of a gang's members whose domain changed from when the gang was made until a time.

    Where a scheduler read the labels before they changed, they do not tell what it meant.
    """
    found = []
    for node in sorted({pod.node for pod in gang.pods if pod.bound is not None}):
        places = {known.domain(labels_of(evidence, node, gang.created))}
        places |= {
            known.domain(fields.sub(line.object, "metadata", "labels"))
            for line in evidence.of_kind("Node")
            if line.name == node and gang.created < line.t <= until
        }
        if len(places) > 1:
            found.append(node)
    return tuple(found)


def free(evidence: Evidence, resource: str, known: Levels, t: float = math.inf) -> dict[Domain, int]:
    """Return how many of a resource are free in each domain of the required level at a time."""
    found: dict[Domain, int] = {}
    for room in capacity.rooms(evidence, resource, t):
        domain = known.domain(labels_of(evidence, room.node, t))
        if domain is not None:
            found[domain] = found.get(domain, 0) + max(int(room.free), 0)
    return found
