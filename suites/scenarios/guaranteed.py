"""Pods as training has them: Guaranteed, an init container, whole CPUs; one fits a NUMA node, one does not."""

from typing import Any

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.programs import payloads_of

from .common import FILLER, LOGS, PAYLOAD
from .numa import container, declared, gpu_nodes, pod, put, sizes

SEE = ("python", "/workspace/numa.py")
MEMORY = "64Mi"


def run(stage: Stage) -> None:
    """Try one node with both pods, after asking its kubelet what it does with whole CPUs."""
    told = declared(stage)
    size = sizes(stage, int(told["nodes"]))
    nodes = gpu_nodes(stage, size.misfit)[:1]
    stage.given["tried"] = [node["metadata"]["name"] for node in nodes]
    if not nodes:
        return
    node = nodes[0]
    name = node["metadata"]["name"]
    stage.context.add(("Node", name))
    stage.kubelet_config(name, case=f"{reading.CONFIG}:{name}")
    payload = payloads_of(stage, "numa.py")
    share = {"cpu": str(told["cpus"] or 1), "memory": MEMORY}

    def with_init(role: str, gpus: int) -> tuple[str, dict[str, Any]]:
        init = container(stage, "init", gpus, SEE, **share)
        main = container(stage, "main", gpus, **share)
        return role, pod(f"{stage.name}-{role}", node, [main], payload, initContainers=[init])

    put(stage, "a Guaranteed pod too large for a NUMA node is decided", [with_init("misfit", size.misfit)])
    put(stage, "a Guaranteed pod that fits a NUMA node is decided", [with_init("fits", size.share)])


guaranteed = Scenario(
    name="guaranteed",
    summary="Guaranteed pods with an init container and whole CPUs: one fits a NUMA node, one does not",
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
