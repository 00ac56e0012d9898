"""A gang that the scheduler places whole, and one of whose members the kubelet rejects."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import job_ended, phase
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role, filler, pod_templates

from .common import FILLER, HOLD, told
from .numa import HOSTNAME, declared, gpu_nodes, pod_of, rejected, sizes

ASKS = 2
"""GPUs of a member: more than a fragmented node has on either NUMA node, and as many as it has in all."""
ATTEMPTS = 2

Node = Mapping[str, Any]


def fill(stage: Stage, node: Node, gpus: int, number: int) -> Handle:
    """Hold so many GPUs of a node with one pod."""
    name = f"{stage.name}-held-{number}"
    made = filler(name, {stage.profile.gpu_resource: gpus}, image(stage, "python"), HOLD)
    made["spec"]["nodeSelector"] = {HOSTNAME: label(node)}
    return stage.submit(made, role="filler")


def label(node: Node) -> str:
    """Return the label by which a node is chosen."""
    return str((node["metadata"].get("labels") or {}).get(HOSTNAME, node["metadata"]["name"]))


def run(stage: Stage) -> None:
    """Leave two GPUs on each of two nodes: on one split over its NUMA nodes, on the other on one; then ask for both."""
    numa = declared(stage)
    size = sizes(stage, int(numa["nodes"]))
    told(
        stage, members=2, min_member=2, resource=stage.profile.gpu_resource, currency="gpu", attempts=ATTEMPTS
    )
    nodes = gpu_nodes(stage, size.misfit)[:2]
    stage.given["tried"] = [node["metadata"]["name"] for node in nodes]
    stage.context |= {("Node", name) for name in stage.given["tried"]}
    if len(nodes) < 2:
        return
    each = size.share - 1
    held = [(nodes[0], each), (nodes[0], each), (nodes[1], size.share), (nodes[1], size.share - ASKS)]
    fillers = [fill(stage, node, gpus, n) for n, (node, gpus) in enumerate(held) if gpus > 0]
    filled = "both nodes are filled but for two GPUs"
    if not stage.wait(filled, _run(fillers), budget="start", unless=_refused(fillers)):
        return
    spec = GangSpec(
        stage.name,
        roles=(Role("worker", 2, HOLD),),
        resources={stage.profile.gpu_resource: ASKS},
        image=image(stage, "python"),
    )
    if stage.dialect.kind == names.VC_JOB:
        # A batch Job ends by itself with the first member that it loses; a Volcano Job does what it is told.
        spec = dataclasses.replace(spec, policies=(("PodFailed", "RestartJob"),), max_retry=ATTEMPTS)
    manifest = stage.dialect.write(spec)
    for _, template in pod_templates(manifest):
        template["affinity"] = _on([label(node) for node in nodes])
    gang = stage.submit(manifest, role="subject")
    if not gang.ok:
        return
    stage.wait("the gang and its members have ended", _over(gang), budget="finish", unless=_goes_on(gang))
    stage.delete(gang)


def _on(labels: list[str]) -> dict[str, Any]:
    wanted = {"key": HOSTNAME, "operator": "In", "values": labels}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _run(handles: list[Handle]) -> Callable[[Live], bool]:
    return lambda live: all(phase(pod_of(live, handle)) == "Running" for handle in handles)


def _refused(handles: list[Handle]) -> Callable[[Live], str]:
    """Tell when what should hold GPUs was refused: the node is not empty, or not aligned as declared."""

    def check(live: Live) -> str:
        return "a pod that holds GPUs was refused" if any(rejected(pod_of(live, h)) for h in handles) else ""

    return check


def _over(gang: Handle) -> Callable[[Live], bool]:
    """Report whether the gang's object has ended, and each of its members too or is gone."""
    ended = job_ended(gang)

    def check(live: Live) -> bool:
        return ended(live) and all(phase(each) in {"Succeeded", "Failed"} for each in live.pods_of(gang))

    return check


def _goes_on(gang: Handle) -> Callable[[Live], str]:
    """Tell when all members run: none was rejected."""

    def check(live: Live) -> str:
        pods = live.pods_of(gang)
        whole = len(pods) == 2 and all(phase(each) == "Running" for each in pods)
        return "no member was rejected, all run" if whole else ""

    return check


rejected_member = Scenario(
    name="rejected-member",
    summary="a gang is placed whole, and the kubelet rejects one of its members",
    run=run,
    needs=Needs(section="numa", nodes=2, gpus=16, seconds=3, gpu_seconds=40, permissions=FILLER),
)
