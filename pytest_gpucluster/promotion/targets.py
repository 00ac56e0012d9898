"""The queue that a promotion is about: which of the schedulers' kinds it is, and whether it takes work."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.acceptance import queues
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.kube import errors, kinds, objects
from pytest_gpucluster.plain import names, schedulers

Obj = dict[str, Any]

WORDS = {"queue": queues.VOLCANO, "clusterqueue": queues.KUEUE}
"""What may stand before the name, as in `clusterqueue/team` -> the kind."""
_OWNERS = {queues.VOLCANO: "Volcano", queues.KUEUE: "Kueue"}
OPEN = "Open"
NO_POLICY = ("", "None")


class NotFoundError(errors.GpuClusterError):
    """No queue is meant by the words, or more than one; the text is one line."""


class Refused(errors.GpuClusterError):
    """The queue was not opened, or not closed; the text is one line and says why."""


class Gone(Refused):
    """The queue was deleted meanwhile; the text is one line."""

    def __init__(self, target: "Target") -> None:
        """Take the queue as it was."""
        super().__init__(f"{target.title} is gone: it was deleted while it was being promoted")


@dataclasses.dataclass(frozen=True)
class Target:
    """A queue of the cluster as it was read.

    Attributes:
        info: its kind.
        obj: the object.
    """

    info: kinds.KindInfo
    obj: Obj

    @property
    def kind(self) -> str:
        """Return its kind."""
        return self.info.kind

    @property
    def name(self) -> str:
        """Return its name."""
        return fields.text(self.obj, "metadata", "name")

    @property
    def title(self) -> str:
        """Return kind and name, for texts."""
        return f"{self.kind}/{self.name}"

    @property
    def queue(self) -> queues.Queue:
        """Return what is compared with a run."""
        return queues.of_object(self.kind, self.obj)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Return its annotations."""
        return fields.sub(self.obj, "metadata", "annotations")

    @property
    def version(self) -> str:
        """Return its resourceVersion."""
        return fields.text(self.obj, "metadata", "resourceVersion")

    @property
    def policy(self) -> str:
        """Return the stop policy of a ClusterQueue, "" for none."""
        policy = fields.text(self.obj, "spec", queues.SWITCH)
        return "" if policy in NO_POLICY else policy

    @property
    def open(self) -> bool:
        """Report whether it takes work."""
        if self.kind == queues.VOLCANO:
            return fields.text(self.obj, "status", "state") == OPEN
        return not self.policy and fields.text(fields.condition(self.obj, "Active"), "status") == "True"

    @property
    def state(self) -> str:
        """Return its state in words: those of its scheduler."""
        if self.kind == queues.VOLCANO:
            return fields.text(self.obj, "status", "state") or "without a state"
        if self.policy:
            return f"stopped (stopPolicy {self.policy})"
        active = fields.condition(self.obj, "Active")
        if fields.text(active, "status") == "True":
            return "Active"
        why = fields.text(active, "message") or "no condition Active yet"
        return f"not Active: {why}"

    def as_now(self, obj: Obj) -> "Target":
        """Return the same queue as it is now."""
        return dataclasses.replace(self, obj=obj)


def find(api: objects.Objects, word: str, profile: Any) -> Target:
    """Return the queue that is meant, by what the profile declares and by what there is.

    Args:
        api: the verbs.
        word: its name, or `queue/NAME` and `clusterqueue/NAME`.
        profile: the profile (`profile.Profile`).

    Raises:
        NotFoundError: no such queue, or one of each kind.
        Refused: it may not be read.
        EnvironmentProblem: the API server does not answer.
    """
    named, _, name = word.rpartition("/")
    if named and named.lower() not in WORDS:
        raise NotFoundError(f"{word!r}: {named!r} is no kind of queue{names.did_you_mean(named, WORDS)}")
    if not name:
        raise NotFoundError("the name of the queue is empty")
    wanted = (WORDS[named.lower()],) if named else tuple(declared(profile))
    if not wanted:
        raise NotFoundError(
            f"the profile {profile.name} declares no scheduler with queues (scheduler {profile.scheduler}, no `kueue`)"
        )
    found = [target for kind in wanted if (target := _read(api, kind, name)) is not None]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(_missing(api, wanted, name))
    meant = [target for target in found if target.name in names_of(profile, target.kind)]
    if len(meant) != 1:
        raise NotFoundError(
            f"{name!r} is a Queue of Volcano and a ClusterQueue of Kueue: say queue/{name} or clusterqueue/{name}"
        )
    return meant[0]


def declared(profile: Any) -> Iterator[str]:
    """Yield the kinds of queues that the profile declares."""
    if schedulers.VOLCANO in (profile.scheduler, *profile.further_schedulers):
        yield queues.VOLCANO
    if profile.kueue is not None:
        yield queues.KUEUE


def names_of(profile: Any, kind: str) -> set[str]:
    """Return the names of the queues of a kind that the profile declares."""
    behind = getattr(profile.kueue, "cluster_queue", None)
    if kind == queues.KUEUE:
        return (
            {str(behind)} if behind else {profile.queue} if profile.scheduler == schedulers.KUEUE else set()
        )
    return {profile.queue} if profile.scheduler == schedulers.VOLCANO else set()


def _read(api: objects.Objects, kind: str, name: str) -> Target | None:
    info = objects.table_row(kind)
    try:
        return Target(info, api.get(info, name))
    except errors.ApiError as error:
        if error.code == 404:
            return None
        raise refusal(error, f"{kind}/{name} cannot be read") from error


def refusal(error: errors.ApiError, what: str) -> Refused:
    """Return an answer of the API server as the reason why nothing was opened."""
    hint = "; grant it, see docs/how-to/promote-a-queue.md" if error.denied else ""
    return Refused(f"{what}: {' '.join(str(error).split())}{hint}")


def _missing(api: objects.Objects, wanted: tuple[str, ...], name: str) -> str:
    """Say that there is no such queue, and what there is."""
    served: list[str] = []
    there: list[str] = []
    for kind in wanted:
        try:
            there += [fields.text(each, "metadata", "name") for each in api.list(objects.table_row(kind))]
            served.append(kind)
        except errors.ApiError as error:
            if error.code != 404:
                served.append(kind)
    if not served:
        owners = " and no ".join(f"{kind} (is {_OWNERS[kind]} installed?)" for kind in wanted)
        return f"the API serves no {owners}"
    near = names.did_you_mean(name, sorted(there)) if there else ""
    return f"there is no {' and no '.join(served)} {name!r}{near}"
