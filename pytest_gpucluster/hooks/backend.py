"""Where evidence comes from in this process: a session on a cluster, or the folder of an earlier run."""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_gpucluster.plain import private

if TYPE_CHECKING:
    from pytest_gpucluster.evidence import Evidence
    from pytest_gpucluster.hooks.progress import Board
    from pytest_gpucluster.hooks.settings import Settings
    from pytest_gpucluster.profile import LoadedProfile
    from pytest_gpucluster.requirement.declare import ScenarioLike

EVIDENCE_FOLDER = "evidence"


class RunLike(Protocol):
    """What a backend must know of the run.

    Attributes:
        folder: the run's folder.
        loaded: the profile.
        settings: what was told.
        worker: name of this process.
        owner_pid: the process with whose end the cluster ends.
        board: what this process is doing, for whoever watches the run.
    """

    folder: Path
    loaded: "LoadedProfile"
    settings: "Settings"
    worker: str
    owner_pid: int
    board: "Board"


def evidence_path(run_folder: Path, scenario: str) -> Path:
    """Return the evidence file of a scenario in a run folder."""
    return run_folder / EVIDENCE_FOLDER / f"{scenario}.jsonl"


class Backend(Protocol):
    """What the hooks need of a cluster."""

    def evidence(self, scenario: "ScenarioLike") -> "Evidence":
        """Return the evidence of a scenario; the first process that asks runs it."""

    def path(self, scenario: "ScenarioLike") -> Path:
        """Return the evidence file of a scenario."""

    def identity(self) -> Mapping[str, Any]:
        """Return name, provider and what identifies the cluster, as plain data."""

    def requests(self) -> Mapping[str, int]:
        """Return how many requests were made so far, by verb and kind."""

    def close(self) -> list[str]:
        """Clean up and let go; return what was left behind, one line each."""

    def proof(self) -> Sequence[str]:
        """Return, after it was closed, how it is known that nothing is left, a line each."""


class Reused:
    """Evidence of an earlier run, copied into the folder of this one, which is a record of its own; no cluster."""

    def __init__(self, run_folder: Path, own: Path) -> None:
        """Take the folder of that run, and of this one."""
        self.run_folder = run_folder
        self._own = own

    def evidence(self, scenario: "ScenarioLike") -> "Evidence":
        """Read the evidence; where there is none, return evidence that says so."""
        from pytest_gpucluster.evidence import Evidence
        from pytest_gpucluster.evidence.log import ingest

        path, source = self.path(scenario), evidence_path(self.run_folder, scenario.name)
        if source.is_file() and not path.is_file():
            private.folder(path.parent)
            # Whole or not at all: other workers judge the same evidence.
            partial = path.with_name(f".{path.name}.{os.getpid()}")
            shutil.copyfile(source, partial)
            partial.chmod(private.FILE)
            partial.replace(path)
        if path.is_file():
            return ingest.read(path)
        text = f"the run {self.run_folder} has no evidence of the scenario {scenario.name}"
        return Evidence(
            (), header={"scenario": scenario.name, "problem": {"verdict": "inconclusive", "text": text}}
        )

    def path(self, scenario: "ScenarioLike") -> Path:
        """Return the file in this run's folder."""
        return evidence_path(self._own, scenario.name)

    def identity(self) -> Mapping[str, Any]:
        """Return what the earlier run said of its cluster."""
        from pytest_gpucluster.report import record

        with contextlib.suppress(record.RecordError):
            return {**record.load(self.run_folder)["cluster"], "reused": str(self.run_folder)}
        return {"reused": str(self.run_folder)}

    def requests(self) -> Mapping[str, int]:
        """Return nothing: no request is made."""
        return {}

    def close(self) -> list[str]:
        """Nothing is held."""
        return []

    def proof(self) -> Sequence[str]:
        """Return nothing: no cluster was touched."""
        return ()


class Live:
    """A session of our own (namespace, watches) on the run's one cluster."""

    def __init__(self, run: RunLike) -> None:
        """Have the cluster, then open the session.

        Raises:
            ProviderError: the cluster could not be had.
            GpuClusterError: it does not answer, or refuses what a session needs.
        """
        from pytest_gpucluster import provider
        from pytest_gpucluster.profile.defects import declared
        from pytest_gpucluster.scenario import RunStore, Session

        self.run_folder = run.folder
        self._stack = contextlib.ExitStack()
        held = provider.obtain(
            run.loaded, run.folder, run.settings.defects, run.owner_pid, keep=run.settings.keep
        )
        self._held = held
        self.cluster = held.cluster
        self._stack.callback(held.close)
        try:
            store = RunStore(run.folder)
            profile = declared(run.loaded.profile, run.settings.defects)
            self.session = Session(
                held.cluster,
                profile,
                store,
                worker=run.worker,
                keep=run.settings.keep,
                tell=run.board.tell,
                most_nodes=run.settings.max_nodes,
            )
            self.session.__enter__()
        except BaseException:
            self._stack.close()
            raise

    def evidence(self, scenario: Any) -> "Evidence":
        """Return the evidence of a scenario; it is run when no process of this run has."""
        return self.session.evidence(scenario)

    def path(self, scenario: "ScenarioLike") -> Path:
        """Return the file in this run's folder."""
        return evidence_path(self.run_folder, scenario.name)

    def identity(self) -> Mapping[str, Any]:
        """Return name, provider, context and facts of the cluster."""
        cluster = self.cluster
        return {
            "name": cluster.name,
            "provider": cluster.provider,
            "context": cluster.context,
            "features": sorted(cluster.features),
            **cluster.facts,
        }

    def requests(self) -> Mapping[str, int]:
        """Return how many requests the session made, by verb and kind."""
        counted = self.session.requests.get("requests", {})
        return {str(key): int(value) for key, value in counted.items()} if isinstance(counted, dict) else {}

    def close(self) -> list[str]:
        """Clean up what the session made, then end the cluster if it is this process's own."""
        with self._stack:
            self.session.__exit__(None, None, None)
            left = [str(item) for item in self.session.left_overs]
            return left + self._held.close()

    def proof(self) -> Sequence[str]:
        """Return what the session saw when it looked once more."""
        return self.session.proof


def open_backend(run: RunLike) -> Backend:
    """Return the backend that a run asks for."""
    return Reused(run.settings.reuse, run.folder) if run.settings.reuse is not None else Live(run)
