"""What a scenario is played on: the profile, the cluster, the connection, the log, our namespace."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import kinds, objects
from pytest_gpucluster.kube import permissions as rights
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import stale as leaving
from pytest_gpucluster.scenario import steps
from pytest_gpucluster.scenario import together as deletions

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

Obj = dict[str, Any]
Overlay = Callable[[Obj, Any], Obj]


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


def budget(profile: "Profile", name: str) -> float:
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
        most_nodes: how many GPU nodes a scenario may try at most, None for all.
    """

    profile: "Profile"
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
    most_nodes: int | None = None

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
