"""The trial of a held queue: pytest runs the rows that can only be shown while it is open, in a process of its own."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

_NOT_OURS = ("PYTEST_ADDOPTS", "GPUCLUSTER_PLAN", "GPUCLUSTER_RUN", "GPUCLUSTER_CONFORMANCE_QUEUE")
"""Variables that would make another run of it."""
_PASS_ON = ("run  ", "digest", "answer")
"""Lines of the run that are passed on."""
CLEARS = 5.0
"""Seconds for which a run that is cut off is waited for."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """How a trial ended.

    Attributes:
        green: whether every row passed.
        said: what the run said of itself: its folder, its digest, its answer.
        runs: id of the run -> its digest; empty if it did not come to its end.
    """

    green: bool
    said: tuple[str, ...]
    runs: Mapping[str, str] = dataclasses.field(default_factory=dict)


def words(
    rows: Iterable[str],
    cluster: str,
    folder: Path,
    profiles: Sequence[Path] = (),
    settings: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of pytest.

    Args:
        rows: ids of the rows.
        cluster: name of the profile.
        folder: where the run's folder is made.
        profiles: folders with profiles.
        settings: leaves of the profile that were set.
    """
    return [
        f"--gpucluster-cluster={cluster}",
        *(f"--gpucluster-profiles={each}" for each in profiles),
        *(f"--gpucluster-set={each}" for each in settings),
        "--gpucluster-set=conformance_queue=null",
        f"--gpucluster-report-dir={folder}",
        "--gpucluster-gate",
        # Two rows are no acceptance: a policy of the project's pipeline asks for more.
        "--gpucluster-policy=",
        f"-k={' or '.join(rows)}",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]


def run(
    arguments: Sequence[str],
    begun: Callable[[int], None] = lambda _pid: None,
    environment: Mapping[str, str] = os.environ,
) -> Trial:
    """Run the rows; what cannot be run is not green.

    Args:
        arguments: the arguments of pytest.
        begun: called with the process id.
        environment: the environment, of which what would make another run of it is left out.
    """
    own = {key: value for key, value in environment.items() if key not in _NOT_OURS}
    try:
        status, lines = _played(arguments, begun, own)
    except OSError as error:
        return Trial(green=False, said=(f"the rows could not be run: {error}",))
    said = [line for line in lines if line.startswith(_PASS_ON)]
    if not said:
        said = [line for line in lines if line.strip()][-1:]
    told = {line.split()[0]: line.split()[-1] for line in said if len(line.split()) > 1}
    runs = {Path(told["run"]).name: told["digest"]} if {"run", "digest"} <= {*told} else {}
    return Trial(green=status == 0, said=tuple(said), runs=runs)


def _played(
    arguments: Sequence[str], begun: Callable[[int], None], environment: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Run pytest; return its exit status and what it wrote, errors last.

    It writes to files: with a pipe it could not clear up once its reader is gone.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(environment),
        )
        try:
            begun(process.pid)
            status = process.wait()
        except BaseException:
            # It clears up what it made, by itself: the queue is not left open for as long as that takes.
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(CLEARS)
            raise
        lines: list[str] = []
        for written in (out, err):
            written.seek(0)
            lines += written.read().splitlines()
    return status, lines
