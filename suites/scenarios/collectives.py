"""Collectives over whole nodes: one pod a node with all its GPUs, a rank a GPU, torchrun over c10d."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.measure import bus_floors
from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.scenario import Handle, Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, headless, image, job_ended, payloads_of, speaking, told
from .numa import gpu_nodes
from .world import gave_up

PROGRAM = "collectives.py"
PORT = 23457
CPU_RANKS = 2
"""Ranks a pod where GPUs are only pretended: two, so that ranks of one pod and of two are both there."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Who takes part.

    Attributes:
        nodes: nodes.
        pods_per_node: pods on each.
        gpus: GPUs of a pod.
        ranks: ranks of a pod.
    """

    nodes: int
    pods_per_node: int
    gpus: int
    ranks: int

    @property
    def members(self) -> int:
        """Return the pods."""
        return self.nodes * self.pods_per_node


def declared(stage: Stage) -> Any:
    """Return what the profile declares of the fabric, and write it into the evidence's header with its floors.

    Raises:
        NotApplicable: nothing is declared.
    """
    fabric = getattr(stage.profile, "fabric", None)
    if fabric is None:
        raise NotApplicable("the profile does not declare `fabric`: what carries collectives is not judged")
    plain: dict[str, Any] = fabric.model_dump(mode="json")
    shipped = bus_floors.shipped(fabric.floor_file) if fabric.floor_file else []
    own = [{**one, "of": "profile"} for one in plain["floors"]]
    plain["floors"] = [*own, *({**one, "of": fabric.floor_file} for one in shipped)]
    stage.given["fabric"] = plain
    return fabric


def layout(stage: Stage, fabric: Any) -> Layout:
    """Return who takes part: all nodes that offer what a pod asks for, or as many as the profile says.

    A pod asks for the GPUs of a whole node, or of its share of one; where pods must lie on one NUMA node, for no more
    than such a node has.
    """
    numa, whole = getattr(stage.profile, "numa", None), stage.profile.gpus_per_node
    gpus = whole // fabric.pods_per_node
    if numa is not None and numa.policy == "single-numa-node":
        gpus = min(gpus, whole // numa.nodes)
    usable = len(gpu_nodes(stage, gpus * fabric.pods_per_node))
    nodes = fabric.nodes or max(1, usable)
    return Layout(nodes, fabric.pods_per_node, gpus, gpus if fabric.device == "gpu" else CPU_RANKS)


def gang(stage: Stage, name: str, who: Layout, args: tuple[str, ...], env: Mapping[str, str]) -> GangSpec:
    """Return the gang of torchrun agents, one a pod; members have names before they are ready."""
    volcano = stage.dialect.name == schedulers.VOLCANO
    first = f"{name}-worker-0.{name}" if volcano else f"{headless(stage, name)}-0.{name}"
    role = Role(
        "worker",
        who.members,
        ("torchrun",),
        (
            f"--nnodes={who.members}",
            f"--nproc_per_node={who.ranks}",
            "--rdzv_backend=c10d",
            f"--rdzv_id={name}",
            "--local-addr=$(POD_IP)",
            f"--rdzv_endpoint={first}.{stage.namespace}.svc.cluster.local:{PORT}",
            # A world that fails must say so, not try again.
            "--max-restarts=0",
            f"/workspace/{PROGRAM}",
            *args,
        ),
        env=dict(env),
        field_env={"POD_IP": "status.podIP", "GPUCLUSTER_NODE": "spec.nodeName"},
    )
    return GangSpec(
        name,
        roles=(role,),
        resources={stage.profile.gpu_resource: who.gpus},
        image=image(stage, "torch"),
        plugins={"svc": ("--publish-not-ready-addresses=true",)} if volcano else {},
        subdomain="" if volcano else name,
        payload=payloads_of(stage, PROGRAM),
        grace=2,
    )


def play(stage: Stage, *args: str, role: str = "subject", **env: str) -> Handle:
    """Run the payload on the declared nodes from start to end; what it prints is in the evidence."""
    fabric = declared(stage)
    who = layout(stage, fabric)
    told(
        stage,
        members=who.members,
        min_member=who.members,
        nodes=who.nodes,
        pods_per_node=who.pods_per_node,
        nnodes=who.members,
        nproc=who.ranks,
        world=who.members * who.ranks,
        resource=stage.profile.gpu_resource,
        currency="gpu",
    )
    common = (
        f"--device={fabric.device}",
        f"--budget={fabric.seconds:g}",
        f"--bound={fabric.stall_bound:g}",
    )
    wanted = gang(stage, stage.name, who, (*common, *args), {**fabric.env, **env})
    dialect = speaking(stage, {stage.profile.gpu_resource: who.members * who.gpus})
    made = stage.gang(wanted, role=role, dialect=dialect)
    if made.ok:
        stage.follow(made)
        stage.wait("all ranks have measured", job_ended(made), budget="torch", unless=gave_up(made))
        stage.delete(made)
    return made


def run(stage: Stage) -> None:
    """Let all ranks check and time collectives, then exchange data in pairs."""
    play(stage)


collectives = Scenario(
    name="collectives",
    summary="one pod a node with all its GPUs: every collective at several sizes, then all pairs of members",
    run=run,
    needs=Needs(
        named=True,
        nodes=1,
        gpus=8,
        seconds=15,
        gpu_seconds=8 * 15,
        torch=True,
        permissions=PAYLOAD + LOGS,
    ),
)
"""The run that users get: nothing is forced."""
