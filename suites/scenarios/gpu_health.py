"""What the driver of each GPU and the kernel's log say of health: pods on each node hold all of its GPUs, and ask."""

from pytest_gpucluster.evidence.hardware import gpu_health as reading
from pytest_gpucluster.scenario import Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.gpu_nodes import offered
from pytest_gpucluster.scenario.programs import payloads_of

from .common import FILLER, LOGS, PAYLOAD
from .numa import container, gpu_nodes, pod, put

ASK = ("python", "/workspace/gpu_health.py")
NO_LOG = "--no-kernel-log"


def run(stage: Stage) -> None:
    """Put a pod on each node, and let it ask."""
    declared = stage.profile.health
    if declared is None:
        raise NotApplicable("the profile says that there is no health of GPUs to read (health)")
    stage.given["health"] = declared.model_dump(mode="json")
    stage.context |= {("Node", node["metadata"]["name"]) for node in stage.live.objects("Node")}
    nodes = gpu_nodes(stage, 1)
    stage.given["tried"] = [node["metadata"]["name"] for node in nodes]
    if not nodes:
        return
    payload = payloads_of(stage, "gpu_health.py")
    name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    pods = []
    for number, node in enumerate(nodes):
        for place, gpus in enumerate(parts(stage, offered(node, stage.profile.gpu_resource))):
            asking = container(stage, "main", gpus, (*ASK, *([] if declared.kernel_log else [NO_LOG])))
            asking["env"] = [*asking["env"], name]
            pods.append((reading.ROLE, pod(f"{stage.name}-{number}-{place}", node, [asking], payload)))
    put(stage, "the drivers of all GPUs were asked", pods)


def parts(stage: Stage, gpus: int) -> list[int]:
    """Return the sizes of the pods that hold the GPUs of a node: several where a pod must lie on one NUMA node."""
    numa = stage.profile.numa
    single = numa is not None and numa.policy == "single-numa-node"
    each = max(1, gpus // numa.nodes) if single and numa is not None else gpus
    return [each] * (gpus // each) + ([gpus % each] if gpus % each else [])


gpu_health = Scenario(
    name="gpu-health",
    summary="on each node pods that hold all of its GPUs ask their driver and the kernel's log",
    run=run,
    needs=Needs(
        section="health",
        gpus=24,
        seconds=2,
        gpu_seconds=48,
        gang=False,
        permissions=PAYLOAD + LOGS + FILLER,
    ),
    kinds=("Pod", "Event", "Node", "ConfigMap"),
    rests=("Node",),
)
