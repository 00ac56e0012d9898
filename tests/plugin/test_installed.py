"""The card's command in processes of their own: with small suites in an installation, and with the real ones here."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.plugin.conftest import HEAD, HERE, QUIET, ROOT
from tests.plugin.test_options import KUBECONFIG, PROFILE
from tests.plugin.test_shipped import ROW

FAILS = ROW.replace("passes", "fails")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder in which the plugin is installed as from a wheel, with suites of three rows of which one fails."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "pytest_gpucluster"
    shutil.copytree(ROOT / "pytest_gpucluster", package, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / "pytest_gpucluster-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-gpucluster\nVersion: 0.0.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\ngpucluster = pytest_gpucluster.plugin\n")
    (folder / "doubles.py").write_text((HERE / "doubles.py").read_text())
    suites = package / "suites"
    suites.mkdir()
    (suites / "__init__.py").write_text("import doubles\n\ndoubles.install()\n")
    for area, row in (
        ("gang", ROW.format(id="GANG-001", name="gang")),
        ("fabric", FAILS.format(id="FAB-001", name="fabric")),
    ):
        (suites / area).mkdir()
        (suites / area / "__init__.py").touch()
        (suites / area / f"test_{area}.py").write_text(HEAD + row)
    (suites / "fabric" / "test_more.py").write_text(HEAD + ROW.format(id="FAB-002", name="more"))
    return folder


@pytest.fixture
def folder(tmp_path):
    """An empty folder with a profile."""
    clusters = tmp_path / "clusters"
    clusters.mkdir()
    (clusters / "prod-a.yaml").write_text(PROFILE)
    (clusters / "kubeconfig").write_text(KUBECONFIG)
    return tmp_path


def run(folder, *args, path=(), code=0):
    """Run pytest in a folder, and return what it says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GPUCLUSTER_"))}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *QUIET[:2], *QUIET[4:], *args],
        cwd=folder, env={**kept, "PYTHONPATH": os.pathsep.join(map(str, path))}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_from_an_installation_with_each_way_to_select(site, folder):
    """Workers, the last failed ones, names, no cache, collection only: all of the same rows."""
    (folder / "pytest.toml").write_text(
        '[pytest]\nstrict = true\nfilterwarnings = ["error"]\ntestpaths = ["own"]\n'
    )
    (folder / "own").mkdir()
    (folder / "own" / "test_own.py").write_text("def test_own(): assert False\n")
    (folder / "own" / "test_fine.py").write_text("def test_fine(): pass\n")
    here = {"path": [site]}
    listed = run(folder, "--cluster=prod-a", "--co", "-q", **here)
    assert [line.rpartition("::")[2] for line in listed.splitlines() if "::" in line] == [
        "test_fine", "test_own", "test_gang", "test_fabric", "test_more",
    ]  # fmt: skip
    assert "1 passed, 4 deselected" in run(
        folder, "--cluster=prod-a", "-k", "FAB-002", "-p", "no:cacheprovider", **here
    )
    said = run(folder, "--cluster=prod-a", "-n", "2", **here, code=1)
    assert "2 failed, 3 passed" in said
    print(said)
    again = run(folder, "--cluster=prod-a", "--lf", "-v", **here, code=1)
    print(again)
    assert "2 failed" in again
    assert "test_fabric" in again
