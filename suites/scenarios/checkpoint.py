"""Checkpoints: a model is saved sharded, beside training too, killed while it saves, and loaded by other ranks."""

import dataclasses
from typing import Any

from pytest_gpucluster.scenario import Handle, Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.predicates import gave_up, job_ended
from pytest_gpucluster.scenario.programs import Agents, payloads_of, speaking, torchrun
from pytest_gpucluster.workload import Dialect, GangSpec, Volume

from .common import LOGS, PAYLOAD, told

PORT = 23471
DURABLE, LOCAL = "/checkpoints", "/local"
"""Where pods mount the volumes."""
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
        return Plan(storage.nodes, 1, 0, CPU_LOADERS if storage.nodes != CPU_LOADERS else 2, 0)
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


def claimed(stage: Stage, storage: Any) -> Volume:
    """Return the durable volume as pods mount it; where the profile names a class, a claim of it is made."""
    durable = storage.durable
    if durable.storage_class is not None:
        name = f"{stage.name}-durable"
        spec = {
            "accessModes": [durable.access],
            "resources": {"requests": {"storage": durable.size}},
            "storageClassName": durable.storage_class,
        }
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        stage.submit(claim, role="claim")
        return Volume("durable", {"persistentVolumeClaim": {"claimName": name}}, DURABLE)
    return Volume("durable", source(durable), DURABLE)


def source(volume: Any) -> dict[str, Any]:
    """Return the source of a volume that is there already, or of its pod's own."""
    if volume.claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.host_path is not None:
        return {"hostPath": {"path": volume.host_path, "type": "Directory"}}
    return {"emptyDir": {}}


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

    def run(self, role: str, spec: GangSpec) -> Handle:
        """Run a gang from its start to its end."""
        made = self.stage.gang(spec, role=role, dialect=self.dialect)
        if made.ok:
            self.stage.follow(made)
            self.stage.wait(f"all ranks of {role} are done", job_ended(made), budget="torch", unless=gave_up(made))
            self.stage.delete(made)
        return made


def run(stage: Stage) -> None:
    """Save on some ranks, and load on others."""
    storage = stage.profile.storage
    if storage is None:
        raise NotApplicable("the profile does not declare `storage`: what checkpoints are kept on is not judged")
    who = plan(stage, storage)
    stage.given["storage"] = storage.model_dump(mode="json")
    told(stage, world=who.world, load_world=who.loaders, nodes=who.nodes, nproc=who.ranks)
    payload = payloads_of(stage, "checkpoint.py", "checkpoint_load.py")
    dialect = speaking(stage, {stage.profile.gpu_resource: who.nodes * who.gpus} if who.gpus else {})
    folder = f"{DURABLE}/{stage.namespace}-{stage.name}"
    work = Work(stage, storage, payload, dialect, (claimed(stage, storage),), folder)
    cpu = ("--cpu",) if storage.device == "cpu" else ()
    save = Agents(who.nodes, who.ranks, who.gpus, PORT, lone=True, apart=who.nodes > 1)
    command = ("/workspace/checkpoint.py", *work.args(), "--beside", "--keep", *cpu)
    work.run("save", work.gang("save", save, command))
    load = Agents(1, who.loaders, who.loader_gpus, PORT)
    command = ("/workspace/checkpoint_load.py", *work.args(), *(() if who.loader_gpus else ("--cpu",)))
    work.run("load", work.gang("load", load, command))


checkpoint = Scenario(
    name="checkpoint",
    summary="a model is saved sharded, beside training too, and loaded by another number of ranks",
    run=run,
    kinds=("Pod", "Event", "Service", "ConfigMap", "Node", "PersistentVolumeClaim"),
    needs=Needs(
        named=True, nodes=2, gpus=8, seconds=45, gpu_seconds=16 * 120, torch=True,
        permissions=(*PAYLOAD, *LOGS, "create,delete persistentvolumeclaims"),
    ),  # fmt: skip
)
