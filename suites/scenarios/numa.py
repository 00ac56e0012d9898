"""How nodes align pods: what their kubelets say, and what they do with pods that fit one NUMA node and that do not.

Bare pods, which nobody makes again when a kubelet rejects them. None asks for whole CPUs, so that GPUs alone decide.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.scenario import Handle, Live, Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.gpu_nodes import offered, takes_pods
from pytest_gpucluster.scenario.predicates import phase
from pytest_gpucluster.scenario.programs import image, payloads_of

from .common import FILLER, LOGS, PAYLOAD

Pod = Mapping[str, Any]

MOST = 4
"""Nodes that are tried with pods; on others what the kubelet says must do."""

SEE_AND_HOLD = ("python", "/workspace/numa.py", "--hold")
HOSTNAME = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How many GPUs the pods ask for.

    Attributes:
        share: what one NUMA node has.
        misfit: one more than that.
        fits: what the misfit leaves of a node, where it runs; it fits one NUMA node.
    """

    share: int
    misfit: int
    fits: int


def declared(stage: Stage) -> dict[str, Any]:
    """Return what the profile declares of NUMA nodes, and write it into the evidence's header.

    Raises:
        NotApplicable: nothing is declared.
    """
    numa = stage.profile.numa
    if numa is None:
        raise NotApplicable("the profile does not declare `numa`: how nodes align pods is not judged")
    told = {name: getattr(numa, name) for name in ("policy", "scope", "nodes", "qos", "cpus", "functions")}
    stage.given["numa"] = told
    return told


def sizes(stage: Stage, nodes: int) -> Sizes:
    """Return the sizes for nodes of so many NUMA nodes.

    Raises:
        NotApplicable: nodes on which no pod can be too large for one NUMA node and still fit.
    """
    gpus = stage.profile.gpus_per_node
    share = -(-gpus // nodes)
    if nodes < 2 or gpus < share + 2:
        where = f"{nodes} NUMA nodes" if nodes > 1 else "one NUMA node, or none that the machine tells"
        raise NotApplicable(
            f"{gpus} GPUs on {where}: no pod is too large for one NUMA node and leaves room for another"
        )
    return Sizes(share, share + 1, min(gpus - share - 1, share))


def gpu_nodes(stage: Stage, free: int) -> list[Pod]:
    """Return the nodes that take pods and offer at least so many GPUs, by name; no more than the run may use."""
    resource = stage.profile.gpu_resource
    nodes = stage.live.objects("Node")
    found: list[Pod] = [node for node in nodes if takes_pods(node) and offered(node, resource) >= free]
    found.sort(key=lambda node: str(node["metadata"]["name"]))
    return found[: stage.live.most_nodes]


def pod(
    name: str, node: Pod, containers: Sequence[Mapping[str, Any]], payload: str, **spec: Any
) -> dict[str, Any]:
    """Return a pod that a scheduler can only place on one node; it keeps what it was given until it is ended."""
    label = (node["metadata"].get("labels") or {}).get(HOSTNAME, node["metadata"]["name"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {HOSTNAME: label},
            "containers": [dict(each) for each in containers],
            "volumes": [{"name": "payload", "configMap": {"name": payload}}],
            **spec,
        },
    }


def container(
    stage: Stage, name: str, gpus: int, command: Sequence[str] = SEE_AND_HOLD, **resources: str
) -> dict[str, Any]:
    """Return a container that tells its devices; `resources` are asked for and are its limit too."""
    asked = {**({stage.profile.gpu_resource: str(gpus)} if gpus else {}), **resources}
    requests = {"cpu": "10m", "memory": "16Mi", **asked}
    return {
        "name": name,
        "image": image(stage, "python"),
        "command": list(command),
        "env": [
            {"name": "GPUCLUSTER_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "GPUCLUSTER_CONTAINER", "value": name},
        ],
        "resources": {"requests": requests, "limits": asked},
        "volumeMounts": [{"name": "payload", "mountPath": "/workspace"}],
    }


def pod_of(live: Live, handle: Handle) -> Pod:
    """Return the pod as it is now; empty where it is gone."""
    return live.by_uid(handle.uid) or {}


def rejected(found: Pod) -> bool:
    """Report whether a kubelet refused the pod, for whatever reason."""
    status = found.get("status") or {}
    return status.get("phase") == "Failed" and bool(status.get("reason"))


def decided(stage: Stage, handles: Iterable[Handle]) -> Callable[[Live], bool]:
    """Report whether each pod was refused, or has said what it sees, or has ended."""
    wanted = list(handles)

    def one(found: Pod) -> bool:
        state = phase(found)
        return state in {"Failed", "Succeeded"} or (
            state == "Running" and stage.heard(found) >= containers_of(found)
        )

    return lambda live: all(one(pod_of(live, handle)) for handle in wanted)


def containers_of(found: Pod) -> int:
    """Return how many containers a pod has that each say one line: what admission put beside them says none."""
    return sum(len(containers.own(found, part)) for part in containers.PARTS)


def no_room(handles: Iterable[Handle]) -> Callable[[Live], str]:
    """Tell when every pod that is still open has no node because nothing is free there."""
    wanted = list(handles)

    def check(live: Live) -> str:
        waiting = [p for p in (pod_of(live, h) for h in wanted) if phase(p) == "Pending"]
        blocked = [p for p in waiting if _unschedulable(p)]
        return "the scheduler finds no room for it" if waiting and len(blocked) == len(waiting) else ""

    return check


def _unschedulable(found: Pod) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or []
    return not (found.get("spec") or {}).get("nodeName") and any(
        c.get("type") == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions
    )


def put(stage: Stage, what: str, pods: Iterable[tuple[str, dict[str, Any]]]) -> list[Handle]:
    """Submit pods, each with its role, take down what they say, and wait until each was decided."""
    handles = [stage.submit(manifest, role=role) for role, manifest in pods]
    made = [handle for handle in handles if handle.ok]
    for handle in made:
        stage.follow(handle)
    if made:
        stage.wait(what, decided(stage, made), budget="start", unless=no_room(made))
    return handles


def run(stage: Stage) -> None:
    """Ask the kubelets, then try each node with a pod that is too large for a NUMA node, and with ones that fit."""
    told = declared(stage)
    size = sizes(stage, int(told["nodes"]))
    every = gpu_nodes(stage, 1)
    stage.context |= {("Node", node["metadata"]["name"]) for node in every}
    for node in every:
        name = node["metadata"]["name"]
        stage.kubelet_config(name, case=f"{reading.CONFIG}:{name}")
    stage.read_all(reading.NRT_VERSION, reading.NRT, case=reading.TOPOLOGIES)
    nodes = gpu_nodes(stage, size.misfit)[:MOST]
    stage.given["tried"] = [node["metadata"]["name"] for node in nodes]
    payload = payloads_of(stage, "numa.py")

    def on(node: Pod, role: str, *gpus: int) -> tuple[str, dict[str, Any]]:
        name = f"{stage.name}-{role}-{nodes.index(node)}"
        return role, pod(
            name, node, [container(stage, f"c{n}", count) for n, count in enumerate(gpus)], payload
        )

    large = put(
        stage, "pods too large for a NUMA node are decided", [on(n, "misfit", size.misfit) for n in nodes]
    )
    small = put(stage, "pods that fit a NUMA node are decided", [on(n, "fits", size.fits) for n in nodes])
    # What follows fills nodes that refused the large pod; where it runs there is no room for more.
    roomy = [n for n, big, own in zip(nodes, large, small, strict=True) if _refused_and_ran(stage, big, own)]
    rest = stage.profile.gpus_per_node - size.fits - size.share
    if rest > 0:
        split = put(
            stage,
            "pods that only fit container by container are decided",
            [on(n, "split", size.share, rest) for n in roomy],
        )
        roomy = [n for n, each in zip(roomy, split, strict=True) if rejected(pod_of(stage.live, each))]
    put(
        stage,
        "a pod that fits the other NUMA node is decided",
        [on(n, "other", size.share) for n in roomy[:1]],
    )


def _refused_and_ran(stage: Stage, large: Handle, small: Handle) -> bool:
    return rejected(pod_of(stage.live, large)) and phase(pod_of(stage.live, small)) == "Running"


numa = Scenario(
    name="numa",
    summary="kubelets are asked how they align pods, then tried with pods that fit one NUMA node and that do not",
    run=run,
    needs=Needs(
        section="numa",
        gpus=24,
        seconds=2,
        gpu_seconds=48,
        gang=False,
        permissions=PAYLOAD + LOGS + FILLER,
        wishes=("get nodes/proxy", "list noderesourcetopologies.topology.node.k8s.io"),
    ),
    kinds=("Pod", "Event", "Node", "ConfigMap"),
)
