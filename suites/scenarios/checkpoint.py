"""Checkpoints: a model is saved sharded, beside training too, killed while it saves, and loaded by other ranks."""

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.scenario import Handle, Live, Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.predicates import gave_up, job_ended
from pytest_gpucluster.scenario.programs import Agents, image, payloads_of, speaking, torchrun
from pytest_gpucluster.workload import Dialect, GangSpec, Sidecar, Volume

from .common import LOGS, PAYLOAD, told
from .durable_volume import CLAIMS, empty, mounted, source
from .numa import gpu_nodes

PORT = 23471
DURABLE, LOCAL = "/checkpoints", "/local"
"""Where pods mount the volumes."""
KILL_MODEL = ("--layers=4", "--width=1024")
"""Model of the ranks that are killed: its save takes long enough to be met, and is written in every round."""
CPU_LOADERS = 3
"""Ranks that load what two have saved, where GPUs are only pretended: their parts have other borders."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Who saves and who loads.

    Attributes:
        nodes: nodes that save together, a pod on each.
        ranks: ranks of each of these pods.
        gpus: GPUs of each.
        loaders: ranks of the pod that loads.
        loader_gpus: GPUs of that pod; 0 where it loads into memory.
    """

    nodes: int
    ranks: int
    gpus: int
    loaders: int
    loader_gpus: int

    @property
    def world(self) -> int:
        """Return the ranks that save."""
        return self.nodes * self.ranks


def plan(stage: Stage, storage: Any) -> Plan:
    """Return who takes part; the number of ranks that load is never that of those that save."""
    if storage.device == "cpu":
        ranks = 2 if storage.nodes == 1 else 1
        return Plan(storage.nodes, ranks, 0, CPU_LOADERS if storage.nodes * ranks != CPU_LOADERS else 2, 0)
    numa, gpus = stage.profile.numa, stage.profile.gpus_per_node
    if numa is not None and numa.policy == "single-numa-node":
        gpus //= numa.nodes
    if gpus < 1:
        raise NotApplicable(f"{stage.profile.gpus_per_node} GPUs per node are none for a pod")
    if storage.nodes > 1:
        return Plan(storage.nodes, gpus, gpus, gpus, gpus)
    if gpus > 1:
        return Plan(1, gpus, gpus, gpus - 1, gpus - 1)
    return Plan(1, 1, 1, 2, 0)


@dataclasses.dataclass(frozen=True)
class Work:
    """What all gangs of the scenario share."""

    stage: Stage
    storage: Any
    payload: str
    dialect: Dialect
    volumes: tuple[Volume, ...]
    folder: str

    def args(self) -> tuple[str, ...]:
        """Return the arguments that say which model it is, and where it is saved."""
        model = self.storage.model
        return (
            f"--folder={self.folder}", f"--layers={model.layers}", f"--width={model.width}", f"--format={model.format}",
            *(("--moments",) if model.moments else ()),
        )  # fmt: skip

    def gang(self, role: str, agents: Agents, command: tuple[str, ...]) -> GangSpec:
        """Return the gang of a role with the volumes mounted."""
        spec = torchrun(
            self.stage, f"{self.stage.name}-{role}", agents, command, payload=self.payload,
            field_env={"GPUCLUSTER_NODE": "spec.nodeName"},
        )  # fmt: skip
        return dataclasses.replace(spec, volumes=self.volumes)

    def run(self, role: str, spec: GangSpec) -> tuple[str, ...]:
        """Run a gang from its start to its end, then remove it and the disks of its pods; returns its nodes."""
        stage = self.stage
        made = stage.gang(spec, role=role, dialect=self.dialect)
        if not made.ok:
            return ()
        stage.follow(made)
        stage.wait(f"all ranks of {role} are done", job_ended(made), budget="torch", unless=broken(made))
        nodes = {str(pod["spec"].get("nodeName") or "") for pod in stage.live.pods_of(made)}
        stage.delete(made)
        return tuple(sorted(nodes - {""}))


def broken(made: Handle) -> Callable[[Live], str]:
    """Tell when ranks of a gang have ended with an error: who flushes beside them would wait in vain."""
    restarted = gave_up(made)

    def check(live: Live) -> str:
        for pod in live.pods_of(made):
            for status in (pod.get("status") or {}).get("containerStatuses") or []:
                ended = (status.get("state") or {}).get("terminated") or {}
                if status.get("name") == "main" and ended.get("exitCode"):
                    return f"the ranks in {pod['metadata']['name']} ended with exit code {ended['exitCode']}"
        return restarted(live)

    return check


def saving(work: Work, who: Plan) -> GangSpec:
    """Return the gang that saves; beside its ranks, where a volume of nodes is declared, somebody flushes that."""
    storage = work.storage
    cpu = ("--cpu",) if storage.device == "cpu" else ()
    local = f"{LOCAL}/{work.stage.namespace}-{work.stage.name}"
    args = ("--beside", "--keep", *cpu, *((f"--disk={local}",) if storage.local is not None else ()))
    agents = Agents(who.nodes, who.ranks, who.gpus, PORT, lone=True, apart=who.nodes > 1)
    spec = work.gang("save", agents, ("/workspace/checkpoint.py", *work.args(), *args))
    if storage.local is None:
        return spec
    budgets = work.stage.profile.budgets
    words = (
        "python", "/workspace/checkpoint_flush.py", f"--local={local}", f"--durable={work.folder}",
        f"--wait={budgets['torch']:g}", f"--within={storage.flush:g}",
    )  # fmt: skip
    sidecar = Sidecar("flush", words, image=image(work.stage, "torch"))
    roles = tuple(dataclasses.replace(role, sidecars=(sidecar,)) for role in spec.roles)
    volumes = (*spec.volumes, Volume("local", source(storage.local), LOCAL))
    return dataclasses.replace(spec, roles=roles, volumes=volumes)


def others(stage: Stage, taken: tuple[str, ...]) -> tuple[str, ...]:
    """Return nodes that are not taken, () where there is none: the scheduler then chooses any."""
    names = [str(node["metadata"]["name"]) for node in gpu_nodes(stage, 0)]
    return tuple(name for name in names if name not in taken)


def run(stage: Stage) -> None:
    """Save on some ranks, load on others, and kill further ones while they save."""
    storage = stage.profile.storage
    if storage is None:
        raise NotApplicable(
            "the profile does not declare `storage`: what checkpoints are kept on is not judged"
        )
    there = len(gpu_nodes(stage, 0))
    if there < storage.nodes:
        few = f"the profile lets {storage.nodes} nodes save together (storage.nodes), {there} can be used"
        raise NotApplicable(few)
    who = plan(stage, storage)
    stage.given["storage"] = storage.model_dump(mode="json")
    told(stage, world=who.world, load_world=who.loaders, nodes=who.nodes, nproc=who.ranks)
    payload = payloads_of(
        stage, "checkpoint.py", "checkpoint_load.py", "checkpoint_kill.py", "checkpoint_flush.py"
    )
    dialect = speaking(stage, {stage.profile.gpu_resource: who.nodes * who.gpus} if who.gpus else {})
    folder = f"{DURABLE}/{stage.namespace}-{stage.name}"
    volume = mounted(stage, storage, DURABLE)
    work = Work(stage, storage, payload, dialect, (volume,), folder)
    try:
        writers = work.run("save", saving(work, who))
        load = Agents(1, who.loaders, who.loader_gpus, PORT)
        command = ("/workspace/checkpoint_load.py", *work.args(), *(() if who.loader_gpus else ("--cpu",)))
        spec = work.gang("load", load, command)
        work.run("load", dataclasses.replace(spec, nodes=others(stage, writers)))
        seed = zlib.crc32(stage.namespace.encode())
        words = (f"--folder={folder}", *KILL_MODEL, f"--rounds={storage.kills}", f"--seed={seed}")
        kill = work.gang("kill", Agents(1, 1, 0, PORT), ("/workspace/checkpoint_kill.py", *words))
        work.run("kill", kill)
    finally:
        empty(stage, storage, volume, folder)


NEEDS = Needs(
    named=True, nodes=1, gpus=8, seconds=60, gpu_seconds=16 * 120, torch=True,
    permissions=(*PAYLOAD, *LOGS, *CLAIMS),
)  # fmt: skip

checkpoint = Scenario(
    name="checkpoint",
    summary="a model is saved sharded, beside training too, killed while it saves, and loaded by other ranks",
    run=run,
    kinds=("Pod", "Event", "Service", "ConfigMap", "Node", "PersistentVolumeClaim"),
    needs=NEEDS,
)
