"""A Guaranteed pod for each NUMA node of a node, each with whole CPUs, GPUs, and a network function where declared.

Where CPUs and memory lie is a statement about a machine: on nodes that only play their NUMA nodes it is none.
"""

from typing import Any

from pytest_gpucluster.evidence.hardware import container_locality
from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.scenario import Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.programs import payloads_of

from .common import FILLER, LOGS, PAYLOAD
from .numa import container, declared, gpu_nodes, pod, put

MEMORY = "256Mi"
PLAYED = ("embedded", "kind")
"""Providers whose nodes are told NUMA nodes that the machine below does not have."""


def run(stage: Stage) -> None:
    """Fill the NUMA nodes of one node with a pod each."""
    told = declared(stage)
    nodes = int(told["nodes"])
    if nodes < 2:
        raise NotApplicable(
            "the GPUs of a node lie on one NUMA node, or on none that it tells: nothing can lie apart"
        )
    provider = getattr(stage.cluster, "provider", "")
    if provider in PLAYED:
        raise NotApplicable(f"{provider} nodes only play their NUMA nodes: CPUs and memory are the machine's")
    share = stage.profile.gpus_per_node // nodes
    chosen = gpu_nodes(stage, share * nodes)[:1]
    stage.given["tried"] = [node["metadata"]["name"] for node in chosen]
    if not chosen or not share:
        return
    node = chosen[0]
    name = node["metadata"]["name"]
    stage.context.add(("Node", name))
    stage.kubelet_config(name, case=f"{reading.CONFIG}:{name}")
    payload = payloads_of(stage, "numa.py")
    asked = {"cpu": str(told["cpus"] or 1), "memory": MEMORY}
    if told["functions"]:
        asked[str(told["functions"])] = "1"

    def one(number: int) -> tuple[str, dict[str, Any]]:
        return container_locality.ROLE, pod(
            f"{stage.name}-{number}", node, [container(stage, "main", share, **asked)], payload
        )

    put(stage, "Guaranteed pods are decided", [one(number) for number in range(nodes)])


alignment = Scenario(
    name="alignment",
    summary="a Guaranteed pod for each NUMA node tells where its CPUs, memory, GPUs and network functions lie",
    run=run,
    needs=Needs(
        section="numa",
        gpus=8,
        seconds=2,
        gpu_seconds=8,
        gang=False,
        permissions=PAYLOAD + LOGS + FILLER,
        wishes=("get nodes/proxy",),
    ),
    kinds=("Pod", "Event", "Node", "ConfigMap"),
)
