"""What the wheel holds: the package, the suites, the payloads and their data; no recordings."""

import os
import subprocess
import sys

import pytest

from tests.endtoend import harness

MOVED = {
    "pytest_gpucluster": "pytest_gpucluster",
    "suites": "pytest_gpucluster/suites",
    "payloads": "pytest_gpucluster/payloads",
    **{
        f"fixtures/{name}": f"pytest_gpucluster/data/{name}"
        for name in ("floors", "health", "images", "manifests", "policies", "profiles", "security")
    },
}
"""Folder of the checkout -> folder of the installed package."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The unpacked wheel."""
    return harness.wheel_site(tmp_path_factory)


def files(folder):
    """Return the files below a folder, but for what Python compiled, by their paths from there."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)) for path in paths}


def test_the_wheel_holds_these_folders_and_nothing_else(site):
    """A file that is forgotten and a folder that is not meant for users both show; recordings are such a folder."""
    wanted = {f"{into}/{name}" for folder, into in MOVED.items() for name in files(harness.ROOT / folder)}
    assert {name for name in files(site) if ".dist-info/" not in name} == wanted


NEEDS = """
from pathlib import Path
import pytest_gpucluster
from pytest_gpucluster.measure import bus_floors, shipped
from pytest_gpucluster.provider.kind import payload as image
from pytest_gpucluster.workload import payload

package = Path(pytest_gpucluster.__file__).parent
assert image.folder() == package / "data" / "images" / "payload"
assert payload.payload_folder() == package / "payloads"
assert bus_floors.shipped("bus_bandwidth") and shipped.load("gpu_peaks") and shipped.load("products")
"""
"""Data that the plugin reads, each from the place where an installation has it."""

CLI = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    "command", [(NEEDS,), (CLI, "describe", "requirements"), (CLI, "describe", "defects")]
)
def test_an_installation_has_what_it_reads(site, tmp_path, command):
    """The plugin finds its data, and the command catalogue, suites and defects, with the wheel alone."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", *command], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
