"""How a session reaches its cluster: the connection, the namespace, the watches, the turn, what is permitted."""

import pathlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.kube import permissions as rights
from pytest_gpucluster.plain import names, times
from pytest_gpucluster.scenario import cluster_identity, cluster_lease, proofs, spec, steps, together, watches
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import namespace as namespaces
from pytest_gpucluster.scenario import permissions as granted
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import store as stores

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

EXPIRES_AFTER = 2 * 3600.0
"""Seconds after which `gpucluster cleanup` may take what is ours without asking which run it is."""
TURN_SECONDS = 60.0
"""Seconds that another run is waited for where the profile has no budget `lease`."""


class Connecting:
    """The part of a session that reaches the cluster, when the first scenario needs it and never before."""

    def __init__(
        self,
        cluster: sites.ClusterLike,
        profile: "Profile",
        store: stores.RunStore,
        *,
        worker: str,
        clock: clocks.Clock | None,
        overlay: sites.Overlay | None,
        say: Callable[[str], None],
        tell: steps.Tell,
    ) -> None:
        """Touch nothing yet."""
        self._cluster = cluster
        self._profile = profile
        self._store = store
        self._worker = worker
        self._clock = clock or clocks.RealClock()
        self._overlay = overlay
        self._say = say
        self._tell = tell
        self._connection: connections.Connection | None = None
        self._log: logs.SessionLog | None = None
        self._site: sites.Site | None = None
        self._home: namespaces.Namespace | None = None
        self._watches = watches.Watches()
        self._prover: proofs.Prover | None = None
        self._turn: cluster_lease.Turn | None = None
        self._occupied: errors.EnvironmentProblem | None = None
        self._rights = rights.Rights(None)
        self._refused: errors.EnvironmentProblem | None = None
        self._cluster_uid = ""
        self._most_nodes: int | None = None

    @property
    def namespace(self) -> str | None:
        """Return the session's namespace, None before the first scenario ran."""
        return self._site.namespace if self._site is not None else None

    def objects(self) -> objects.Objects:
        """Return the verbs, by the session's connection; nothing is made or asked yet.

        Raises:
            EnvironmentProblem: the kubeconfig cannot be read.
        """
        if self._connection is None:
            path = pathlib.Path(self._cluster.kubeconfig)
            self._connection = connections.Connection.open(path, self._cluster.context, clock=self._clock)
        return objects.Objects(self._connection)

    @property
    def requests(self) -> dict[str, object]:
        """Return how many requests were made (`RequestCounter.summary`)."""
        return self._connection.counter.summary() if self._connection is not None else {"total": 0}

    def _take_turn(self, scenario: spec.Scenario) -> None:
        """Hold the cluster for this run before the first scenario that another run could disturb.

        Raises:
            EnvironmentProblem: another run holds it; remembered, so that it is waited for once.
        """
        if self._turn is None or not cluster_lease.disturbs(scenario):
            return
        if self._occupied is not None:
            raise self._occupied
        try:
            wanted = cluster_lease.permissions(self._profile.lease_namespace)
            self._check_rights(wanted, "the Lease by which runs take turns")
            seconds = float(dict(self._profile.budgets).get("lease", TURN_SECONDS))
            self._tell(scenario.name, "waits for its turn on the cluster", seconds)
            self._turn.take(seconds, self._say)
        except errors.EnvironmentProblem as problem:
            self._occupied = problem
            raise
        except errors.ApiError as error:
            self._occupied = errors.EnvironmentProblem(str(error))
            raise self._occupied from error

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

        api = self.objects()
        lent = self._profile.namespace
        turns_in = self._profile.lease_namespace
        # In a namespace of our own nothing is granted but what is granted everywhere, which any namespace tells.
        self._rights = rights.own_rights(api.connection, lent or turns_in)
        self._check_rights(granted.of_session(lent), "every run")
        log = logs.SessionLog(
            self._store.session_log(self._worker),
            self._clock,
            scenario_label=names.LABEL_SCENARIO,
            lent=lent,
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
        self._cluster_uid = cluster_identity.uid(api)
        self._turn = cluster_lease.Turn(api, self._store.folder, self._store.run_id, expires, turns_in)
        self._prover = proofs.Prover(
            api,
            log,
            self._watches,
            home.name,
            run_id=self._store.run_id,
            worker=self._worker,
            expires=expires,
        )
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
            lambda info: self._watches.follow(api, log, home.name, [info]),
            ours=home.made,
            prove=self._prover.prove,
            together=together.Together(self._rights),
            tell=self._tell,
            most_nodes=self._most_nodes,
        )

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
        self._watches.end()
        if self._log is not None:
            self._log.close()
        if self._connection is not None:
            self._connection.close()

    def _budget(self, name: str) -> float:
        return sites.budget(self._profile, name)
