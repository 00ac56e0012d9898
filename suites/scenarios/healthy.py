"""A gang that fits, in the declared queue with the declared GPUs, from start to end."""

from collections.abc import Mapping

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound, finished, job_ended
from pytest_gpucluster.scenario.programs import headless, image, payloads_of, speaking
from pytest_gpucluster.workload import GangSpec, Role, Sidecar

from .common import LOGS, PAYLOAD, PayloadCommand, gpus_of, room, told

WORKERS = 3
PORT = 23456
"""Documented default port of the pytorch plugin, which the Job leaves to it."""
REFERENCES = (
    "--told=rank $(RANK) of $(WORLD_SIZE) at $(MASTER_ADDR):$(MASTER_PORT)",
    "--told=$(VC_WORKER_NUM) workers, this is index $(VC_TASK_INDEX)",
    "--told=$$(RANK)",
    "--told=$(GPUCLUSTER_UNSET)",
)
"""Arguments that the kubelet must expand; the third is escaped, the fourth names nothing: both arrive as `$(...)`."""
FEWEST = 2
GPUS = 4
"""GPUs of each member: two members fill a node of 8, so the gang spans nodes. Fewer where a cluster has fewer."""


def spec(name: str, image: str, payload: str, resources: Mapping[str, int], *, ends: bool) -> GangSpec:
    """Return one master and three workers, each worker with a side container."""
    watch = Sidecar("watch", (*PayloadCommand, "env"))
    meet = (
        *("meet", f"--master={name}-master-0.{name}", f"--port={PORT}", f"--members={1 + WORKERS}"),
        *REFERENCES,
    )
    return GangSpec(
        name,
        roles=(
            Role("master", 1, PayloadCommand, meet, ends_job=ends),
            Role("worker", WORKERS, PayloadCommand, meet, sidecars=(watch,)),
        ),
        resources=resources,
        image=image,
        plugins={"pytorch": ("--master=master", "--worker=worker"), "env": ()},
        payload=payload,
        grace=2,
    )


def alike(name: str, image: str, payload: str, resources: Mapping[str, int], members: int) -> GangSpec:
    """Return the same gang where there are no roles and no plugins: the first of its members is the master."""
    master = f"{name}-0.{name}"
    meet = ("meet", f"--master={master}", f"--port={PORT}", f"--members={members}")
    return GangSpec(
        name,
        roles=(Role("worker", members, PayloadCommand, meet),),
        resources=resources,
        image=image,
        leads=True,
        subdomain=name,
        payload=payload,
        env={"MASTER_ADDR": master, "MASTER_PORT": str(PORT)},
        grace=2,
    )


def run(stage: Stage) -> None:
    """Submit, let all meet at the barrier, let the master's end complete the job."""
    gpus, members = gpus_of(stage), 1 + WORKERS
    if not stage.dialect.names_members:
        # Members that are alike may be fewer, down to two that meet.
        members = max(FEWEST, min(members, gpus))
    told(stage, members=members, min_member=members, resource=stage.profile.gpu_resource, currency="gpu")
    room(stage, members)
    payload, python, gpu = payloads_of(stage, "gang.py"), image(stage, "python"), stage.profile.gpu_resource
    each = {gpu: max(1, min(GPUS, gpus // members))}
    if stage.dialect.names_members:
        wanted = spec(stage.name, python, payload, each, ends=True)
    else:
        wanted = alike(headless(stage, stage.name), python, payload, each, members)
    gang = stage.gang(wanted, dialect=speaking(stage, {gpu: members * each[gpu]}))
    if not gang.ok:
        return
    # Followed from the start: when the master ends the workers are deleted, and their logs with them.
    stage.follow(gang)
    if (
        stage.wait("all members are bound", all_bound(gang, members), budget="bind")
        and stage.wait("the master has ended", finished(gang, 1), budget="run")
        and stage.wait("the job has ended", job_ended(gang), budget="finish")
    ):
        stage.window("after the end")
    stage.delete(gang)


def run_without_policy(stage: Stage) -> None:
    """The same life without a completion policy: the workers stay until somebody ends them."""
    told(stage, members=3, min_member=3, resource=stage.profile.gpu_resource, currency="gpu")
    room(stage, 3)
    wanted = _lingering(stage) if stage.dialect.own_api else _lingering_alike(stage)
    gang = stage.gang(wanted, dialect=speaking(stage, {stage.profile.gpu_resource: 3}))
    if not gang.ok:
        return
    bound = stage.wait("all members are bound", all_bound(gang, 3), budget="bind")
    if bound and stage.wait("the master has ended", finished(gang, 1), budget="run"):
        stage.window("after the master")
    stage.delete(gang)


def _lingering(stage: Stage) -> GangSpec:
    return GangSpec(
        stage.name,
        roles=(
            Role("master", 1, ("sh", "-c", "exit 0")),
            Role("worker", 2, ("sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait")),
        ),
        resources={stage.profile.gpu_resource: 1},
        image=image(stage, "python"),
    )


def _lingering_alike(stage: Stage) -> GangSpec:
    """Return the same without roles: the first member ends, and nothing says that this ends the Job."""
    ends = (
        "sh",
        "-c",
        f"""[ "${stage.dialect.index}" = 0 ] && exit 0; trap 'exit 0' TERM; sleep 3600 & wait""",
    )
    return GangSpec(
        stage.name,
        roles=(Role("worker", 3, ends),),
        resources={stage.profile.gpu_resource: 1},
        image=image(stage, "python"),
    )


healthy = Scenario(
    name="healthy",
    summary="a gang of 1 master and 3 workers that fits: barrier, then the master's end completes the job",
    run=run,
    needs=Needs(
        named=True,
        nodes=2,
        gpus=(1 + WORKERS) * GPUS,
        seconds=6,
        gpu_seconds=16 * 4,
        permissions=PAYLOAD + LOGS,
    ),
    rests=(names.VC_JOB, names.BATCH_JOB, "Service"),
)

lingering = Scenario(
    name="lingering",
    summary="a gang whose master ends, without a TaskCompleted policy",
    run=run_without_policy,
    needs=Needs(gpus=3, seconds=4, gpu_seconds=3 * 3, pods_run=True),
)
