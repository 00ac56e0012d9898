"""How a gang is written for a scheduler: what each of them tells of itself, and which there are.

A dialect says which object asks for the gang, which kinds tell its story, which gates hold it back and in which order,
what is scarce at the one that holds gangs whole, and how an object shows that the scheduler has looked at it. How a
scheduler's refusals are *read* is on the other side, in `pytest_gpucluster.evidence.scheduling.schedulers`.

A new one (JobSet, KAI, coscheduling) is a module beside `volcano`, a row of `_DIALECTS`, and its rules of reading.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.workload import jobs, kueue, native, plain, volcano
from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError


class Dialect(Protocol):
    """How one scheduler wants a gang written."""

    @property
    def name(self) -> str:
        """Return the name by which a profile declares the scheduler."""

    @property
    def scheduler(self) -> str:
        """Return the schedulerName of its pods."""

    @property
    def queue(self) -> str:
        """Return the queue that its gangs go to, "" where the scheduler has none."""

    @property
    def kind(self) -> str:
        """Return the kind key of the object that asks for a gang."""

    @property
    def mixed(self) -> tuple[str, ...]:
        """Return the kind keys of what we create instead for a gang whose members differ, () for the same."""

    @property
    def queues(self) -> tuple[str, ...]:
        """Return the kind keys of its queues."""

    @property
    def own_queues(self) -> tuple[str, ...]:
        """Return the kind keys of what we create so that its gangs have a queue at all, () where one is lent."""

    @property
    def names_members(self) -> bool:
        """Return whether its plugins give members names, so that no Service of ours is needed."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that tell the gang's story, pods and events included."""

    @property
    def answers_on(self) -> str:
        """Return the kind key of the object on which the scheduler says what it thinks of the gang."""

    @property
    def gates(self) -> tuple[str, ...]:
        """Return the gates between the accepted object and the bind, in order."""

    @property
    def scarce(self) -> str:
        """Return what a gang waits for at the gate that holds gangs whole: capacity or quota."""

    @property
    def index(self) -> str:
        """Return the variable that tells a member which one it is, from 0."""

    @property
    def own_api(self) -> bool:
        """Return whether it has jobs and queues of its own, with policies, commands, minimums of roles and shares."""

    @property
    def places(self) -> bool:
        """Return whether it places pods itself, so that one which does not exist leaves them unplaced."""

    @property
    def served_by_name(self) -> bool:
        """Return whether several of its kind may run under several names: only a pod shows whether ours is served."""

    @property
    def pods_follow(self) -> bool:
        """Return whether pods of a gang are made only once it has been looked at."""

    @property
    def gang_label(self) -> str:
        """Return the label by which pods name their gang."""

    @property
    def component(self) -> str:
        """Return the component whose Deployments and configuration are its own, "" for one of the control plane's."""

    def member_host(self, gang: str, role: str, index: int) -> str:
        """Return the host name of a member below the namespace, as `NAME.SUBDOMAIN`."""

    def runs(self, obj: Mapping[str, Any]) -> bool:
        """Report whether an object of the kind `answers_on` says that the gang runs; True if it never says so."""

    def write(self, spec: GangSpec) -> Manifest:
        """Return the manifest of the object that asks for the gang.

        Raises:
            WorkloadError: when this scheduler cannot express the gang.
        """

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:
        """Return the pods that we make ourselves, () where a controller makes them."""

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether an object of the kind `answers_on` shows that the scheduler has looked at the gang."""


_DIALECTS: Mapping[str, Callable[[str], Dialect]] = {
    schedulers.VOLCANO: lambda queue: volcano.VolcanoDialect(queue=queue),
    schedulers.NATIVE: lambda _: native.NativeDialect(),
    schedulers.KUEUE: lambda queue: kueue.KueueDialect(queue=queue),
    schedulers.DEFAULT: lambda _: plain.DefaultSchedulerDialect(),
}

_ENDED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    names.VC_JOB: volcano.ended,
    names.BATCH_JOB: jobs.ended,
}

DIALECTS = tuple(_DIALECTS)
"""Schedulers that a gang can be written for."""

_MEMBERS: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "Pod": lambda _: 1,
    names.VC_JOB: volcano.members,
    names.BATCH_JOB: jobs.members,
}


def dialect_for(scheduler: str, queue: str = "default") -> Dialect:
    """Return the dialect of a declared scheduler.

    Raises:
        WorkloadError: a scheduler that no dialect is written for; names those that are.
    """
    if scheduler not in _DIALECTS:
        raise WorkloadError(
            f"no way to write a gang for scheduler {scheduler!r}{names.did_you_mean(scheduler, DIALECTS)}"
        )
    return _DIALECTS[scheduler](queue)


def has_ended(kind: str, obj: Mapping[str, Any]) -> bool:
    """Report whether an object that asks for a gang has come to an end that it does not leave; a PodGroup has none."""
    return kind in _ENDED and _ENDED[kind](obj)


def members_of(kind: str, obj: Mapping[str, Any]) -> int:
    """Return how many pods an object asks for.

    Raises:
        WorkloadError: an object of a kind that does not say it.
    """
    if kind not in _MEMBERS:
        raise WorkloadError(f"how many pods a {kind} asks for is not known (known: {', '.join(_MEMBERS)})")
    return _MEMBERS[kind](obj.get("spec") or {})
