"""Collectives over whole nodes: one pod a node with all its GPUs, a rank a GPU, torchrun over c10d."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.measure import bus_floors, switches, transports
from pytest_gpucluster.provider import ONE_MACHINE
from pytest_gpucluster.scenario import Handle, Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.predicates import gave_up, job_ended
from pytest_gpucluster.scenario.programs import Agents, payloads_of, speaking, torchrun
from pytest_gpucluster.workload import Dialect, GangSpec

from .common import LOGS, PAYLOAD, told
from .numa import gpu_nodes

PROGRAM = "collectives.py"
PORT = 23457
CPU_RANKS = 2
"""Ranks a pod where GPUs are only pretended: two, so that ranks of one pod and of two are both there."""
CPU_NODES = 2
"""Nodes that take part there, unless the profile says more."""

SHORT = ("--collectives=all_reduce", "--sizes=64K,64M", "--no-pairs")
NEEDS = Needs(
    section="fabric",
    named=True,
    nodes=1,
    gpus=8,
    seconds=15,
    gpu_seconds=8 * 15,
    torch=True,
    permissions=PAYLOAD + LOGS,
)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Who takes part.

    Attributes:
        nodes: nodes.
        pods_per_node: pods on each.
        gpus: GPUs of a pod.
        ranks: ranks of a pod.
        roomy: whether a node has room for two of these pods.
        names: names of the nodes, () where the scheduler may choose any.
    """

    nodes: int
    pods_per_node: int
    gpus: int
    ranks: int
    roomy: bool
    names: tuple[str, ...] = ()

    @property
    def members(self) -> int:
        """Return the pods."""
        return self.nodes * self.pods_per_node


def declared(stage: Stage) -> Any:
    """Return what the profile declares of the fabric, and write it into the evidence's header with its floors.

    Raises:
        NotApplicable: nothing is declared.
    """
    fabric = stage.profile.fabric
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

    Raises:
        NotApplicable: that is no GPU at all.
    """
    numa, whole = stage.profile.numa, stage.profile.gpus_per_node
    gpus = whole // fabric.pods_per_node
    if numa is not None and numa.policy == "single-numa-node":
        gpus = min(gpus, whole // numa.nodes)
    if gpus < 1:
        raise NotApplicable(f"{whole} GPUs per node are none for each of its pods")
    usable = [str(node["metadata"]["name"]) for node in gpu_nodes(stage, gpus * fabric.pods_per_node)]
    nodes = fabric.nodes or max(1, len(usable) if fabric.device == "gpu" else min(len(usable), CPU_NODES))
    ranks = gpus if fabric.device == "gpu" else CPU_RANKS
    # Pods that share a node would else go to any node with room: two each to two of three, or one to each.
    theirs = {"nodeSelector", "affinity"} & set(
        stage.profile.overlay.get("spec", {})
    )  # the site chooses itself
    chosen = tuple(usable[:nodes]) if fabric.pods_per_node > 1 and nodes < len(usable) and not theirs else ()
    return Layout(nodes, fabric.pods_per_node, gpus, ranks, roomy=2 * gpus <= whole, names=chosen)


def gang(
    stage: Stage, name: str, who: Layout, *, payload: str, args: tuple[str, ...], env: Mapping[str, str]
) -> GangSpec:
    """Return the gang of torchrun agents, one a pod; members have names before they are ready."""
    # Pods that leave room for another one beside them could all go to one node.
    apart = who.pods_per_node == 1 and who.roomy
    agents = Agents(who.members, who.ranks, who.gpus, PORT, lone=True, apart=apart)
    command = (f"/workspace/{PROGRAM}", *args)
    where = {"GPUCLUSTER_NODE": "spec.nodeName"}
    spec = torchrun(stage, name, agents, command, payload=payload, env=env, field_env=where)
    return dataclasses.replace(spec, nodes=who.names)


@dataclasses.dataclass(frozen=True)
class Site:
    """Where collectives are run.

    Attributes:
        stage: the stage.
        fabric: what the profile declares.
        who: who takes part.
        payload: the ConfigMap with the program.
        dialect: how gangs are written.
    """

    stage: Stage
    fabric: Any
    who: Layout
    payload: str
    dialect: Dialect

    def play(self, *args: str, name: str = "", role: str = "subject", **env: str) -> Handle:
        """Run the payload on all members from start to end; what it prints is in the evidence.

        Args:
            args: of the payload.
            name: of the gang; that of the scenario where it has one only.
            role: of the gang.
            env: variables in its pods, beside those of the profile.
        """
        common = (
            f"--device={self.fabric.device}",
            f"--budget={self.fabric.seconds:g}",
            f"--bound={self.fabric.stall_bound:g}",
        )
        stage, told_env = self.stage, {**self.fabric.env, **env}
        wanted = gang(
            stage,
            name or stage.name,
            self.who,
            payload=self.payload,
            args=(*common, *args),
            env=told_env,
        )
        made = stage.gang(wanted, role=role, dialect=self.dialect)
        if made.ok:
            stage.follow(made)
            what = f"all ranks of {wanted.name} have ended"
            stage.wait(what, job_ended(made), budget="torch", unless=gave_up(made))
            stage.delete(made)
        return made


def site(stage: Stage, *, gpus: str = "", between: str = "") -> Site:
    """Return where collectives are run, with what the judge must know in the evidence's header.

    Args:
        stage: the stage.
        gpus: what needs real GPUs, "" where CPUs do.
        between: what needs several members, "" where one does.

    Raises:
        NotApplicable: nothing is declared, or not what is needed.
    """
    fabric = declared(stage)
    if gpus and fabric.device == "cpu":
        raise NotApplicable(f"{gpus} needs GPUs; the profile declares ranks on CPUs (fabric.device)")
    who = layout(stage, fabric)
    if between and who.members < 2:
        raise NotApplicable(f"{between} needs two nodes, or two pods; here is one")
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
    dialect = speaking(stage, {stage.profile.gpu_resource: who.members * who.gpus})
    return Site(stage, fabric, who, payloads_of(stage, PROGRAM), dialect)


def network_of(fabric: Any, what: str) -> str:
    """Return the name by which NCCL knows the declared network.

    Raises:
        NotApplicable: none is declared, or traffic between nodes needs none.
    """
    if fabric.network:
        return str(fabric.network)
    if fabric.transport in transports.NETWORKS:
        return transports.NETWORKS[fabric.transport].asked
    raise NotApplicable(f"{what}: the profile declares no network between nodes (fabric.transport)")


def run(stage: Stage) -> None:
    """Let all ranks check and time collectives, then exchange data in pairs."""
    site(stage).play()


def run_forced(stage: Stage) -> None:
    """Let NCCL know one network only: where it cannot be used the communicator does not form."""
    here = site(stage, gpus="a transport that is forced", between="a transport that is forced")
    network = network_of(here.fabric, "nothing can be forced")
    stage.given["forced"] = network
    here.play(*SHORT, NCCL_NET=network)


def run_stalled(stage: Stage) -> None:
    """Let the last rank stay outside of a collective that all others enter."""
    here = site(stage, gpus="a collective that stands still")
    absent = here.who.members * here.who.ranks - 1
    stage.given["absent"] = absent
    stage.given["stall_bound"] = here.fabric.stall_bound
    here.play(f"--stall={absent}", "--sizes=64K")


def run_diagnosed(stage: Stage) -> None:
    """Let NCCL try its own paths when the communicator forms; a collective follows."""
    here = site(stage, gpus="what NCCL says of its own paths")
    here.play(*SHORT, NCCL_RUN_DIAGNOSTICS="1", NCCL_RUN_RAS_DIAGNOSTICS="1")


def run_switched(stage: Stage) -> None:
    """Measure with everything on, then once more for each switch that can show here, with it off."""
    here = site(stage, gpus="a switch of NCCL")
    machines = here.who.members > 1 and ONE_MACHINE not in stage.cluster.features
    chosen = {
        name: switch
        for name, switch in switches.SWITCHES.items()
        if (machines if switch.between else here.who.ranks > 1)
    }
    if not chosen:
        raise NotApplicable("one GPU of one machine has no transport that could be switched off")
    labels = {f"{stage.name}-{name.lower()}": name for name in chosen}
    stage.given["switched"] = labels
    here.play(*SHORT)
    for gang, name in labels.items():
        here.play(*SHORT, name=gang, role="contrast", **chosen[name].env)


def run_sockets(stage: Stage) -> None:
    """Measure as it is, then with every other network than sockets switched off."""
    what = "a fabric that is switched off"
    if ONE_MACHINE in stage.cluster.features:
        raise NotApplicable(f"{what} lies between machines; here is one, whatever nodes are made of it")
    here = site(stage, gpus=what, between=what)
    if (
        network_of(here.fabric, "nothing can be switched off")
        == transports.NETWORKS[transports.SOCKETS].asked
    ):
        raise NotApplicable("the profile declares sockets between nodes: nothing can be switched off")
    here.play(*SHORT)
    here.play(*SHORT, name=f"{stage.name}-off", role="contrast", **switches.WITHOUT_FABRIC)


collectives = Scenario(
    name="collectives",
    summary="one pod a node with all its GPUs: every collective at several sizes, then all pairs of members",
    run=run,
    needs=NEEDS,
)
"""The run that users get: nothing is forced."""

forced = Scenario(
    name="forced-transport",
    summary="the same with NCCL_NET set to the declared network, so that a fallback is an error",
    run=run_forced,
    needs=NEEDS,
)

stalled = Scenario(
    name="stalled-collective",
    summary="one rank does not enter a collective: all must end within the bound and say who is missing",
    run=run_stalled,
    needs=NEEDS,
)

diagnosed = Scenario(
    name="nccl-diagnostics",
    summary="an all-reduce by ranks whose NCCL tries every path between GPUs and compares all ranks first",
    run=run_diagnosed,
    needs=NEEDS,
)

switched = Scenario(
    name="switches",
    summary="an all-reduce with everything on, then once for each transport with that one switched off",
    run=run_switched,
    needs=dataclasses.replace(NEEDS, seconds=60, gpu_seconds=8 * 60),
)

sockets = Scenario(
    name="sockets",
    summary="an all-reduce as it is, then with the fabric switched off on purpose",
    run=run_sockets,
    needs=dataclasses.replace(NEEDS, seconds=30, gpu_seconds=8 * 30),
)
