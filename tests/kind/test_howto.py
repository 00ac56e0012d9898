"""The how-to "Test your own cluster" on kind: a site's own tests against real components."""

import json
import subprocess
import sys

import pytest

from tests.fixtures import howto
from tests.inner import QUIET
from tests.kind import lab

pytestmark = pytest.mark.kind


def test_the_page_on_real_components(kind_lab, tmp_path):
    """Each test of the page passes, or does not apply to what this cluster declares; nothing is left."""
    howto.write(tmp_path)
    folder = kind_lab.as_existing("site")
    command = [
        sys.executable, "-m", "pytest", ".", "-q", *QUIET, "--cluster=site",
        f"--gpucluster-profiles={folder}", f"--gpucluster-report-dir={tmp_path / 'reports'}",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=lab.plain_environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    sys.stdout.write(done.stdout + done.stderr)
    report = json.loads((tmp_path / "reports" / "latest" / "report.json").read_text(encoding="utf-8"))
    told = {one["nodeid"].rpartition("::")[2]: one["outcome"] for one in report["site_tests"]}
    assert done.returncode == 0
    assert told["test_a_gang_that_fits_runs"] == "passed"
    assert told["test_our_image_starts_on_every_gpu_node"] == "passed"
    assert set(told.values()) <= {"passed", "not_applicable"}, told
    assert {row["id"]: row["verdict"] for row in report["requirements"]} == {"SITE-001": "pass"}
    assert (report["cleanup"]["done"], report["cleanup"]["left_overs"]) == (True, [])
