"""A run that is ended at any moment leaves no process and an intact journal."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

from tests import amount
from tests.endtoend import harness
from tests.interrupting import LISTENS_TO_CTRL_C

pytestmark = pytest.mark.slow

QUIET = "ignore::pluggy.PluggyTeardownRaisedWarning"

MOMENTS = {
    "at once": 0.0,
    "cluster comes up": 1.5,
    "first scenarios": 3.5,
    "in the middle": 6.0,
}
"""Name of a moment -> seconds after the first line of the run."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
ENDS = [
    pytest.param(how, moment, id=f"{how.name}-{moment}")
    for row, moment in enumerate(MOMENTS)
    for column, how in enumerate(SIGNALS)
    if amount.all_of_it() or (row + column) % 2 == 0
]
"""How a run ends, and when: every signal at every moment, or every second pair, with each signal and each moment."""


def _mounts_below(*folders: pathlib.Path) -> list[str]:
    """Return the mounts of this machine at, or of, something in folders of the test's own."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if any(str(folder) in line for folder in folders)]


def _begin(report_dir: pathlib.Path, mark: str, temporary: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # An interrupt inside an import leaves a file object of the interpreter's to the garbage collector, and one
        # inside an old hook of another plugin makes pluggy warn; this repository's own "warnings are errors" would make
        # both a traceback.
        [
            *LISTENS_TO_CTRL_C,
            *harness.suite_command(
                report_dir, "-m", "not torch", "-p", "no:unraisableexception", "-W", QUIET
            ),
        ],
        cwd=harness.ROOT,
        env={**os.environ, "RUN_MARK": mark, "TMPDIR": temporary},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _await_none(mark: str, seconds: float = 20) -> None:
    """Wait until no process of the run lives; every one carries the mark in its environment."""
    ends = time.monotonic() + seconds
    left = harness.processes_below(mark)
    while left and time.monotonic() < ends:
        # The kernel tears a sandbox down by itself; there is no event for the last of its processes.
        time.sleep(0.05)
        left = harness.processes_below(mark)
    assert not left, left


@pytest.fixture
def temporary():
    """Make a folder for the run's sockets, short enough for them, in which nobody else writes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


@pytest.mark.parametrize(("how", "moment"), ENDS)
def test_a_run_may_be_ended_at_any_moment(moment, how, tmp_path, temporary):
    """No process is left, the journal reads, and a report can be made of what was decided."""
    mark = f"mark-{tmp_path.name}-{how.name}"
    with _begin(tmp_path, mark, temporary) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("gpucluster:"):
            assert process.poll() is None
        time.sleep(MOMENTS[moment])
        process.send_signal(how)
        output, _ = process.communicate(timeout=60)
    _await_none(mark)
    assert _mounts_below(tmp_path, pathlib.Path(temporary)) == []
    assert "Traceback" not in output, output[-3000:]
    if how is not signal.SIGKILL:
        assert process.returncode in {2, 130, -how.value}, output[-2000:]
    journals = list(tmp_path.glob("*/run.jsonl"))
    for journal in journals:
        folded = harness.gpucluster("report", str(journal.parent))
        # Written; an interrupted run answers nothing.
        assert folded.returncode == 1, folded.stderr
        assert (journal.parent / "report.html").is_file()
