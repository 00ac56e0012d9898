"""The domains that Kueue gave a Workload: `topologyAssignment` of its admission, which is written compressed.

A slice has several domains, and of each level either one value for all or a prefix, a suffix and a root for each.
"""

from collections.abc import Iterator, Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import topology

Place = Mapping[str, str]
"""Labels of the nodes of a domain."""


def assigned(workload: fields.Object) -> tuple[Place, ...] | None:
    """Return the domains that a Workload was given, None where it was given none, or where they cannot be read."""
    found: list[Place] = []
    for part in fields.items(workload, "status", "admission", "podSetAssignments"):
        assignment = fields.sub(part, "topologyAssignment")
        levels: object = assignment.get("levels")
        if not isinstance(levels, list) or not levels:
            return None
        for one in fields.items(assignment, "slices"):
            places = list(_places(one, [str(level) for level in levels]))
            if not places or len(places) != fields.number(one, "domainCount"):
                return None
            found += places
    return tuple(found) or None


def _places(one: fields.Object, levels: list[str]) -> Iterator[Place]:
    values = fields.items(one, "valuesPerLevel")
    if len(values) != len(levels):
        return
    for number in range(fields.number(one, "domainCount") or 0):
        place = {level: _value(told, number) for level, told in zip(levels, values, strict=True)}
        if not all(place.values()):
            return
        yield place


def _value(told: fields.Object, number: int) -> str:
    alone = fields.text(told, "universal")
    if alone:
        return alone
    each = fields.sub(told, "individual")
    roots: object = each.get("roots")
    if not isinstance(roots, list) or number >= len(roots):
        return ""
    return f"{fields.text(each, 'prefix')}{roots[number]}{fields.text(each, 'suffix')}"


def labels_of_node(evidence: Evidence, pod: PodStory) -> fields.Object:
    """Return the labels of the node of a pod as they were when it was bound."""
    return topology.labels_of(evidence, pod.node, pod.bound or 0.0)
