"""A session: one worker's connection, namespace, watches and scenarios, from the first that runs to the cleanup."""

import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, kinds, objects, watch
from pytest_gpucluster.kube import permissions as rights
from pytest_gpucluster.plain import names, times
from pytest_gpucluster.provider import defects
from pytest_gpucluster.provider.protocol import PODS_RUN
from pytest_gpucluster.scenario import absent, outcome, spec, stage, turns
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import namespace as namespaces
from pytest_gpucluster.scenario import permissions as granted
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import slice as slices
from pytest_gpucluster.scenario import store as stores
from pytest_gpucluster.workload import spec as gangs

EXPIRES_AFTER = 2 * 3600.0
"""Seconds after which `gpucluster cleanup` may take what is ours without asking which run it is."""
SYNC_SECONDS = 20.0
"""Seconds in which watches must be in sync before a scenario begins."""
TURN_SECONDS = 60.0
"""Seconds that another run is waited for where the profile has no budget `lease`."""
FREEZE_SECONDS = 5.0
"""Seconds that freezing waits for a watch that is just being renewed."""


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class Session:
    """Runs scenarios and hands out their evidence; use it as a context manager.

    Nothing is asked of the cluster before the first scenario that really runs: a worker that only loads evidence
    makes no request, no namespace and no watch.

    Attributes:
        left_overs: what cleanup could not remove, of all scenarios so far and, after exit, of the session.
    """

    def __init__(
        self,
        cluster: sites.ClusterLike,
        profile: sites.ProfileLike,
        store: stores.RunStore,
        *,
        worker: str = "main",
        clock: clocks.Clock | None = None,
        overlay: sites.Overlay | None = None,
        keep: bool = False,
        say: Callable[[str], None] = _say,
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
        """
        self.left_overs: list[errors.LeftOver] = []
        self._cluster = cluster
        self._profile = profile
        self._store = store
        self._worker = worker
        self._clock = clock or clocks.RealClock()
        self._overlay = overlay
        self._keep = keep
        self._say = say
        self._connection: connections.Connection | None = None
        self._log: logs.SessionLog | None = None
        self._site: sites.Site | None = None
        self._home: namespaces.Namespace | None = None
        self._watches: dict[str, watch.KindWatch] = {}
        self._turn: turns.Turn | None = None
        self._occupied: errors.EnvironmentProblem | None = None
        self._rights = rights.Rights(None)
        self._refused: errors.EnvironmentProblem | None = None
        self._interrupted = False

    def __enter__(self) -> Self:
        """Return the session; it connects when the first scenario runs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the namespace, wait until it is gone, end the watches; see `left_overs`."""
        self.close()

    @property
    def namespace(self) -> str | None:
        """Return the session's namespace, None before the first scenario ran."""
        return self._site.namespace if self._site is not None else None

    @property
    def requests(self) -> dict[str, object]:
        """Return how many requests were made (`RequestCounter.summary`)."""
        return self._connection.counter.summary() if self._connection is not None else {"total": 0}

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
                left = home.remove(self._budget("delete"))
                if home.made and not left:
                    # The namespace is gone, and with it whatever of ours was slow to go.
                    self.left_overs = [item for item in self.left_overs if item.namespace != home.name]
                self.left_overs += left
            if self._turn is not None:
                # Last: what we leave would disturb whoever comes next.
                self.left_overs += self._turn.give_back()
        except KeyboardInterrupt:
            self._abandon()
            raise
        finally:
            self._end_watches()

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
            return slices.Slice(self._header(scenario, {}, outcome.problem("environment", error)), (), ())
        needs = scenario.needs
        with self._store.turn(alone=needs.alone, gpus=needs.gpus > 0):
            first, before = site.log.mark(), self._asked()
            made = stage.Stage(site, scenario.name, self._watched(scenario))
            problem = self._play(site, scenario, made)
            if site.log.unwritable is not None:
                raise site.log.unwritable  # no evidence is better than one with holes that nobody sees
            if problem is None and self._turn is not None and self._turn.lost and turns.disturbs(scenario):
                # Somebody else may have been on the cluster at the same time.
                problem = outcome.problem("environment", self._turn.lost)
            asked = {k: n - before.get(k, 0) for k, n in self._asked().items() if n > before.get(k, 0)}
            header = self._header(scenario, outcome.given(made), problem, asked)
            return self._freeze(site, scenario, made, first, header)

    def _take_turn(self, scenario: spec.Scenario) -> None:
        """Hold the cluster for this run before the first scenario that another run could disturb.

        Raises:
            EnvironmentProblem: another run holds it; remembered, so that it is waited for once.
        """
        if self._turn is None or not turns.disturbs(scenario):
            return
        if self._occupied is not None:
            raise self._occupied
        try:
            wanted = turns.permissions(str(getattr(self._profile, "lease_namespace", "default")))
            self._check_rights(wanted, "the Lease by which runs take turns")
            self._turn.take(float(dict(self._profile.budgets).get("lease", TURN_SECONDS)), self._say)
        except errors.EnvironmentProblem as problem:
            self._occupied = problem
            raise
        except errors.ApiError as error:
            self._occupied = errors.EnvironmentProblem(str(error))
            raise self._occupied from error

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
        except Exception as error:
            if isinstance(error, OSError) and site.log.unwritable is None:
                raise
            problem = outcome.problem_of(error)
        finally:
            made.note("end")
            self._clean(site, scenario, made)
        return problem

    def _clean(self, site: sites.Site, scenario: spec.Scenario, made: stage.Stage) -> None:
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
            "requests": self.requests["total"],
            "asked": dict(asked or {}),
            # Evidence of a cluster that is wrong on purpose says so wherever it is read.
            **defects.fact(getattr(self._cluster, "facts", {}).get(defects.FACT, ())),
        }
        where = (self._profile, self._cluster, self.namespace or "")
        return outcome.header(scenario.name, where, source, given, problem)

    # -- connecting --------------------------------------------------------------------------------------------------

    def _open(self) -> sites.Site:
        """Connect and make the namespace, once; a refusal is remembered and costs no further request."""
        if self._site is not None:
            return self._site
        if self._refused is not None:
            raise self._refused
        try:
            self._site = self._connect()
        except errors.EnvironmentProblem as problem:
            self._refused = problem
            raise
        except errors.ApiError as error:
            self._refused = errors.EnvironmentProblem(str(error))
            raise self._refused from error
        return self._site

    def _connect(self) -> sites.Site:
        from pytest_gpucluster.workload import overlay  # noqa: PLC0415

        self._connection = connections.Connection.open(
            pathlib.Path(self._cluster.kubeconfig), self._cluster.context, clock=self._clock
        )
        api = objects.Objects(self._connection)
        lent = getattr(self._profile, "namespace", None)
        turns_in = str(getattr(self._profile, "lease_namespace", "default"))
        # In a namespace of our own nothing is granted but what is granted everywhere, which any namespace tells.
        self._rights = rights.own_rights(self._connection, lent or turns_in)
        self._check_rights(granted.of_session(lent), "every run")
        log = logs.SessionLog(
            self._store.session_log(self._worker), self._clock, scenario_label=names.LABEL_SCENARIO
        )
        self._log = log
        expires = times.format_time(times.in_seconds(EXPIRES_AFTER))
        home = namespaces.make(
            api,
            log,
            run_id=self._store.run_id,
            worker=self._worker,
            expires=expires,
            given=lent,
        )
        self._home = home
        self._turn = turns.Turn(api, self._store.folder, self._store.run_id, expires, turns_in)
        return sites.Site(
            self._profile,
            self._cluster,
            api,
            log,
            self._clock,
            home.name,
            self._store.run_id,
            self._worker,
            expires,
            self._overlay or overlay.apply_overlay,
            lambda info: self._follow(api, log, home.name, [info]),
            ours=home.made,
        )

    def _begin(self, site: sites.Site, scenario: spec.Scenario) -> None:
        """Watch what a scenario needs; a kind that the API does not serve is recorded, and has no coverage.

        Raises:
            NotApplicable: the profile declares nodes on which no pod runs, or no Kueue.
            WorkloadError: the declared scheduler is one that no gang can be written for.
            EnvironmentProblem: pods do not run on this cluster and the scenario needs them to, or something that it
                will ask for is not permitted.
        """
        if scenario.needs.kueue and getattr(self._profile, "kueue", None) is None:
            raise absent.NotApplicable("the profile does not declare Kueue (key kueue)")
        if scenario.needs.pods_run and PODS_RUN not in self._cluster.features:
            facts = getattr(self._cluster, "facts", {})
            if getattr(self._profile, "nodes", "") == "simulated":
                raise absent.NotApplicable(
                    "the profile says nodes: simulated, and this row needs pods that run"
                )
            raise errors.EnvironmentProblem(
                str(facts.get("pods_run_problem") or "pods do not run on this cluster")
            )
        lent = None if site.ours else site.namespace
        wanted = granted.of_scenario(scenario, self._profile, namespace=lent)
        self._check_rights(wanted, f"the scenario {scenario.name}")
        keys = scenario.watched(self._profile)
        self._follow(site.api, site.log, site.namespace, [site.api.info_of_key(key) for key in keys])
        for key in keys:
            problem = site.log.problems.get(key)
            if isinstance(problem, errors.ApiError):
                answer = {"code": problem.code, "status": dict(problem.body)}
                site.log.add(
                    "RESPONSE", scenario.name, {"request": f"list {key}", "case": f"api:{key}", **answer}
                )

    def _follow(
        self, api: objects.Objects, log: logs.SessionLog, namespace: str, wanted: list[kinds.KindInfo]
    ) -> None:
        """Start the watches that do not run yet and wait until all are in sync, or known not to be served.

        Raises:
            EnvironmentProblem: a watch that is not permitted, or not in sync in time.
        """
        keys = tuple(info.key for info in wanted)
        for info in wanted:
            if info.key not in self._watches:
                target = watch.Target(info, namespace if info.namespaced else None)
                self._watches[info.key] = watch.KindWatch(api, target, log, lean=logs.lean)
                log.expect(info.key)
                self._watches[info.key].start()
        if not log.until(lambda: log.in_sync_now(keys), SYNC_SECONDS):
            raise errors.EnvironmentProblem(f"watches are not in sync: {log.trouble(keys)}")
        for key in keys:
            problem = log.problems.get(key)
            if isinstance(problem, errors.EnvironmentProblem):
                raise problem

    def _check_rights(self, wanted: Iterable[rights.Permission], whose: str) -> None:
        """Refuse to begin what could not be ended: some permissions are missed only at the cleanup.

        Raises:
            EnvironmentProblem: names all that is missing.
        """
        missing = self._rights.missing(wanted)
        if missing:
            listed = ", ".join(map(str, missing))
            raise errors.EnvironmentProblem(
                f"not permitted: {listed}; {whose} needs it (gpucluster rbac prints the roles to grant)"
            )

    def _end_watches(self) -> None:
        for running in self._watches.values():
            running.stop()
        end = time.monotonic() + 3.0
        for running in self._watches.values():
            running.join(max(0.1, end - time.monotonic()))
        self._watches.clear()
        if self._log is not None:
            self._log.close()
        if self._connection is not None:
            self._connection.close()

    def _abandon(self) -> None:
        self._interrupted = True
        self._say(
            f"cleanup was interrupted; remove what is left with: gpucluster cleanup --run {self._store.run_id}"
        )

    def _budget(self, name: str) -> float:
        return sites.budget(self._profile, name)
