"""What a dialect tells of itself: how one scheduler wants a gang written, perhaps as one workload kind."""

from collections.abc import Mapping
from typing import Any, Protocol

from pytest_gpucluster.workload.asking import Asking
from pytest_gpucluster.workload.spec import GangSpec, Manifest


class Dialect(Protocol):
    """How one scheduler wants a gang written."""

    @property
    def name(self) -> str:
        """Return the name by which a profile declares the scheduler."""

    @property
    def workload(self) -> str:
        """Return the workload kind as which it writes gangs, as a profile declares it."""

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
    def companions(self) -> tuple[str, ...]:
        """Return the kind keys of what we create before the object, () for nothing."""

    @property
    def group_kind(self) -> str:
        """Return the kind key of the PodGroup that an object of another API needs beside it, "" for none."""

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

    def asking(self, spec: GangSpec) -> Asking:
        """Return how an object of another API (a JobSet ...) asks this scheduler for the gang.

        Raises:
            WorkloadError: this scheduler cannot be asked for such a gang.
        """

    def before(self, spec: GangSpec) -> tuple[Manifest, ...]:
        """Return what must be there before the object, () for nothing."""

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:
        """Return the pods that we make ourselves, () where a controller makes them."""

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether an object of the kind `answers_on` shows that the scheduler has looked at the gang."""
