"""Quota of Kueue of our own: a flavor, a ClusterQueue and LocalQueues, private to a scenario and a run.

They go in the order in which Kueue lets them go: Jobs first, then the ClusterQueue, the flavor, and last its topology;
until then finalizers hold them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_gpucluster.kube import objects
from pytest_gpucluster.scenario import live, submit

Obj = dict[str, Any]

TOPOLOGY = objects.table_row("Topology")
FLAVOR = objects.table_row("ResourceFlavor")
CLUSTER_QUEUE = objects.table_row("ClusterQueue")
LOCAL_QUEUE = objects.table_row("LocalQueue")

EVERY_NODE: Mapping[str, str] = {"kubernetes.io/os": "linux"}
"""Label of the nodes behind a flavor with a topology, which must name one: those that also tell their place count."""

PLENTY: Mapping[str, str] = {"cpu": "1000", "memory": "10Ti"}
"""What every member asks a little of: every resource that a pod asks for has to be covered."""


@dataclasses.dataclass(frozen=True)
class Quota:
    """A ClusterQueue of ours.

    Attributes:
        name: of the ClusterQueue.
        local: team -> its LocalQueue, which Jobs name in their label.
        ok: whether it was made and is Active.
        handle: the ClusterQueue as submitted.
    """

    name: str
    local: Mapping[str, str]
    ok: bool
    handle: submit.Handle

    @property
    def queue(self) -> str:
        """Return the first LocalQueue."""
        return next(iter(self.local.values()))


def manifests(
    name: str,
    local: Sequence[str],
    quota: Mapping[str, Any],
    *,
    cohort: str = "",
    topology: Sequence[str] = (),
) -> list[Obj]:
    """Return the flavor, the ClusterQueue and its LocalQueues; with a topology that too, first of all.

    Args:
        name: of flavor and ClusterQueue, which lie outside our namespace.
        local: names of the LocalQueues.
        quota: resource -> nominal quota.
        cohort: the cohort, "" for none.
        topology: node labels of the levels by which Jobs are placed, coarse to fine; () where nodes are not looked at.
    """
    levels = {"levels": [{"nodeLabel": label} for label in topology]}
    placed = {"nodeLabels": dict(EVERY_NODE), "topologyName": name} if topology else {}
    amounts = {**PLENTY, **{resource: str(value) for resource, value in quota.items()}}
    flavor = {
        "name": name,
        "resources": [{"name": key, "nominalQuota": value} for key, value in amounts.items()],
    }
    spec: Obj = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": [flavor]}],
    }
    if cohort:
        spec["cohortName"] = cohort
    return [
        *([_object(TOPOLOGY, name, levels)] if topology else []),
        _object(FLAVOR, name, placed),
        _object(CLUSTER_QUEUE, name, spec),
        *(_object(LOCAL_QUEUE, one, {"clusterQueue": name}) for one in local),
    ]


def _object(info: Any, name: str, spec: Obj) -> Obj:
    return {"apiVersion": info.api_version, "kind": info.kind, "metadata": {"name": name}, "spec": spec}


def active(name: str, local: Sequence[str]) -> Callable[[live.Live], bool]:
    """Report whether a ClusterQueue and its LocalQueues take work: the condition Active is True."""
    wanted = [(CLUSTER_QUEUE.key, name), *((LOCAL_QUEUE.key, one) for one in local)]
    return lambda view: all(is_active(view.get(kind, one)) for kind, one in wanted)


def is_active(queue: Mapping[str, Any] | None) -> bool:
    """Report whether a queue says that it is Active; that it says something of it proves nothing."""
    conditions = ((queue or {}).get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Active" and c.get("status") == "True" for c in conditions)
