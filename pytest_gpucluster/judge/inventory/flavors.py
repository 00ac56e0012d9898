"""What a ClusterQueue's quota stands for: each flavor's nodes, what they have, and whether anything is left to give.

A ResourceFlavor stands for the nodes that carry its labels and taints. Quota of a flavor is good for what these have,
whatever other nodes have: Kueue counts quota and never looks at nodes.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.evidence.scheduling import kueue_quota
from pytest_gpucluster.evidence.scheduling.kueue_workloads import CLUSTER_QUEUE, FLAVOR
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.plain import names, quantities
from pytest_gpucluster.requirement import Cause

NO_NODE = Cause(
    "the flavor's nodeLabels or nodeTaints fit no node, or not the nodes with the devices: gangs are admitted by "
    "quota, but their pods wait forever",
    "compare spec.nodeLabels and spec.nodeTaints of the ResourceFlavor with the nodes (kubectl get nodes "
    "--show-labels); correct the flavor, or label the nodes",
)
NOT_SEEN = Cause(
    "the evidence does not contain the ResourceFlavor, so the nodes behind its quota are not known",
    "add it: kubectl get resourceflavors -o yaml",
)
NOTHING = Cause(
    "the queue's quota of a resource that training needs is zero: it admits no Job",
    "set nominalQuota (Kueue) or capability (Volcano) to what the queue may use, or leave the resource out",
)
NOT_COVERED = Cause(
    "the ClusterQueue has no quota for the GPUs: Kueue admits no Job that asks for them, unless its configuration "
    "leaves the resource out (resources.excludeResourcePrefixes)",
    "add the resource to coveredResources and to the flavors' resources",
)
_HOLDING = ("NoSchedule", "NoExecute")


@dataclasses.dataclass(frozen=True)
class Share:
    """What a ClusterQueue promises of one flavor and resource."""

    flavor: str
    resource: str
    amount: Fraction

    @property
    def text(self) -> str:
        """Return `16 nvidia.com/gpu of flavor h100`."""
        return f"{quantities.format_quantity(self.amount)} {self.resource} of flavor {self.flavor}"


@dataclasses.dataclass(frozen=True)
class Doubt:
    """What is wrong with a queue's quota, or not known of it (`open_`)."""

    text: str
    cause: Cause
    open_: bool = False


def shares(queue: fields.Object) -> list[Share]:
    """Return what a ClusterQueue promises, flavor by flavor, where that can be read and is not zero."""
    found: dict[tuple[str, str], Fraction] = {}
    for group in fields.items(queue, "spec", "resourceGroups"):
        for flavor in fields.items(group, "flavors"):
            for row in fields.items(flavor, "resources"):
                resource, amount = fields.text(row, "name"), _amount(row.get("nominalQuota"))
                if resource and amount:
                    place = fields.text(flavor, "name"), resource
                    found[place] = found.get(place, Fraction(0)) + amount
    return [Share(flavor, resource, amount) for (flavor, resource), amount in found.items()]


def _amount(value: object) -> Fraction | None:
    try:
        return Fraction(quantities.parse_quantity(value))  # type: ignore[arg-type]
    except quantities.QuantityError:
        return None


def nodes_of(flavor: fields.Object, found: Sequence[Machine]) -> list[Machine]:
    """Return the nodes that a ResourceFlavor stands for."""
    labels = fields.sub(flavor, "spec", "nodeLabels")
    taints = [
        _taint(one) for one in fields.items(flavor, "spec", "nodeTaints") if one.get("effect") in _HOLDING
    ]
    return [
        machine
        for machine in found
        if all(str(machine.labels.get(key)) == str(value) for key, value in labels.items())
        and not set(taints) - {_taint(one) for one in fields.items(machine.line.object, "spec", "taints")}
    ]


def _taint(taint: Mapping[str, object]) -> tuple[str, str, str]:
    return tuple(str(taint.get(key) or "") for key in ("key", "value", "effect"))  # type: ignore[return-value]


def flavor_of(evidence: Evidence, name: str) -> Line | None:
    """Return the last line of a ResourceFlavor, None where it was never seen or is gone."""
    lines = [line for line in evidence.of_kind(FLAVOR) if line.name == name]
    return lines[-1] if lines and lines[-1].type != "DELETED" else None


def doubts(evidence: Evidence, given: subjects.Given, queue: Line, found: Sequence[Machine]) -> list[Doubt]:
    """Return what is wrong with the quota of a queue beside its sum, gravest first."""
    told = [*_nothing(evidence, given, queue)]
    if queue.kind == CLUSTER_QUEUE:
        told += [one for share in shares(queue.object) for one in _of_share(evidence, share, found)]
    return sorted(told, key=lambda one: one.open_)


def _of_share(evidence: Evidence, share: Share, found: Sequence[Machine]) -> list[Doubt]:
    flavor = flavor_of(evidence, share.flavor)
    if flavor is None:
        return [Doubt(f"{share.text}, which was not seen", NOT_SEEN, open_=True)]
    own = nodes_of(flavor.object, found)
    there = node_status.total(own, share.resource)
    if share.amount <= there:
        return []
    where = (
        wording.listed([machine.name for machine in own], 4)
        if own
        else f"no node has {_asked(flavor.object, found)}"
    )
    text = f"{share.text}, its nodes have {quantities.format_quantity(there)} allocatable ({where})"
    return [Doubt(text, NO_NODE)]


def _asked(flavor: fields.Object, found: Sequence[Machine]) -> str:
    """Return the labels and taints of a flavor, with what nodes have instead where that is near."""
    parts = []
    for key, value in fields.sub(flavor, "spec", "nodeLabels").items():
        others = sorted({str(machine.labels[key]) for machine in found if key in machine.labels})
        near = f" (nodes have {wording.listed(others, 3)})" if others else ""
        if not others:
            like = names.nearest(str(key), sorted({label for machine in found for label in machine.labels}))
            near = f" (did you mean {like!r}?)" if like else ""
        parts.append(f"label {key}={value}{near}")
    parts += [f"taint {one.get('key')}" for one in fields.items(flavor, "spec", "nodeTaints")]
    return " and ".join(parts) or "labels it needs"


def _nothing(evidence: Evidence, given: subjects.Given, queue: Line) -> list[Doubt]:
    """Return which resources that training asks for the queue gives nothing of."""
    gpu = str(given.get("gpu_resource") or "nvidia.com/gpu")
    asked = (gpu, "cpu", "memory")
    if queue.kind != CLUSTER_QUEUE:
        limit = fields.sub(queue.object, "spec", "capability")
        zero = [name for name in asked if name in limit and _amount(limit[name]) == 0]
        return [Doubt(f"its capability of {wording.listed(zero)} is 0", NOTHING)] if zero else []
    told = kueue_quota.quota(evidence, queue.name)
    if told is None:
        return []
    zero = [name for name in asked if told.nominal.get(name) == 0 and not told.reach.get(name)]
    cohort = fields.text(queue.object, "spec", "cohortName") or fields.text(queue.object, "spec", "cohort")
    found = []
    if zero and cohort:
        text = f"its quota of {wording.listed(zero)} is 0, and the quota that its cohort {cohort} lends was not seen"
        found.append(Doubt(text, NOTHING, open_=True))
    elif zero:
        found.append(Doubt(f"its quota of {wording.listed(zero)} is 0", NOTHING))
    if gpu not in told.nominal and (subjects.count(given, "gpus_per_node") or 0) > 0:
        found.append(Doubt(f"it has no quota of {gpu}", NOT_COVERED, open_=True))
    return found
