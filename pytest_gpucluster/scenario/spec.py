"""What a scenario declares: its name, what it needs, which kinds tell its story, and what is done."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_gpucluster.plain import names

if TYPE_CHECKING:
    from pytest_gpucluster.scenario.stage import Stage


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a scenario takes from the cluster, for the plan and for what cannot run here.

    Attributes:
        slot_nodes: nodes that get slots, 0 for none.
        slots_per_node: slots on each of them.
        nodes: nodes that must be there.
        gpus: real GPUs held at the same time.
        seconds: how long it takes on the embedded cluster, cleanup included.
        gpu_seconds: GPUs times the seconds that they are held.
        pods_run: whether pods must really run.
        torch: whether the payload needs torch.
        alone: whether nothing else of the run may go on at the same time, since it would be disturbed.
        gang: whether it creates and deletes gangs as the declared scheduler wants them written.
        permissions: what it asks for beside lists and watches of its kinds, its gang and its slots, each as
            `VERB[,VERB] RESOURCE[.GROUP][/SUBRESOURCE] [in NAMESPACE]`: `create configmaps`, `get pods/log`,
            `create,delete queues.scheduling.volcano.sh`. `gpucluster rbac` grants what stands here and no more.
    """

    slot_nodes: int = 0
    slots_per_node: int = 0
    nodes: int = 1
    gpus: int = 0
    seconds: float = 10
    gpu_seconds: float = 0
    pods_run: bool = True
    torch: bool = False
    alone: bool = False
    gang: bool = True
    permissions: tuple[str, ...] = ()


KINDS: tuple[str, ...] = ("Pod", names.VC_JOB, "PodGroup", "Queue", "Event", "Service", "ConfigMap", "Node")
"""The kinds that tell the story of a Volcano gang."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One workload and what is done to it.

    Attributes:
        name: unique in a run; the evidence file's name.
        summary: one sentence for the plan.
        run: puts the workload through its life on a stage; returns when it has come to its end.
        needs: what it takes.
        kinds: kind keys that are watched from before it begins.
    """

    name: str
    summary: str
    run: Callable[["Stage"], None]
    needs: Needs = Needs()
    kinds: tuple[str, ...] = KINDS
