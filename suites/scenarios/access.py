"""What containers can reach of the GPUs of their node: one that asks for none beside two that ask for one each.

On a node that offers one GPU there is one such. All are containers of one pod, so that they hold their GPUs at the
same time; it ends by itself.
"""

from pytest_gpucluster.evidence.hardware import device_access as reading
from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.gpu_nodes import offered
from pytest_gpucluster.scenario.programs import payloads_of

from .common import FILLER, LOGS, PAYLOAD
from .numa import container, gpu_nodes, pod, put

SEE = ("python", "/workspace/access.py")
ASK = {"none": 0, "one": 1, "other": 1}
"""Container -> GPUs that it asks for."""
MOST = 4
"""Nodes that are tried."""


def run(stage: Stage) -> None:
    """Try each GPU node; where nodes are processes of one machine they are alike, and one is tried."""
    most = 1 if stage.profile.nodes == "process" else MOST
    nodes = gpu_nodes(stage, 1)[:most]
    stage.given["tried"] = [node["metadata"]["name"] for node in nodes]
    stage.context |= {("Node", name) for name in stage.given["tried"]}
    if not nodes:
        return
    payload = payloads_of(stage, "access.py")
    pods = []
    for number, node in enumerate(nodes):
        asked = asked_on(offered(node, stage.profile.gpu_resource))
        containers = [container(stage, name, gpus, SEE) for name, gpus in asked.items()]
        pods.append((reading.EVENT, pod(f"{stage.name}-{number}", node, containers, payload)))
    put(stage, "containers have told what they can reach", pods)


def asked_on(offers: int) -> dict[str, int]:
    """Return what each container asks for on a node that offers so many GPUs: all of them fit at the same time."""
    whole = offers >= sum(ASK.values())
    return {name: gpus for name, gpus in ASK.items() if whole or name != "other"}


access = Scenario(
    name="access",
    summary="containers that asked for no GPU and for one each tell what they can reach",
    run=run,
    needs=Needs(
        gpus=2,
        seconds=2,
        gpu_seconds=8,
        gang=False,
        permissions=PAYLOAD + LOGS + FILLER,
    ),
    kinds=("Pod", "Event", "Node", "ConfigMap"),
)
