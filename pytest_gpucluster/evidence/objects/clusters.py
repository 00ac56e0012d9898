"""Which cluster evidence is of: its uid, its GPU nodes as machines, and the versions of what runs in it."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects import component_versions, node_status

CLUSTER_UID = "cluster_uid"
"""Field of the header's `source`: the uid of the namespace kube-system, which lives as long as its cluster."""

_OF_NODE = ("machineID", "systemUUID", "kubeletVersion", "kernelVersion", "containerRuntimeVersion")
"""What a kubelet tells of its machine (`status.nodeInfo`), without what each boot changes."""

_WORDS = {
    "uid": "the Node object",
    "machineID": "the machine",
    "systemUUID": "the hardware",
    "kubeletVersion": "the kubelet",
    "kernelVersion": "the kernel",
    "containerRuntimeVersion": "the container runtime",
    "driver": "the GPU driver",
}


@dataclasses.dataclass(frozen=True)
class Node:
    """One GPU node as evidence shows it.

    Attributes:
        name: its name.
        state: `cordoned`, `NotReady` or both, "" for nothing unusual.
        facts: what identifies it: `uid`, ids of the machine, versions, `driver`, and its `pool`; what nobody told is
            left out.
        offered: how many GPUs it has.
        gpus: UUIDs of GPUs that payloads saw on it; a run may use some of them.
        healthy: how many of its GPUs can be asked for, None where nobody told.
    """

    name: str
    state: str
    facts: Mapping[str, str]
    offered: int = 0
    gpus: frozenset[str] = frozenset()
    healthy: int | None = None

    def changes(self, earlier: "Node") -> str:
        """Return what is another than earlier, of what both tell; "" if nothing is."""
        changed = [
            f"{_WORDS[key]} ({earlier.facts[key]}, now {self.facts[key]})"
            for key in _WORDS
            if key in self.facts and key in earlier.facts and self.facts[key] != earlier.facts[key]
        ]
        known = self.gpus | earlier.gpus
        if self.gpus and earlier.gpus and len(known) > max(self.offered, earlier.offered):
            changed.append(
                f"its GPUs ({len(known)} UUIDs were seen, it has {max(self.offered, earlier.offered)})"
            )
        return " and ".join(changed)

    def same_machine(self, earlier: "Node") -> bool:
        """Report whether it is the machine that it was, with the same driver and GPUs, as far as both tell."""
        kept = ("machineID", "systemUUID", "driver")
        both = [key for key in kept if key in self.facts and key in earlier.facts]
        known = self.gpus | earlier.gpus
        swapped = self.gpus and earlier.gpus and len(known) > max(self.offered, earlier.offered)
        return bool(both) and all(self.facts[key] == earlier.facts[key] for key in both) and not swapped

    def offers_otherwise(self, earlier: "Node") -> str:
        """Return how many GPUs it offers if that is another number than earlier, of what both tell; "" if it is not.

        The machine is the same one: what failed on it is not mended by it.
        """
        if self.healthy is None or earlier.healthy is None or self.healthy == earlier.healthy:
            return ""
        return f"the number of GPUs that it offers ({earlier.healthy}, now {self.healthy})"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The cluster of a run, or as it is now.

    Attributes:
        uid: uid of the namespace kube-system, "" if nobody may read it.
        nodes: GPU nodes by name.
        versions: component -> versions in the words of the cluster, such as `kubernetes` -> `v1.37.2`; components
            of nodes are in `nodes`.
    """

    uid: str
    nodes: Mapping[str, Node]
    versions: Mapping[str, str]


def of_evidence(evidence: Evidence) -> Cluster:
    """Return what one file of evidence shows of its cluster."""
    resource = str(evidence.given.get("gpu_resource") or "")
    source = fields.sub(evidence.header, "source")
    versions: dict[str, set[str]] = {}
    for one in component_versions.seen(evidence, resource):
        if one.where == "API server" or one.where.startswith("Deployment/"):
            versions.setdefault(one.component, set()).add(one.text)
    gpus: dict[str, set[str]] = {}
    for word in payload_lines.words(evidence).words:
        node, uuid = str(word.data.get("node") or ""), str(word.data.get("uuid") or "")
        if node and uuid.startswith("GPU-"):
            gpus.setdefault(node, set()).add(uuid)
        if word.data.get("nccl"):
            versions.setdefault("nccl", set()).add(str(word.data["nccl"]))
    machines = list(node_status.gpu_nodes(evidence, resource))
    label, pools = node_status.pools(machines, str(evidence.given.get("pool_label") or ""))
    pool_of = {each.name: pool for pool, found in pools.items() for each in found if label and pool}
    return Cluster(
        fields.text(source, CLUSTER_UID),
        {
            machine.name: Node(
                machine.name,
                machine.state,
                {
                    **dict(_facts(machine)),
                    **({"pool": pool_of[machine.name]} if machine.name in pool_of else {}),
                },
                max(machine.offers(resource)),
                frozenset(gpus.get(machine.name, ())),
                machine.offers(resource)[1] if resource else None,
            )
            for machine in machines
        },
        {name: ", ".join(sorted(texts)) for name, texts in versions.items()},
    )


def _facts(machine: node_status.Machine) -> Iterator[tuple[str, str]]:
    if machine.line.uid:
        yield "uid", machine.line.uid
    for key in _OF_NODE:
        if machine.info.get(key):
            yield key, str(machine.info[key])
    driver = component_versions.driver_of(machine.labels)
    if driver:
        yield "driver", driver


def together(clusters: Iterable[Cluster]) -> Cluster:
    """Return what several files of evidence of one run show, later ones over earlier ones."""
    uid, nodes, versions = "", dict[str, Node](), dict[str, str]()
    for each in clusters:
        uid = each.uid or uid
        versions |= each.versions
        for name, node in each.nodes.items():
            before = nodes.get(name, node)
            nodes[name] = dataclasses.replace(
                node,
                facts={**before.facts, **node.facts},
                offered=max(before.offered, node.offered),
                gpus=before.gpus | node.gpus,
                healthy=max((n for n in (before.healthy, node.healthy) if n is not None), default=None),
            )
    return Cluster(uid, nodes, versions)


def tried_on(evidence: Evidence) -> frozenset[str]:
    """Return the nodes to which pods of the scenario were bound, GPU nodes or not."""
    namespace = str(evidence.given.get("namespace") or "")
    bound = {
        fields.text(line.object, "spec", "nodeName")
        for line in evidence.of_kind("Pod")
        if not namespace or fields.text(line.object, "metadata", "namespace") == namespace
    }
    return frozenset(bound - {""})


def plain(evidence: Evidence) -> dict[str, Any]:
    """Return what evidence shows of its cluster as plain data, for the record of a run.

    Returns:
        `uid`, `versions`, `nodes` (GPU nodes by name: `state`, `gpus`, `gpu_uuids` and the facts that identify them)
        and `tried_on` (names of the nodes to which pods were bound); what is empty is left out.
    """
    told = written(of_evidence(evidence))
    told["tried_on"] = sorted(tried_on(evidence))
    return {key: value for key, value in told.items() if value}


def written(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as plain data: `uid`, `versions` and `nodes`, each of which may be empty."""
    nodes = {
        name: {
            **({"state": node.state} if node.state else {}),
            "gpus": node.offered,
            **node.facts,
            **({"gpu_uuids": sorted(node.gpus)} if node.gpus else {}),
        }
        for name, node in sorted(cluster.nodes.items())
    }
    return {"uid": cluster.uid, "versions": dict(sorted(cluster.versions.items())), "nodes": nodes}


def read_back(told: Mapping[str, Any]) -> Cluster:
    """Return the cluster of plain data that `plain` or `written` made; what is of another shape is left out."""
    nodes = {}
    for name, facts in fields.sub(told, "nodes").items():
        if isinstance(facts, Mapping):
            kept = {key: str(facts[key]) for key in facts if key not in ("state", "gpus", "gpu_uuids")}
            offered = int(facts["gpus"]) if isinstance(facts.get("gpus"), int) else 0
            uuids = frozenset(map(str, facts.get("gpu_uuids") or ()))
            nodes[name] = Node(name, str(facts.get("state") or ""), kept, offered, uuids)
    versions = {name: str(text) for name, text in fields.sub(told, "versions").items()}
    return Cluster(fields.text(told, "uid"), nodes, versions)


def another(run: Cluster, now: Cluster) -> str:
    """Return why a run is of another cluster than the one that is there now, "" if it is of the same.

    Without a uid, which takes a permission, a cluster is known by its nodes.
    """
    if run.uid and now.uid:
        return "" if run.uid == now.uid else f"its API server is another one (uid {run.uid}, now {now.uid})"
    if not run.nodes or not now.nodes:
        return "nothing in its evidence says of which cluster it is: no uid, no GPU node"
    same = [
        name for name, node in now.nodes.items() if name in run.nodes and _same_machine(run.nodes[name], node)
    ]
    return "" if same else f"none of its nodes is in the cluster: {', '.join(sorted(run.nodes))}"


def _same_machine(one: Node, other: Node) -> bool:
    shared = [key for key in ("uid", "machineID", "systemUUID") if key in one.facts and key in other.facts]
    return bool(shared) and all(one.facts[key] == other.facts[key] for key in shared)


def outdated(run: Cluster, now: Cluster) -> str:
    """Return which component of the cluster has another version now than in a run, "" if none has."""
    changed = [
        f"{name} {run.versions[name]}, now {now.versions[name]}"
        for name in sorted(run.versions)
        if name in now.versions and run.versions[name] != now.versions[name]
    ]
    return " and ".join(changed)


def of_objects(
    resource: str,
    uid: str,
    nodes: Iterable[Mapping[str, Any]],
    version: Mapping[str, Any],
    deployments: Iterable[Mapping[str, Any]],
) -> Cluster:
    """Return a cluster as it is now, from what was read of it.

    Args:
        resource: the GPU resource.
        uid: uid of the namespace kube-system, "" if it may not be read.
        nodes: Node objects.
        version: what the API server says of its version.
        deployments: Deployments of known components.
    """
    found = [*deployments]
    answers: list[dict[str, Any]] = [{"case": component_versions.SERVER, "code": 200, "object": version}]
    answers.append({"case": component_versions.DEPLOYMENTS, "code": 200, "items": found})
    lines = [Line(0.0, "ADDED", "Node", node, {}, index) for index, node in enumerate(nodes)]
    lines += [
        Line(0.0, "RESPONSE", "", {}, answer, len(lines) + index) for index, answer in enumerate(answers)
    ]
    source = {CLUSTER_UID: uid} if uid else {}
    return of_evidence(Evidence(lines, header={"given": {"gpu_resource": resource}, "source": source}))
