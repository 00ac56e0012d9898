"""One run as one process sees it: its folder, its journal, its backend."""

import contextlib
import getpass
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import pytest

import pytest_gpucluster
from pytest_gpucluster import profile, provider
from pytest_gpucluster.hooks import (
    again,
    backend,
    disk_full,
    progress,
    settings,
    signals,
    state,
    waivers,
)
from pytest_gpucluster.plain import private, times
from pytest_gpucluster.report import decisions, record, suites, text
from pytest_gpucluster.requirement import REGISTRY, Finding, Requirement, Verdict, is_site

if TYPE_CHECKING:
    from pytest_gpucluster.evidence import Evidence
    from pytest_gpucluster.scenario import Session, gpu_nodes

BEGIN_LOCK = "begin.lock"
BEGIN_LIMIT = 3600.0
"""Seconds that a worker waits for the one that begins the run (starting the cluster has limits of its own)."""

LATEST = "latest"

MAIN = "main"
"""Name of the process of a run without workers."""


class Run:
    """A run in one process.

    Attributes:
        settings: what the run was told.
        loaded: the profile with its sources.
        folder: the run's folder, shared by all processes of the run; made when the first test needs it.
        owner_pid: the process with whose end the embedded cluster ends.
        worker: name of this process: `main`, or the worker's id.
        notes: what some rows will lack, or could not be checked before the first one, a line each.
        began: when the run began, in seconds since 1970.
        policy: what must be shown for the answer yes, as plain data; None without one.
        board: what this process is doing, for whoever watches the run.
    """

    def __init__(
        self,
        told: settings.Settings,
        loaded: profile.LoadedProfile,
        folder: Path,
        *,
        owner_pid: int | None = None,
        worker: str = MAIN,
        began: float | None = None,
    ) -> None:
        """Take what was told; touch nothing."""
        self.settings = told
        self.loaded = loaded
        self.folder = folder
        self.owner_pid = owner_pid or os.getpid()
        self.worker = worker
        self.notes: list[str] = []
        self.began = began or times.now().timestamp()
        self.policy: dict[str, Any] | None = None
        self.board = progress.Board({})
        self.journal = record.Journal(folder / record.JOURNAL)
        self._backend: backend.Backend | None = None
        self._problem: BaseException | None = None
        self._seen: set[str] = set()
        self._told: dict[str, int] = {}
        self._begun = False
        self._announced: Path | None = None

    @property
    def begun(self) -> bool:
        """Report whether any process of the run has begun it."""
        return self.journal.path.exists()

    def decide(self, requirement: Requirement) -> tuple[Finding, list[dict[str, Any]]]:
        """Obtain the evidence of a requirement and decide; return finding and presuppositions.

        A cluster that cannot be had makes every row `environment`.
        """
        try:
            source = self._open()
        except (provider.ProviderError, self._cluster_errors()) as error:
            problem = Finding(Verdict.ENVIRONMENT, required="a cluster that answers", observed=_line(error))
            return problem, []
        evidence = self._evidence(source, requirement.scenario)
        return decisions.decide(requirement, evidence), decisions.presupposed(requirement, evidence)

    def scenario_evidence(self, scenario: Any) -> "Evidence":
        """Return the evidence of a scenario, which runs once per run, whoever asks first.

        Raises:
            ProviderError, GpuClusterError: the cluster cannot be had.
        """
        return self._evidence(self._open(), scenario)

    def session(self) -> "Session":
        """Return this process's session on the cluster, for a test that acts itself; errors as in `cluster`."""
        return self._live().session

    def cluster(self) -> provider.Cluster:
        """Return the cluster, started or reached when first asked for.

        Raises:
            ProviderError, GpuClusterError: it cannot be had.
            EnvironmentProblem: the run judges the evidence of an earlier one.
        """
        return self._live().cluster

    def gpu_nodes(self) -> "tuple[gpu_nodes.GpuNode, ...]":
        """Return the nodes that take pods and offer GPUs, by name; one request. Errors as in `cluster`."""
        from pytest_gpucluster.scenario import gpu_nodes

        return gpu_nodes.read(self.session().objects(), self.loaded.profile.gpu_resource)

    def evidence_of(self, scenario: str) -> Path:
        """Return the file in which the evidence of a scenario is kept."""
        return backend.evidence_path(self.folder, scenario)

    def _live(self) -> backend.Live:
        source = self._open()
        if not isinstance(source, backend.Live):
            from pytest_gpucluster.kube.errors import EnvironmentProblem

            raise EnvironmentProblem(
                f"the run judges the evidence of {self.settings.reuse} and touches no cluster"
            )
        return source

    def text(self, requirement: Requirement, finding: Finding, nodeid: str, waived: str = "") -> str:
        """Return the text of a finding, "" for a pass."""
        if finding.verdict is Verdict.PASS:
            return ""
        path = self._evidence_path(requirement)
        return text.failure_text(
            requirement,
            finding,
            evidence_path=path if path and path.exists() else None,
            nodeid=nodeid,
            run_folder=self.folder,
            options=again.options(self.settings, self.loaded.profile.name),
            gone=again.gone(self.loaded, self.folder, kept=self.settings.keep),
            kubectl=again.kubectl(self.loaded),
            waived=waived,
        )

    def waived(self, requirement: Requirement, finding: Finding) -> str:
        """Return the waiver that covers a row that is red, in one line; "" where none does."""
        waiver = waivers.of(self.loaded, requirement.id) if finding.verdict in waivers.RED else None
        return waivers.text(waiver) if waiver is not None else ""

    def record(self, case: state.Case, presupposed: list[dict[str, Any]], nodeid: str) -> None:
        """Write a decision into the journal."""
        if case.finding is None:
            return
        self.journal.requirement(
            case.requirement,
            case.finding,
            presupposed=presupposed,
            seconds=case.seconds,
            evidence=self._evidence_path(case.requirement),
            nodeid=nodeid,
            text=case.text,
        )

    def begin(self, selection: state.Selection, *, touch: bool = True) -> None:
        """Begin the run unless another process has: folder, cluster, first lines of the journal.

        Args:
            selection: what collection found.
            touch: ask the cluster who it is; not where nothing is run at all.
        """
        if self._begun:
            return
        self._begun = True
        private.folder(self.folder)
        if self.worker != MAIN:
            self._announced = signals.announce(self.folder, self.worker)
            self.board.share(self.folder, self.worker)
        self.board.tell("", "the cluster is being started or reached")
        with filelock.FileLock(self.folder / BEGIN_LOCK, BEGIN_LIMIT, private.FILE):
            if self.begun:
                return
            _point_latest(self.folder)
            identity: Mapping[str, Any] = {}
            try:
                # A cluster that cannot be had is told by every row; here it only lacks an identity.
                with contextlib.suppress(provider.ProviderError, self._cluster_errors()):
                    identity = self._open().identity() if touch else {}
            finally:
                self._start_journal(identity, selection)

    def close(self) -> list[str]:
        """Clean up and let go of the cluster; return and record what was left behind."""
        if self._announced is not None:
            # From here on an interrupt would only disturb the cleanup.
            self._announced.unlink(missing_ok=True)
        source, self._backend = self._backend, None
        if source is None:
            self.board.clear()
            return []
        try:
            left = source.close()
        except Exception as error:  # noqa: BLE001 - whatever cleanup says belongs into the record
            left = [f"cleanup did not end: {type(error).__name__}: {_line(error)}"]
        self.board.clear()
        if self.settings.keep and provider.of(self.loaded).real:
            # On purpose, and all the same something that is not as the run found it.
            left = [*left, f"everything that {self.worker} made: kept on purpose (--gpucluster-keep)"]
        with disk_full.telling(self.journal.path, left):
            self.journal.cleanup(left, _more(source.requests(), self._told), source.proof())
        return left

    def _open(self) -> backend.Backend:
        if self._problem is not None:
            # Tried once: a cluster that does not start would cost its limit again for every row.
            raise self._problem
        if self._backend is None:
            try:
                self._backend = backend.open_backend(self)
            except Exception as error:
                self._problem = error
                raise
        return self._backend

    def _evidence(self, source: backend.Backend, scenario: Any) -> "Evidence":
        before = source.requests()
        fresh = not source.path(scenario).exists()
        if fresh:
            self.board.tell(scenario.name, "begins")
        started = time.monotonic()
        evidence = source.evidence(scenario)
        # A worker that waited for another one to run it has not run it: what it took is in the other's journal line.
        fresh = fresh and evidence.header.get("source", {}).get("worker", self.worker) == self.worker
        if fresh and scenario.name not in self._seen:
            took = _more(source.requests(), before)
            for name, count in took.items():
                self._told[name] = self._told.get(name, 0) + count
            problem = evidence.header.get("problem")
            from pytest_gpucluster.evidence.objects import clusters

            self.journal.scenario(
                scenario.name,
                seconds=round(time.monotonic() - started, 3),
                requests=took,
                evidence=source.path(scenario),
                problem=problem if isinstance(problem, Mapping) else None,
                summary=str(getattr(scenario, "summary", "")),
                seen=clusters.plain(evidence),
            )
        self._seen.add(scenario.name)
        return evidence

    def _evidence_path(self, requirement: Requirement) -> Path | None:
        return self._backend.path(requirement.scenario) if self._backend is not None else None

    def _start_journal(self, identity: Mapping[str, Any], selection: state.Selection) -> None:
        known = self.loaded.as_dict()
        self.journal.run_start(
            run=self.folder.name,
            plugin=pytest_gpucluster.__version__,
            command=[Path(sys.argv[0]).name.replace("__main__.py", "pytest"), *sys.argv[1:]],
            cluster={
                "name": self.loaded.profile.name,
                "provider": self.loaded.profile.provider,
                **identity,
            },
            profile=known["profile"],
            sources=known["sources"],
            defects=self.settings.defects,
            versions={"pytest": pytest.__version__, "python": sys.version.split()[0]},
            asked=selection.asked,
            evidence_schema=self._evidence_schema(),
            by=_by(),
            policy=self.policy,
        )
        # Shipped rows that were not collected were not selected, which is not "not built".
        if not suites.complete() and all(is_site(row.id) for row in REGISTRY):
            suites.load_suites()
        self.journal.declared(REGISTRY)
        for requirement, why in selection.deselected.values():
            self.journal.not_run(requirement, why)
        self.journal.site_tests_ahead(selection.site_tests, selection.site_left_out)

    def _evidence_schema(self) -> int | None:
        """Return the schema of the evidence that this run judges: its own, or that of the run whose it is."""
        from pytest_gpucluster.evidence.log.model import SCHEMA

        if self.settings.reuse is None:
            return SCHEMA
        with contextlib.suppress(record.RecordError):
            schema: int | None = record.load(self.settings.reuse)["run"]["evidence_schema"]
            return schema
        return None

    @staticmethod
    def _cluster_errors() -> type[Exception]:
        from pytest_gpucluster.kube.errors import GpuClusterError

        return GpuClusterError


def _by() -> str:
    """Return who runs this, and on which machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number that no file names, as in some containers
        user = f"user {os.getuid()}"
    return f"{user} on {platform.node()}"


def _point_latest(folder: Path) -> None:
    """Let `latest` point to the run; a file system without links does without."""
    link = folder.parent / f".{LATEST}-{folder.name}"
    with contextlib.suppress(OSError):
        link.symlink_to(folder.name, target_is_directory=True)
        link.replace(folder.parent / LATEST)
    link.unlink(missing_ok=True)


def _more(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted since."""
    return {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
