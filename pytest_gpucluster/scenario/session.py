"""A session: one worker's connection, namespace, watches and scenarios, from the first that runs to the cleanup."""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import errors
from pytest_gpucluster.provider import defects
from pytest_gpucluster.provider.protocol import PODS_RUN
from pytest_gpucluster.scenario import (
    cluster_lease,
    connecting,
    ending,
    evidence_header,
    not_applicable,
    openstage,
    slots,
    spec,
    stage,
    steps,
)
from pytest_gpucluster.scenario import namespace as namespaces
from pytest_gpucluster.scenario import permissions as granted
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import slice as slices
from pytest_gpucluster.scenario import store as stores
from pytest_gpucluster.workload import spec as gangs

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

FREEZE_SECONDS = 5.0
"""Seconds that freezing waits for a watch that is just being renewed."""


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@dataclasses.dataclass(frozen=True)
class _Playing:
    """A scenario that has begun: where, which, the first line of its log, and the requests before it."""

    site: sites.Site
    scenario: spec.Scenario
    first: int
    asked: Mapping[str, int]


class Session(connecting.Connecting):
    """Runs scenarios and hands out their evidence; use it as a context manager.

    Nothing is asked of the cluster before the first scenario that really runs: a worker that only loads evidence
    makes no request, no namespace and no watch.

    Attributes:
        left_overs: what cleanup could not remove, of all scenarios so far and, after exit, of the session.
        proof: after exit: how it is known that nothing is left, a line each.
    """

    def __init__(
        self,
        cluster: sites.ClusterLike,
        profile: "Profile",
        store: stores.RunStore,
        *,
        worker: str = "main",
        clock: clocks.Clock | None = None,
        overlay: sites.Overlay | None = None,
        keep: bool = False,
        say: Callable[[str], None] = _say,
        tell: steps.Tell = steps.silent,
        most_nodes: int | None = None,
    ) -> None:
        """Prepare a session.

        Args:
            cluster: the cluster.
            profile: what is declared of it.
            store: the run's folder.
            worker: name of the worker, part of the namespace's name.
            clock: the one clock; tests replace it.
            overlay: puts the profile's overlay on pods; None for `workload.overlay.apply_overlay`.
            keep: leave the namespace and the objects of scenarios where they are, to look at them.
            say: takes the one line that an interrupted cleanup says.
            tell: takes what is being done, step by step.
            most_nodes: how many GPU nodes a scenario may try at most, None for all.
        """
        super().__init__(
            cluster, profile, store, worker=worker, clock=clock, overlay=overlay, say=say, tell=tell
        )
        self._most_nodes = most_nodes
        self.left_overs: list[errors.LeftOver] = []
        self.proof: tuple[str, ...] = ()
        self._ran: dict[str, spec.Scenario] = {}
        self._keep = keep
        self._standing: stage.Stage | None = None
        self._interrupted = False

    def __enter__(self) -> Self:
        """Return the session; it connects when the first scenario runs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the namespace, wait until it is gone, end the watches; see `left_overs`."""
        self.close()

    def evidence(self, scenario: spec.Scenario) -> Evidence:
        """Return the evidence of a scenario, which runs if nobody in the run has run it.

        Trouble of the environment does not raise: the evidence's header has `problem` with verdict and text.
        """
        return self._store.evidence_for(scenario.name, lambda: self._run(scenario))

    def close(self) -> None:
        """Clean up; once, bounded by the budget `delete`, or not at all after a second Ctrl-C."""
        try:
            if self._home is not None and not self._interrupted and not self._keep:
                home, self._home = self._home, None
                self._tell("", "removes what the run made", self._budget("delete"))
                if self._prover is not None and not home.made:
                    self._prover.remove()
                left = home.remove(self._budget("delete"))
                if home.made and not left:
                    # The namespace is gone, and with it whatever of ours was slow to go.
                    self.left_overs = [item for item in self.left_overs if item.namespace != home.name]
                self.left_overs += left
                if self._site is not None:
                    self.left_overs += slots.remove_stale(self._site)
                    self._prove_end(self._site, home, removed=home.made and not left)
            if self._turn is not None:
                # Last: what we leave would disturb whoever comes next.
                self.left_overs += self._turn.give_back()
        except KeyboardInterrupt:
            self._abandon()
            raise
        finally:
            self._end_watches()

    def _prove_end(self, site: sites.Site, home: namespaces.Namespace, *, removed: bool) -> None:
        """Ask the cluster once more what is left."""
        found = ending.look(site.api, site.log, home, self._rights, self._ran, removed=removed)
        self.proof = found.lines
        known = {(item.kind, item.name) for item in self.left_overs}
        self.left_overs += [item for item in found.left if (item.kind, item.name) not in known]

    def check_clean(self) -> None:
        """Raise when something of ours was left; for scripts, after the session was closed.

        Raises:
            CleanupFailed: names what is left and the command that removes it.
        """
        if self.left_overs:
            raise errors.CleanupFailed(tuple(self.left_overs), self._store.run_id)

    # -- one scenario ------------------------------------------------------------------------------------------------

    def _run(self, scenario: spec.Scenario) -> slices.Slice:
        try:
            site = self._open()
            self._take_turn(scenario)
        except errors.EnvironmentProblem as error:
            return slices.Slice(
                self._header(scenario, {}, evidence_header.problem("environment", error)), (), ()
            )
        self._check_nested(scenario)
        self._ran[scenario.name] = scenario
        self._tell(scenario.name, "waits for other scenarios of the run", None)
        with self._holding(scenario):
            self._tell(scenario.name, "begins", None)
            playing = _Playing(site, scenario, site.log.mark(), self._asked())
            made = stage.Stage(site, scenario.name, self._watched(scenario), self._relied(scenario))
            problem = self._play(site, scenario, made)
            return self._end(playing, made, problem)

    @contextlib.contextmanager
    def open_stage(self, scenario: spec.Scenario) -> Iterator[openstage.OpenStage]:
        """Put up a stage on which the caller acts; on leaving, clean up and save the evidence.

        The scenario is what the caller declares of itself: its `run` is not called. One stage stands at a time.

        Raises:
            EnvironmentProblem, NotApplicable, WorkloadError: nothing can be done on this cluster; nothing was made.
        """
        site = self._open()
        self._take_turn(scenario)
        self._ran[scenario.name] = scenario
        with self._holding(scenario):
            playing = _Playing(site, scenario, site.log.mark(), self._asked())
            made = openstage.OpenStage(
                site,
                scenario.name,
                self._watched(scenario),
                lambda stage: self._end(playing, stage, None),
                self._relied(scenario),
            )
            problem: dict[str, Any] | None = None
            self._standing = made
            try:
                self._begin(site, scenario)
                yield made
                made.finish()
            except Exception as error:
                problem = evidence_header.problem_of(error)
                raise
            finally:
                self._standing = None
                made.leave()
                self._clean(site, scenario, made)
                self._store.save(scenario.name, self._end(playing, made, problem))

    @contextlib.contextmanager
    def own_namespace(self, name: str) -> Iterator[namespaces.Namespace]:
        """Make a namespace of the run beside the session's, and remove it when the caller leaves.

        Args:
            name: what tells it from the run's others; becomes part of its name.

        Raises:
            EnvironmentProblem: namespaces may not be made.
        """
        site = self._open()
        self._check_rights(granted.of_session(None), "a test's own namespace")
        made = namespaces.make(
            site.api, site.log, run_id=site.run_id, worker=f"{site.worker}-{name}", expires=site.expires
        )
        try:
            yield made
        finally:
            if not self._keep:
                self.left_overs += made.remove(self._budget("delete"))

    def _holding(self, scenario: spec.Scenario) -> contextlib.AbstractContextManager[None]:
        return self._store.turn(alone=scenario.needs.alone, gpus=scenario.needs.gpus > 0)

    def _check_nested(self, scenario: spec.Scenario) -> None:
        """Refuse to wait for a turn that the caller itself holds.

        Raises:
            StageStands: the scenario cannot run beside the stage that stands.
        """
        if self._standing is not None and (scenario.needs.alone or scenario.needs.gpus):
            raise openstage.StageStands(
                f"scenario {scenario.name} cannot run while the stage of {self._standing.name} is open: ask for "
                "its evidence in a test that does not use stage or run_payload"
            )

    def _end(self, playing: "_Playing", made: stage.Stage, problem: dict[str, Any] | None) -> slices.Slice:
        """Return what was seen since a scenario began as its evidence."""
        site, scenario, before = playing.site, playing.scenario, playing.asked
        if site.log.unwritable is not None:
            raise site.log.unwritable  # no evidence is better than one with holes that nobody sees
        if (
            problem is None
            and self._turn is not None
            and self._turn.lost
            and cluster_lease.disturbs(scenario)
        ):
            # Somebody else may have been on the cluster at the same time.
            problem = evidence_header.problem("environment", self._turn.lost)
        asked = {k: n - before.get(k, 0) for k, n in self._asked().items() if n > before.get(k, 0)}
        header = self._header(scenario, evidence_header.given(made), problem, asked)
        return self._freeze(site, scenario, made, playing.first, header)

    def _asked(self) -> Mapping[str, int]:
        """Return the requests so far, `verb kind` -> how many."""
        found = self.requests.get("requests")
        return found if isinstance(found, dict) else {}

    def _play(self, site: sites.Site, scenario: spec.Scenario, made: stage.Stage) -> dict[str, Any] | None:
        """Run a scenario to its end and clean up after it; return what kept it from its end, if anything did."""
        problem: dict[str, Any] | None = None
        try:
            self._begin(site, scenario)
            scenario.run(made)
            made.finish()
        except Exception as error:
            if isinstance(error, OSError) and site.log.unwritable is None:
                raise
            problem = evidence_header.problem_of(error)
        finally:
            made.leave()
            self._clean(site, scenario, made)
        return problem

    def _clean(self, site: sites.Site, scenario: spec.Scenario, made: stage.Stage) -> None:
        self._tell(scenario.name, "removes what it made", self._budget("delete"))
        try:
            left = [] if self._keep else made.stack.run(self._budget("delete"))
        except KeyboardInterrupt:
            self._abandon()
            raise
        made.close()
        for item in left:
            made.note("left-over", kind=item.kind, name=item.name, why=item.why)
        self.left_overs += left
        # Only what is watched can come in sync again: a scenario that was refused has begun nothing.
        watched = tuple(key for key in self._watched(scenario) if key in self._watches)
        site.log.until(lambda: site.log.in_sync_now(watched), FREEZE_SECONDS)

    def _watched(self, scenario: spec.Scenario) -> tuple[str, ...]:
        """Return the kinds of a scenario that could begin; of one that could not its own."""
        try:
            return scenario.watched(self._profile)
        except gangs.WorkloadError:
            return scenario.kinds

    def _relied(self, scenario: spec.Scenario) -> tuple[str, ...]:
        """Return the kinds of a scenario of which a "never" may be said; of one that could not begin none."""
        try:
            return scenario.relied(self._profile)
        except gangs.WorkloadError:
            return ()

    def _freeze(
        self, site: sites.Site, scenario: spec.Scenario, made: stage.Stage, first: int, header: dict[str, Any]
    ) -> slices.Slice:
        return slices.cut(
            site.log.entries(),
            site.log.spans(),
            scenario=scenario.name,
            first=first,
            end=site.log.now(),
            seeds=[handle.uid for handle in made.handles],
            context=frozenset(made.context),
            header=header,
            horizon=made.horizon,
        )

    def _header(
        self,
        scenario: spec.Scenario,
        given: dict[str, Any],
        problem: dict[str, Any] | None,
        asked: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        source = {
            "run": self._store.run_id,
            "worker": self._worker,
            **({"cluster_uid": self._cluster_uid} if self._cluster_uid else {}),
            "requests": self.requests["total"],
            "asked": dict(asked or {}),
            # Evidence of a cluster that is wrong on purpose says so wherever it is read.
            **defects.fact(getattr(self._cluster, "facts", {}).get(defects.FACT, ())),
        }
        where = (self._profile, self._cluster, self.namespace or "")
        return evidence_header.header(scenario.name, where, source, given, problem)

    def _begin(self, site: sites.Site, scenario: spec.Scenario) -> None:
        """Watch what a scenario needs; a kind that the API does not serve is recorded, and has no coverage.

        Raises:
            NotApplicable: the profile declares nodes on which no pod runs, or not what the scenario is about.
            WorkloadError: the declared scheduler is one that no gang can be written for.
            EnvironmentProblem: pods do not run on this cluster and the scenario needs them to, or something that it
                will ask for is not permitted.
        """
        undeclared = scenario.undeclared(self._profile)
        if undeclared:
            raise not_applicable.NotApplicable(undeclared)
        if scenario.needs.pods_run and PODS_RUN not in self._cluster.features:
            facts = getattr(self._cluster, "facts", {})
            if self._profile.nodes == "simulated":
                raise not_applicable.NotApplicable(
                    "the profile sets nodes: simulated, but this row needs pods that run"
                )
            raise errors.EnvironmentProblem(
                str(facts.get("pods_run_problem") or "pods do not run on this cluster")
            )
        lent = None if site.ours else site.namespace
        wanted = granted.of_scenario(scenario, self._profile, namespace=lent)
        self._check_rights(wanted, f"the scenario {scenario.name}")
        keys = scenario.watched(self._profile)
        wanted_kinds = [site.api.info_of_key(key) for key in keys]
        self._watches.follow(site.api, site.log, site.namespace, wanted_kinds)
        for key in keys:
            problem = site.log.problems.get(key)
            if isinstance(problem, errors.ApiError):
                answer = {"code": problem.code, "status": dict(problem.body)}
                site.log.add(
                    "RESPONSE", scenario.name, {"request": f"list {key}", "case": f"api:{key}", **answer}
                )

    def _abandon(self) -> None:
        self._interrupted = True
        self._say(
            f"cleanup was interrupted; remove what is left with: gpucluster cleanup --run {self._store.run_id}"
        )
