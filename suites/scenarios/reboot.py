"""A node is restarted under a running Job, all members of which are on it."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import phase
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role, pod_templates

from .common import HOLD, told
from .numa import HOSTNAME, gpu_nodes

MEMBERS = 2
LOSSES = 6
"""Members that may be lost before the Job gives up: enough for each to be rejected again, which the row would show."""


def run(stage: Stage) -> None:
    """Run a Job of two members on one node, restart the node, and watch who comes back."""
    told(stage, members=MEMBERS, min_member=MEMBERS, resource=stage.profile.gpu_resource, currency="gpu")
    nodes = gpu_nodes(stage, MEMBERS)[:1]
    stage.given["tried"] = [node["metadata"]["name"] for node in nodes]
    if not nodes:
        return
    name = nodes[0]["metadata"]["name"]
    stage.context.add(("Node", name))
    spec = GangSpec(
        stage.name,
        roles=(Role("worker", MEMBERS, HOLD),),
        resources={stage.profile.gpu_resource: 1},
        image=image(stage, "python"),
        max_retry=LOSSES,
    )
    manifest = stage.contrast.write(spec)
    for _, template in pod_templates(manifest):
        template["nodeSelector"] = {HOSTNAME: (nodes[0]["metadata"].get("labels") or {}).get(HOSTNAME, name)}
    job = stage.submit(manifest, role="subject")
    if not job.ok:
        return
    if stage.wait("all members run", _running(job, frozenset()), budget="start"):
        before = frozenset(str(pod["metadata"]["uid"]) for pod in stage.live.pods_of(job))
        stage.reboot(name)
        if stage.wait("every member was made again and runs", _running(job, before), budget="start"):
            stage.window("after the restart", last=True)


def _running(job: Handle, old: frozenset[str]) -> Callable[[Live], bool]:
    """Report whether so many members run as there must be, none of them an old one."""

    def new(pod: Mapping[str, Any]) -> bool:
        return phase(pod) == "Running" and pod["metadata"]["uid"] not in old

    return lambda live: sum(new(pod) for pod in live.pods_of(job)) >= MEMBERS


reboot = Scenario(
    name="reboot",
    summary="a node is restarted under a running Job",
    run=run,
    needs=Needs(
        gpus=MEMBERS,
        seconds=4,
        gpu_seconds=8,
        alone=True,
        gang=False,
        permissions=("create,delete jobs.batch",),
    ),
    kinds=("Pod", "Event", "Node", names.BATCH_JOB),
)
