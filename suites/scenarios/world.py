"""One world of torch ranks: the documented manifest's shape and its robust form."""

from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.workload import GangSpec, Role

from .common import job_ended, payloads_of, told

NODES = 2
PROCESSES = 2
"""Processes a node in CPU mode; the documents use one a GPU."""


def documented(name: str, image: str, payload: str, resource: str, processes: int) -> GangSpec:
    """Return the smoke job of the recipe: torchrun with c10d at the master's short name."""
    args = (
        f"--nnodes={NODES}",
        f"--nproc_per_node={processes}",
        "--node_rank=$(RANK)",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)",
        "--max-restarts=3",
        "/workspace/world.py",
    )
    return _smoke(name, image, payload, resource, args, {"pytorch": _PYTORCH})


def robust(name: str, namespace: str, image: str, payload: str, resource: str, processes: int) -> GangSpec:
    """Return the form that does not depend on when a name is published.

    The master's full name is in its own /etc/hosts, members are addressed before they are ready, and each agent says
    its pod IP, so neither a late DNS record nor an unresolvable host name can keep the world from forming.
    """
    args = (
        f"--nnodes={NODES}",
        f"--nproc_per_node={processes}",
        "--rdzv_backend=c10d",
        f"--rdzv_id={name}",
        "--local-addr=$(POD_IP)",
        f"--rdzv_endpoint=$(MASTER_ADDR).{namespace}.svc.cluster.local:$(MASTER_PORT)",
        "--max-restarts=3",
        "/workspace/world.py",
    )
    plugins = {"pytorch": _PYTORCH, "svc": ("--publish-not-ready-addresses=true",)}
    return _smoke(name, image, payload, resource, args, plugins)


_PYTORCH = ("--master=master", "--worker=worker", "--port=23456")


def _smoke(
    name: str,
    image: str,
    payload: str,
    resource: str,
    args: tuple[str, ...],
    plugins: dict[str, tuple[str, ...]],
) -> GangSpec:
    members = [
        Role(
            role,
            replicas,
            ("torchrun",),
            args,
            ends_job=role == "master",
            restart_policy="OnFailure",
            field_env={"POD_IP": "status.podIP"},
        )
        for role, replicas in (("master", 1), ("worker", NODES - 1))
    ]
    return GangSpec(
        name,
        roles=tuple(members),
        image=image,
        resources={resource: processes_gpus(args)},
        plugins=plugins,
        policies=(("PodEvicted", "RestartJob"),),
        payload=payload,
        max_retry=3,
        grace=2,
    )


def processes_gpus(args: tuple[str, ...]) -> int:
    """Return the GPUs of a member: one a process."""
    return next(int(arg.partition("=")[2]) for arg in args if arg.startswith("--nproc_per_node"))


def run(stage: Stage) -> None:
    """Run both forms one after the other: two cores carry one world at a time."""
    told(
        stage,
        members=NODES,
        min_member=NODES,
        nnodes=NODES,
        nproc=PROCESSES,
        world=NODES * PROCESSES,
        resource=stage.profile.gpu_resource,
        currency="gpu",
    )
    payload = payloads_of(stage, "world.py")
    image, resource = stage.image("torch"), stage.profile.gpu_resource
    forms = {
        "documented": documented(f"{stage.name}-doc", image, payload, resource, PROCESSES),
        "robust": robust(f"{stage.name}-robust", stage.namespace, image, payload, resource, PROCESSES),
    }
    for role, spec in forms.items():
        gang = stage.submit(stage.dialect.write(spec), role=role)
        if gang.ok:
            stage.wait(f"the {role} world has ended", job_ended(gang), budget="torch")
            stage.logs(gang)
            stage.delete(gang)


torch_world = Scenario(
    name="world",
    summary="torchrun over c10d: the documented smoke job and its robust form",
    run=run,
    needs=Needs(
        nodes=NODES, gpus=NODES * PROCESSES, seconds=28, gpu_seconds=4 * 28, pods_run=True, torch=True
    ),
)
