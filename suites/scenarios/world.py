"""One world of torch ranks: the documented manifest's shape and its robust form."""

import dataclasses
from collections.abc import Mapping

from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import gave_up, job_ended
from pytest_gpucluster.scenario.programs import headless, image, payloads_of, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, gpus_of, room, told

NODES = 2
PROCESSES = 2
"""Processes per node in CPU mode; the documents use one per GPU."""


PORT = 23456
_PYTORCH = ("--master=master", "--worker=worker", f"--port={PORT}")
PLUGINS = {"pytorch": _PYTORCH, "svc": ("--publish-not-ready-addresses=true",)}
"""Plugins of the robust form."""


def documented(name: str, processes: int = PROCESSES) -> GangSpec:
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
    return _smoke(name, args, {"pytorch": _PYTORCH})


def robust(name: str, namespace: str, processes: int = PROCESSES) -> GangSpec:
    """Return the form that does not depend on when a name is published.

    The master's full name is in its own /etc/hosts, members are addressed before they are ready, and each agent says
    its pod IP, so neither a late DNS record nor an unresolvable host name can keep the world from forming.
    """
    args = (*_agent(name, by_plugin(namespace), processes), "/workspace/world.py")
    return _smoke(name, args, PLUGINS)


def by_plugin(namespace: str) -> str:
    """Return the endpoint that the pytorch plugin tells, with the master's full name."""
    return f"$(MASTER_ADDR).{namespace}.svc.cluster.local:$(MASTER_PORT)"


def by_index(name: str, namespace: str) -> str:
    """Return the endpoint at the first member of an Indexed Job, with a Service of its name."""
    return f"{name}-0.{name}.{namespace}.svc.cluster.local:{PORT}"


def _agent(name: str, endpoint: str, processes: int) -> tuple[str, ...]:
    """Return the launcher's arguments of the robust form."""
    return (
        f"--nnodes={NODES}",
        f"--nproc_per_node={processes}",
        "--rdzv_backend=c10d",
        f"--rdzv_id={name}",
        "--local-addr=$(POD_IP)",
        f"--rdzv_endpoint={endpoint}",
        "--max-restarts=3",
    )


def _smoke(name: str, args: tuple[str, ...], plugins: Mapping[str, tuple[str, ...]]) -> GangSpec:
    """Return a gang of torchrun agents that ask for one GPU a process."""
    roles = [
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
        roles=tuple(roles),
        plugins=plugins,
        policies=(("PodEvicted", "RestartJob"),),
        max_retry=3,
        grace=2,
    )


def indexed(name: str, namespace: str, processes: int = PROCESSES) -> GangSpec:
    """Return the robust form where there are no roles and no plugins: an Indexed Job and a headless Service."""
    args = (*_agent(name, by_index(name, namespace), processes), "/workspace/world.py")
    role = Role(
        "worker",
        NODES,
        ("torchrun",),
        args,
        restart_policy="OnFailure",
        field_env={"POD_IP": "status.podIP"},
    )
    return GangSpec(name, roles=(role,), subdomain=name, max_retry=3, grace=2)


def run(stage: Stage) -> None:
    """Run both forms one after the other: two cores carry one world at a time."""
    processes = min(PROCESSES, max(1, gpus_of(stage) // NODES))
    told(
        stage,
        members=NODES,
        min_member=NODES,
        nnodes=NODES,
        nproc=processes,
        world=NODES * processes,
        resource=stage.profile.gpu_resource,
        currency="gpu",
    )
    room(stage, NODES * processes)
    payload, torch = payloads_of(stage, "world.py"), image(stage, "torch")
    gpus = {stage.profile.gpu_resource: processes}
    if stage.dialect.names_members:
        forms = {
            "documented": documented(f"{stage.name}-doc", processes),
            "robust": robust(f"{stage.name}-robust", stage.namespace, processes),
        }
    else:
        # The documented form stands on the pytorch plugin.
        forms = {"robust": indexed(headless(stage, f"{stage.name}-robust"), stage.namespace, processes)}
    dialect = speaking(stage, {stage.profile.gpu_resource: NODES * processes})
    for role, spec in forms.items():
        wanted = dataclasses.replace(spec, payload=payload, image=torch, resources=gpus)
        gang = stage.gang(wanted, role=role, dialect=dialect)
        if gang.ok:
            stage.follow(gang)
            stage.wait(f"the {role} world has ended", job_ended(gang), budget="torch", unless=gave_up(gang))
            stage.delete(gang)


torch_world = Scenario(
    name="world",
    summary="torchrun over c10d: the documented smoke job and its robust form",
    run=run,
    needs=Needs(
        named=True,
        nodes=NODES,
        gpus=NODES * PROCESSES,
        seconds=28,
        gpu_seconds=4 * 28,
        torch=True,
        permissions=PAYLOAD + LOGS,
    ),
)
