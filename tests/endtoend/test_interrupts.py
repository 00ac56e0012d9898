"""A run that is ended at any moment leaves no process and an intact journal."""

import os
import pathlib
import signal
import subprocess
import time

import pytest

from tests.endtoend import harness
from tests.interrupting import LISTENS_TO_CTRL_C

pytestmark = pytest.mark.slow

MOMENTS = {
    "at once": 0.0,
    "cluster comes up": 1.5,
    "first scenarios": 3.5,
    "in the middle": 6.0,
}
"""Name of a moment -> seconds after the first line of the run."""


def _begin(report_dir: pathlib.Path, mark: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # An interrupt inside an import leaves a file object of the interpreter's to the garbage collector; this
        # repository's own "warnings are errors" would make that a traceback.
        [
            *LISTENS_TO_CTRL_C,
            *harness.suite_command(report_dir, "-m", "not torch", "-p", "no:unraisableexception"),
        ],
        cwd=harness.ROOT,
        env={**os.environ, "RUN_MARK": mark},
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


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_a_run_may_be_ended_at_any_moment(moment, how, tmp_path):
    """No process is left, the journal reads, and a report can be made of what was decided."""
    mark = f"mark-{tmp_path.name}-{how.name}"
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    with _begin(tmp_path, mark) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("gpucluster:"):
            assert process.poll() is None
        time.sleep(MOMENTS[moment])
        process.send_signal(how)
        output, _ = process.communicate(timeout=60)
    _await_none(mark)
    assert pathlib.Path("/proc/self/mountinfo").read_text() == mounts
    assert "Traceback" not in output, output[-3000:]
    if how is not signal.SIGKILL:
        assert process.returncode in {2, 130, -how.value}, output[-2000:]
    journals = list(tmp_path.glob("*/run.jsonl"))
    for journal in journals:
        folded = harness.gpucluster("report", str(journal.parent))
        assert folded.returncode == 0, folded.stderr
        assert (journal.parent / "report.html").is_file()
