"""What every workload kind takes from the scheduler that it is composed with.

A workload kind (JobSet, LeaderWorkerSet ...) says as what object a gang is written; the scheduler's dialect says how
such an object asks for the gang (`Dialect.asking`), which gates hold it, and where the answer stands. A new one is a
subclass of `Over` in a module of its own, a row of `dialect._WORKLOADS`, and its name in `plain.workload_kinds`.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.workload import jobs
from pytest_gpucluster.workload.asking import Asking
from pytest_gpucluster.workload.spec import GangSpec, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpucluster.workload.protocol import Dialect


@dataclasses.dataclass(frozen=True)
class Over:
    """A workload kind over a scheduler's dialect.

    Attributes:
        base: dialect of the scheduler.
        queue: queue that the gangs go to.
        scheduler: schedulerName of the pods.
    """

    base: "Dialect"
    queue: str
    scheduler: str

    workload: ClassVar[str]
    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ()
    """Kind keys of what its controller makes, beside pods."""
    gang_label: ClassVar[str]
    names_members: ClassVar[bool] = True
    index: ClassVar[str] = jobs.INDEX
    mixed: ClassVar[tuple[str, ...]] = ()
    own_api: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Return the name by which a profile declares the scheduler."""
        return self.base.name

    @property
    def queues(self) -> tuple[str, ...]:
        """Return the kind keys of the scheduler's queues."""
        return self.base.queues

    @property
    def own_queues(self) -> tuple[str, ...]:
        """Return the kind keys of what we create so that gangs have a queue at all."""
        return self.base.own_queues

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that tell the gang's story: its own, what it is made of, and the scheduler's."""
        others = (key for key in self.base.kinds if key != self.base.kind)
        return tuple(dict.fromkeys(("Pod", self.kind, *self.parts, *others)))

    @property
    def companions(self) -> tuple[str, ...]:
        """Return the kind keys of what we create before the object."""
        return (self.group_kind,) if self.group_kind else ()

    @property
    def group_kind(self) -> str:
        """Return the kind key of the PodGroup that the object needs beside it, "" for none."""
        return self.base.group_kind

    @property
    def answers_on(self) -> str:
        """Return the kind key of the object on which the scheduler says what it thinks of the gang."""
        return self.base.answers_on

    @property
    def gates(self) -> tuple[str, ...]:
        """Return the gates between the accepted object and the bind, in order."""
        return self.base.gates

    @property
    def scarce(self) -> str:
        """Return what a gang waits for at the gate that holds gangs whole."""
        return self.base.scarce

    @property
    def places(self) -> bool:
        """Return whether the scheduler places pods itself."""
        return self.base.places

    @property
    def served_by_name(self) -> bool:
        """Return whether several schedulers of its kind may run under several names."""
        return self.base.served_by_name

    @property
    def pods_follow(self) -> bool:
        """Return whether pods are made only once the gang was looked at: if it is suspended until its quota is there.

        Only the scheduler's own jobs wait at another gate before they have pods.
        """
        return self.base.scarce == schedulers.QUOTA

    @property
    def component(self) -> str:
        """Return the component whose Deployments and configuration are the scheduler's."""
        return self.base.component

    def asking(self, spec: GangSpec) -> Asking:
        """Return how the object asks the scheduler for the gang.

        Raises:
            WorkloadError: the scheduler cannot be asked for such a gang.
        """
        return dataclasses.replace(self.base, queue=self.queue, scheduler=self.scheduler).asking(spec)  # type: ignore[type-var]

    def before(self, spec: GangSpec) -> tuple[Manifest, ...]:
        """Return the PodGroup that must be there before the object, () where the scheduler needs none."""
        group = self.asking(spec).group
        return () if group is None else (group,)

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002 (the controller makes them)
        """Return none: the controller of the workload kind makes the pods."""
        return ()

    def runs(self, obj: "Mapping[str, Any]") -> bool:
        """Report whether the object on which the scheduler answers says that the gang runs."""
        return self.base.runs(obj)

    def looked_at(self, obj: "Mapping[str, Any]") -> bool:
        """Report whether that object shows that the scheduler has looked at the gang."""
        return self.base.looked_at(obj)
