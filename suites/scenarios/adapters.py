"""A pod on each GPU node that asks for the declared RDMA resource and tells the adapters that it can open."""

from pytest_gpucluster.scenario import Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.gpu_nodes import offered
from pytest_gpucluster.scenario.programs import payloads_of

from .common import FILLER, LOGS, PAYLOAD
from .numa import container, gpu_nodes, pod, put

SEE = ("python", "/workspace/adapters.py")
MOST = 64
"""Nodes that are tried."""


def run(stage: Stage) -> None:
    """Let a pod on each GPU node that offers the resource tell its adapters, without a GPU."""
    rdma = stage.profile.rdma
    if rdma is None:
        raise NotApplicable("the profile declares no RDMA resource (rdma.resource)")
    stage.given["rdma"] = rdma.model_dump(mode="json")
    nodes = [node for node in gpu_nodes(stage, 1) if offered(node, rdma.resource) > 0][:MOST]
    stage.given["tried"] = [str(node["metadata"]["name"]) for node in nodes]
    stage.context |= {("Node", name) for name in stage.given["tried"]}
    if not nodes:
        return
    payload = payloads_of(stage, "adapters.py")
    pods = [
        (
            "subject",
            pod(
                f"{stage.name}-{n}", node, [container(stage, "main", 0, SEE, **{rdma.resource: "1"})], payload
            ),
        )
        for n, node in enumerate(nodes)
    ]
    put(stage, "pods have told their adapters", pods)


adapters = Scenario(
    name="adapters",
    summary="a pod on each GPU node asks for an RDMA device and tells which adapters open and how their ports are",
    run=run,
    needs=Needs(section="rdma", seconds=2, gang=False, permissions=PAYLOAD + LOGS + FILLER),
    kinds=("Pod", "Event", "Node", "ConfigMap"),
)
