"""The run's evidence on disk: each scenario runs once a run, whichever worker asks first."""

import contextlib
import fcntl
import pathlib
from collections.abc import Callable, Iterator

import filelock

from pytest_gpucluster import evidence
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.plain import names, private
from pytest_gpucluster.scenario import slice as slices


class RunStore:
    """The folder of one run, shared by its workers.

    Locks are of the operating system: the lock of a worker that was killed is free at once, its half-written file is
    not the evidence file, and the next worker runs the scenario.

    Attributes:
        folder: the run's folder.
        run_id: the run, fit for a label value.
    """

    def __init__(self, folder: pathlib.Path | str, run_id: str | None = None) -> None:
        """Use a folder; the run id is the folder's name unless given."""
        self.folder = pathlib.Path(folder)
        self.run_id = names.safe_name(run_id or self.folder.name)
        private.folder(self.folder)
        private.folder(self.folder / "evidence")

    def path(self, scenario: str) -> pathlib.Path:
        """Return the evidence file of a scenario."""
        return self.folder / "evidence" / f"{names.safe_name(scenario, limit=120)}.jsonl"

    def session_log(self, worker: str) -> pathlib.Path:
        """Return the session log of a worker."""
        return self.folder / f"session-{names.safe_name(worker)}.jsonl"

    def has(self, scenario: str) -> bool:
        """Report whether a scenario has run."""
        return self.path(scenario).is_file()

    def evidence_for(self, scenario: str, make: Callable[[], slices.Slice]) -> Evidence:
        """Return a scenario's evidence: from the file if it ran, else by running it while others wait.

        What `make` raises leaves no file, so the next who asks runs it again.
        """
        path = self.path(scenario)
        if not path.is_file():
            with filelock.FileLock(str(path.with_suffix(".lock")), mode=private.FILE):
                if not path.is_file():
                    make().write(path)
        return evidence.read(path)

    def save(self, scenario: str, made: slices.Slice) -> None:
        """Write the evidence of a stage that somebody acted on; a repeated test replaces what it saved before."""
        made.write(self.path(scenario))

    @contextlib.contextmanager
    def turn(self, *, alone: bool, gpus: bool) -> Iterator[None]:
        """Hold the cluster for one scenario; others of the run go on beside it where they cannot disturb it.

        Args:
            alone: nothing may run beside it, such as a gang that cannot be placed and so blocks every other.
            gpus: it asks for real GPUs. Such scenarios take turns: the sum of what two ask for may not be there.
                Those that use slots have a resource of their own each and run beside them.
        """
        with contextlib.ExitStack() as held:
            if gpus and not alone:
                held.enter_context(self._lock("gpus", fcntl.LOCK_EX))
            held.enter_context(self._lock("cluster", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
            yield

    @contextlib.contextmanager
    def _lock(self, name: str, how: int) -> Iterator[None]:
        with private.opened(self.folder / f"{name}.lock", "a") as file:
            fcntl.flock(file, how)
            # Closing the file lets go, also when the process is killed.
            yield
