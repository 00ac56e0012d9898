"""Runs the real suite in processes of its own and looks at what is left behind."""

import json
import os
import pathlib
import subprocess
import sys
import zipfile
from typing import Any

import filelock
import pytest

from tests import inner

ROOT = pathlib.Path(__file__).resolve().parents[2]


BUSY = ("--gpucluster-set", "bind_spread=1")
"""What a run of all rows declares beside other tests: on a machine that is short of CPUs the binds of one gang lie
further apart than the embedded profile's quarter of a second, which supposes a run that has its machine to itself. Less
than the three seconds after which Kueue ends what is half placed."""


def suite_command(report_dir: pathlib.Path, *args: str) -> list[str]:
    """Return the command that runs the suite."""
    return [
        sys.executable, "-m", "pytest", "suites", "-q", *inner.QUIET,
        f"--gpucluster-report-dir={report_dir}", *args,
    ]  # fmt: skip


def run_suite(
    report_dir: pathlib.Path, *args: str, timeout: float = 480, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the suite to its end."""
    done = subprocess.run(
        suite_command(report_dir, *args),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    # Shown by pytest when the test fails.
    sys.stdout.write(done.stdout + done.stderr)
    return done


def shared(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the folder that all workers of this run of tests share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def run_shared(
    tmp_path_factory: pytest.TempPathFactory, name: str, *args: str, timeout: float = 480
) -> pathlib.Path:
    """Run the suite once for all tests that look at it, whichever workers they are on; returns the report folder.

    The first that asks runs it, the others wait; where it ended red, each of them says so.
    """
    base = shared(tmp_path_factory)
    folder, ended = base / name, base / f"{name}.ended"
    with filelock.FileLock(base / f"{name}.lock"):
        if not ended.exists():
            done = run_suite(folder, *args, timeout=timeout)
            ended.write_text(
                f"{done.returncode}\n{done.stdout[-4000:]}{done.stderr[-2000:]}", encoding="utf-8"
            )
    status, _, text = ended.read_text(encoding="utf-8").partition("\n")
    assert status == "0", text
    return folder


def run_folder(report_dir: pathlib.Path) -> pathlib.Path:
    """Return the folder of the one run."""
    folders = [path for path in report_dir.iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(folders) == 1, folders
    return folders[0]


def report_of(report_dir: pathlib.Path) -> dict[str, Any]:
    """Return the record of the one run."""
    loaded: dict[str, Any] = json.loads((run_folder(report_dir) / "report.json").read_text(encoding="utf-8"))
    return loaded


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    """Return requirement id -> verdict of the rows that were decided."""
    return {row["id"]: row["verdict"] for row in report["requirements"]}


def wheel_site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Build the wheel once for all tests and unpack it; return what a `PYTHONPATH` of an installation has."""
    folder = shared(tmp_path_factory) / "wheel"
    site = folder / "site"
    with filelock.FileLock(folder.with_suffix(".lock")):
        if not site.exists():
            command = [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
                "-w",
            ]
            subprocess.run([*command, folder, "."], cwd=ROOT, check=True, capture_output=True, timeout=480)
            with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
                wheel.extractall(folder / "partial")
            (folder / "partial").rename(site)
    return site


def processes_below(mark: str) -> dict[int, str]:
    """Return pid -> command of the living processes whose command line or environment names `mark`."""
    found: dict[int, str] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and (mark in command or mark in environment):
            found[int(entry.name)] = command
    return found


def gpucluster(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the `gpucluster` command."""
    code = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
