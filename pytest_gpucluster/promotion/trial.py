"""The trial of a held queue: pytest runs the rows that can only be shown while it is open, in a process of its own."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_NOT_OURS = ("PYTEST_ADDOPTS", "GPUCLUSTER_PLAN", "GPUCLUSTER_RUN", "GPUCLUSTER_CONFORMANCE_QUEUE")
"""Variables that would make another run of it."""
_PASS_ON = ("run  ", "digest", "answer")
"""Lines of the run that are passed on."""


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


def run(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Trial:
    """Run the rows; what cannot be run is not green."""
    own = {key: value for key, value in environment.items() if key not in _NOT_OURS}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=own,
    )
    lines = done.stdout.splitlines()
    said = [line for line in lines if line.startswith(_PASS_ON)]
    if not said:
        last = [line for line in (*lines, *done.stderr.splitlines()) if line.strip()]
        said = last[-1:]
    told = {line.split()[0]: line.split()[-1] for line in said if len(line.split()) > 1}
    runs = {Path(told["run"]).name: told["digest"]} if {"run", "digest"} <= {*told} else {}
    return Trial(green=done.returncode == 0, said=tuple(said), runs=runs)
