"""A report folder that takes no more: one clear line, a run that is not green, a clean cluster."""

import resource
import subprocess

import pytest

from pytest_gpucluster.node import sandbox
from tests.endtoend import harness

pytestmark = pytest.mark.slow


def limited(report_dir, size, *args):
    """Run the suite where no file may grow beyond `size` bytes."""
    return subprocess.run(
        harness.suite_command(report_dir, *args),
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def lines_of(done):
    """Return what was said of the folder."""
    return [line for line in (done.stdout + done.stderr).splitlines() if "the run ends here" in line]


@pytest.mark.parametrize("size", [40_000, 600_000], ids=["journal", "evidence"])
def test_a_file_that_may_not_grow_ends_the_run(size, tmp_path):
    """Whichever file it is, the run ends with one line that names it, is not green, and keeps what was decided."""
    done = limited(tmp_path, size, "-k", "REF-003 or GANG-002 or GANG-004 or REF-001")
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = set(lines_of(done))
    assert "File too large" in line
    assert str(harness.run_folder(tmp_path)) in line
    assert "Traceback" not in done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "left over" not in done.stdout + done.stderr
    assert not harness.processes_below(str(tmp_path))


def test_a_full_disk_ends_the_run(tmp_path):
    """A small file system under the report folder: no space left, and nothing is decided from half of the evidence."""
    problem = sandbox.probe()
    if problem is not None:
        pytest.skip(problem)
    disk = tmp_path / "disk"
    disk.mkdir()
    suite = harness.suite_command(disk, "-k", "GANG-002 or GANG-004")
    script = 'mount -t tmpfs -o size=400k tmpfs "$0" && shift 0 && exec "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(disk), *suite],
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = set(lines_of(done))
    assert "No space left on device" in line
    assert "Traceback" not in done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
