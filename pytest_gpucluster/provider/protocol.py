"""What a provider is and what it hands out."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pytest_gpucluster.profile import LoadedProfile

PODS_RUN = "pods-run"
"""Feature: containers of pods are executed, so that payloads, exit codes and logs can be judged."""

REBOOT = "reboot"
"""Feature: nodes can be restarted (`provider.power`)."""

ONE_MACHINE = "one-machine"
"""Feature: the GPUs are real and all in one machine, whatever nodes are made of it."""

START_LIMIT = 120.0
"""Seconds that a process waits for another one that is starting a cluster of processes."""

CLUSTER_FILE = "cluster.json"
"""File of a run's folder by which its processes find the cluster."""


class ProviderError(Exception):
    """A cluster that could not be had; the text is one line and says why."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster that answers.

    Attributes:
        name: name of the profile.
        provider: name of the provider.
        kubeconfig: absolute path of the kubeconfig file.
        context: context in it.
        features: what it can do, see `PODS_RUN`.
        facts: what is known about it, plain data: `versions`, `nodes`, `url`, `pods_run_problem` ...
        images: role of a payload (`python`, `torch`) -> image that a pod names.
    """

    name: str
    provider: str
    kubeconfig: str
    context: str
    features: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def pods_run(self) -> bool:
        """Report whether containers are executed."""
        return PODS_RUN in self.features

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for `cluster.json` and the record."""
        data = dataclasses.asdict(self)
        data["features"] = sorted(self.features)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Cluster":
        """Return the cluster that `as_dict` described."""
        known = {field.name for field in dataclasses.fields(cls)}
        own = {key: value for key, value in data.items() if key in known}
        return cls(**{**own, "features": frozenset(data.get("features", ()))})


@dataclasses.dataclass(frozen=True)
class Running:
    """A process that belongs to a cluster, known well enough to end it from another process.

    Attributes:
        role: `control plane` or `nodes`.
        pid: its process id.
        born: start time in clock ticks since boot (field 22 of /proc/PID/stat), which tells a pid from its reuse.
        log: path of its log.
    """

    role: str
    pid: int
    born: int
    log: str


@dataclasses.dataclass(frozen=True)
class Started:
    """What a provider started.

    Attributes:
        cluster: the cluster.
        running: its processes, in the order in which they were started.
        folder: a folder to remove when they have ended, or None.
        undo: what the provider needs to remove the cluster, in whichever process; None when it stays.
    """

    cluster: Cluster
    running: tuple[Running, ...] = ()
    folder: str | None = None
    undo: Mapping[str, str] | None = None


class Provider(Protocol):
    """How one kind of cluster is had. A provider holds no state: what it started is in `Started`."""

    @property
    def start_limit(self) -> float:
        """Return the seconds that a process waits for another one of the run that is starting the cluster."""

    @property
    def real(self) -> bool:
        """Return whether the cluster outlives the run with all that is not removed from it."""

    def completed(self, loaded: LoadedProfile) -> LoadedProfile:
        """Return a profile with what only the place of the cluster can tell.

        Raises:
            ProviderError: the place does not tell it.
        """

    def kept(self, loaded: LoadedProfile, run_folder: Path, *, asked: bool) -> str:
        """Return what stays after a run and how it is removed, "" for nothing.

        Args:
            loaded: the profile.
            run_folder: where `cluster.json` lies, while it is there.
            asked: somebody asked for it (`--gpucluster-keep`).
        """

    def undo(self, undo: Mapping[str, str]) -> str:
        """Remove a cluster that `Started.undo` describes; return what could not be removed, "" if all went."""

    def verify(self, loaded: LoadedProfile) -> None:
        """Raise ProviderError when the profile cannot lead to a cluster; touches no cluster."""

    def start(
        self, loaded: LoadedProfile, run_folder: Path, *, defects: Sequence[str], owner_pid: int
    ) -> "tuple[Started, Sequence[Any]]":
        """Have the cluster; the second part is what must be kept open in this process."""


class EndsWithRun:
    """What providers have in common whose cluster is made of processes that end with the run."""

    start_limit = START_LIMIT
    real = False

    def kept(self, loaded: LoadedProfile, run_folder: Path, *, asked: bool) -> str:
        """Return that nothing stays, if anybody asked for it."""
        del loaded, run_folder
        return "nothing: the embedded cluster ends with its run" if asked else ""

    def undo(self, undo: Mapping[str, str]) -> str:
        """Nothing but processes was started."""
        del undo
        return ""
