"""What a scenario declares: its name, what it needs, which kinds tell its story, and what is done."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpucluster.plain import schedulers, workload_kinds

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile
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
        gang: whether it creates and deletes gangs as the declared scheduler wants them written, whose kinds are then
            watched too.
        mixed: whether members of its gangs differ, so that a native gang is a PodGroup and pods of ours.
        named: whether members of its gangs need names, for which a Service is made where the scheduler's plugins make
            none.
        further: whether it creates and deletes gangs of the further schedulers that the profile declares (`tried`).
        queue: whether the queues of the declared scheduler are watched although it creates no gang.
        workload: workload kind without whose controller the scenario does not apply, such as `jobset`; "" for none.
        section: section of the profile without which the scenario does not apply, such as `kueue`; "" for none.
        placed: whether it does not apply without the section `topology` either.
        permissions: what it asks for beside lists and watches of its kinds, its gang and its slots, each as
            `VERB[,VERB] RESOURCE[.GROUP][/SUBRESOURCE] [in NAMESPACE]`: `create configmaps`, `get pods/log`,
            `create,delete queues.scheduling.volcano.sh`; `{volcano}` for NAMESPACE is where that component is
            installed, where the profile declares it. `gpucluster rbac` grants what stands here and no more.
        wishes: what it also asks for, in the same form, and goes on without where it is refused; not granted by
            `gpucluster rbac`, since it says more than most operators want to show.
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
    mixed: bool = False
    queue: bool = False
    named: bool = False
    further: bool = False
    workload: str = ""
    section: str = ""
    placed: bool = False
    permissions: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()

    @property
    def sections(self) -> tuple[str, ...]:
        """Return the sections of the profile without which the scenario does not apply."""
        return tuple(section for section in (self.section, "topology" if self.placed else "") if section)


KINDS: tuple[str, ...] = ("Pod", "Event", "Service", "ConfigMap", "Node")
"""The kinds that tell a story whoever schedules; those of the gang itself are its dialect's."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One workload and what is done to it.

    Attributes:
        name: unique in a run; the evidence file's name.
        summary: one sentence for the plan.
        run: puts the workload through its life on a stage; returns when it has come to its end.
        needs: what it takes.
        kinds: kind keys that are watched from before it begins, beside those of its gangs.
        rests: kind keys, beside Pod, of which its judges may say "never", or that a list of them is whole: their
            watches show at the end of each window, and at its own, that they are current. What is not named here counts
            as not watched; those of schedulers that are not declared are left out.
    """

    name: str
    summary: str
    run: Callable[["Stage"], None]
    needs: Needs = Needs()
    kinds: tuple[str, ...] = KINDS
    rests: tuple[str, ...] = ()

    def undeclared(self, profile: "Profile") -> str:
        """Return why the scenario does not apply by what a profile declares, "" if it may."""
        needs = self.needs
        for section in needs.sections:
            if getattr(profile, section) is None:
                return f"the profile does not declare `{section}`"
        if needs.further and not tried(profile):
            return NO_FURTHER
        if needs.workload and needs.workload not in profile.workload.declared:
            return undeclared_workload(needs.workload)
        return ""

    def relied(self, profile: "Profile") -> tuple[str, ...]:
        """Return the kind keys whose watches must show that they are current.

        Raises:
            WorkloadError: as `watched`.
        """
        return tuple(key for key in self.watched(profile) if key == "Pod" or key in self.rests)

    def watched(self, profile: "Profile") -> tuple[str, ...]:
        """Return the kind keys that are watched from before it begins.

        Raises:
            WorkloadError: no gang can be written for the declared scheduler.
        """
        needs = self.needs
        if not needs.gang and not needs.queue and not needs.further:
            return self.kinds
        from pytest_gpucluster.workload import dialect  # noqa: PLC0415 (half of it is templates)

        more: list[str] = []
        if needs.gang or needs.queue:
            speaks = dialect.dialect_for(profile.scheduler, profile.queue, profile.workload.kind)
            more += speaks.kinds if needs.gang else speaks.queues
        if needs.queue and profile.kueue is not None and profile.kueue.cluster_queue:
            more += ("ClusterQueue", "LocalQueue", "ResourceFlavor")
        for way in tried(profile) if needs.further else ():
            more += dialect.dialect_for(way.scheduler, profile.queue, way.workload).kinds
        return tuple(dict.fromkeys((*self.kinds, *more)))


class Way(NamedTuple):
    """One way to write a gang.

    Attributes:
        scheduler: what places it.
        workload: as what kind of object it is written.
    """

    scheduler: str
    workload: str = workload_kinds.JOB

    @property
    def title(self) -> str:
        """Return the way as roles, objects and texts name it: the scheduler, with the workload kind before it."""
        return self.scheduler if self.workload == workload_kinds.JOB else f"{self.workload}-{self.scheduler}"


NO_FURTHER = "the profile declares no further way to write a gang (further_schedulers, workload.further)"


def undeclared_workload(kind: str) -> str:
    """Return what is said where the profile declares no such workload kind."""
    return f"the profile does not declare the workload kind {kind} (workload.kind or workload.further)"


def tried(profile: "Profile") -> tuple[Way, ...]:
    """Return the ways to write a gang that TRN-003 tries.

    Those of the further schedulers, and native gangs where they are the main ones; of each further workload kind under
    every declared scheduler that places gangs whole by what nodes have room for.
    """
    main = (profile.scheduler,) if profile.scheduler == schedulers.NATIVE else ()
    ways = [Way(name) for name in (*main, *profile.further_schedulers)]
    declared = [
        name for name in (profile.scheduler, *profile.further_schedulers) if name in schedulers.PLACE_GANGS
    ]
    ways += [
        Way(name, kind)
        for kind in profile.workload.further
        for name in declared
        if workload_kinds.exists(name, kind)
    ]
    return tuple(dict.fromkeys(ways))
