"""What a scenario is played on: the profile, the cluster, the connection, the log, our namespace."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import kinds, objects
from pytest_gpucluster.kube import permissions as rights
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import stale as leaving
from pytest_gpucluster.scenario import steps
from pytest_gpucluster.scenario import together as deletions

Obj = dict[str, Any]
Overlay = Callable[[Obj, Any], Obj]


class ProfileLike(Protocol):
    """What the scenario layer reads of a profile."""

    @property
    def name(self) -> str:
        """Return the profile's name."""

    @property
    def scheduler(self) -> str:
        """Return the declared scheduler."""

    @property
    def queue(self) -> str:
        """Return the declared queue."""

    @property
    def gpu_resource(self) -> str:
        """Return the resource name of GPUs."""

    @property
    def gpus_per_node(self) -> int:
        """Return how many GPUs a node has."""

    @property
    def scheduler_period(self) -> float:
        """Return the scheduler's period in seconds."""

    @property
    def window(self) -> float:
        """Return the shortest window of a "never", in seconds."""

    @property
    def bind_spread(self) -> float | None:
        """Return the declared bound between the first and the last bind of a gang, in seconds."""

    @property
    def start_spread(self) -> float | None:
        """Return the declared bound between the start of a gang's first and last needed member, in seconds."""

    @property
    def recovery(self) -> float | None:
        """Return the declared bound from a lost slot's return to a whole gang, in seconds."""

    @property
    def budgets(self) -> Mapping[Any, float]:
        """Return the named budgets in seconds."""

    @property
    def slots(self) -> bool:
        """Return whether slots may be put on nodes."""

    @property
    def overlay(self) -> Any:
        """Return the pod overlay."""

    @property
    def versions(self) -> Mapping[Any, tuple[str, ...]]:
        """Return the support matrix: component -> ranges of versions."""

    @property
    def namespaces(self) -> Mapping[Any, str]:
        """Return the namespaces of components that are not where they are usually installed."""

    @property
    def interface(self) -> str | None:
        """Return the declared network interface of members without GPUs."""

    @property
    def secondary(self) -> Any:
        """Return what is declared of a second interface of pods, None for nothing."""

    @property
    def pool_label(self) -> str | None:
        """Return the label that tells pools of nodes apart, None for the usual ones."""


class ClusterLike(Protocol):
    """What the scenario layer reads of a cluster."""

    @property
    def name(self) -> str:
        """Return the cluster's name."""

    @property
    def kubeconfig(self) -> Any:
        """Return the path of the kubeconfig."""

    @property
    def context(self) -> str | None:
        """Return the context, None for the file's current one."""

    @property
    def features(self) -> frozenset[str]:
        """Return what the cluster can do, such as `pods-run`."""


class Sealed(Protocol):
    """A round of proofs that has come back, or not."""

    def seal(self, t: float) -> None:
        """Let what is covered go on to `t`, in seconds of the session."""


class Unasked:
    """No proof: nothing was asked of the watches, so that nothing they did not say counts."""

    def seal(self, t: float) -> None:
        """Leave everything as it is."""


def budget(profile: ProfileLike, name: str) -> float:
    """Return a budget of a profile by name, in seconds.

    Raises:
        ValueError: no such budget; names the nearest.
    """
    known: Mapping[str, float] = {str(key): value for key, value in profile.budgets.items()}
    if name not in known:
        raise ValueError(f"unknown budget {name!r}{names.did_you_mean(name, known)}")
    return float(known[name])


@dataclasses.dataclass(frozen=True)
class Site:
    """Everything that the stages of one session share.

    Attributes:
        profile: what is declared of the cluster.
        cluster: the cluster.
        api: the verbs.
        log: the session's log.
        clock: the one clock.
        namespace: where everything of ours is made.
        run_id: the run, as a label value.
        worker: the worker of the run.
        expires: RFC 3339 time after which anybody may remove what is ours.
        overlay: puts the profile's overlay onto a manifest's pods.
        follow: watches one more kind; returns once it is in sync or known not to be served.
        ours: whether the namespace is ours, so that its removal takes what lies in it.
        prove: lets the watches of some kinds show that they are current, for a scenario (`proofs.Prover.prove`).
        together: which kinds may be deleted several at a time.
        stale: slots of scenarios that are over.
        tell: takes what a scenario is doing.
    """

    profile: ProfileLike
    cluster: ClusterLike
    api: objects.Objects
    log: logs.SessionLog
    clock: clocks.Clock
    namespace: str
    run_id: str
    worker: str
    expires: str
    overlay: Overlay
    follow: Callable[[kinds.KindInfo], None]
    ours: bool = True
    prove: Callable[[str, Sequence[str]], Sealed] = lambda _scenario, _kinds: Unasked()
    together: deletions.Together = dataclasses.field(
        default_factory=lambda: deletions.Together(rights.Rights(None))
    )
    stale: leaving.Stale = dataclasses.field(default_factory=leaving.Stale)
    tell: steps.Tell = steps.silent

    def budget(self, name: str) -> float:
        """Return a named budget in seconds.

        Raises:
            ValueError: no such budget.
        """
        return budget(self.profile, name)

    def labels(self, scenario: str, role: str) -> dict[str, str]:
        """Return the labels of what a scenario creates."""
        return {
            names.LABEL_RUN: self.run_id,
            names.LABEL_SCENARIO: scenario,
            names.LABEL_ROLE: names.safe_name(role),
        }


def short_run(run_id: str) -> str:
    """Return the part of a run id that differs between runs: its last word if that is long enough, else its end."""
    whole = names.safe_name(run_id)
    word = whole.rpartition("-")[2]
    return word[-12:] if len(word) >= 6 else whole[-12:].strip("-")


def slot_resource(scenario: str, run_id: str) -> str:
    """Return the slot resource of a scenario: private to it and to the run, so that runs never share one."""
    tail = short_run(run_id)
    return f"{names.SLOT_PREFIX}{names.safe_name(scenario, limit=62 - len(tail))}.{tail}"
