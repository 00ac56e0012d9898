"""Profiles are looked for from the present folder up to the root of the project."""

from pathlib import Path

import pytest

from pytest_gpucluster.cli import common
from pytest_gpucluster.plain import folders

PROFILE = """
connection: {kubeconfig: kubeconfig, context: c}
scheduler: volcano
queue: training
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
"""


def test_each_folder_up_to_the_root_and_its_clusters_the_nearest_first() -> None:
    """Nothing above the root of the project is looked at."""
    root = Path("/home/site")
    assert [str(path) for path in folders.upwards(root / "a", root)] == [
        "/home/site/a/clusters", "/home/site/a", "/home/site/clusters", "/home/site",
    ]  # fmt: skip


def test_a_root_elsewhere_comes_after_the_present_folder() -> None:
    """A run may be told another root folder; what lies between is nobody's."""
    assert [str(path) for path in folders.upwards(Path("/tmp/here"), Path("/srv"))] == [
        "/tmp/here/clusters", "/tmp/here", "/srv/clusters", "/srv",
    ]  # fmt: skip


@pytest.mark.parametrize("name", folders.ROOT_FILES)
def test_the_root_has_a_file_of_a_project(tmp_path: Path, name: str) -> None:
    """The nearest such folder is it; a folder in no project is its own."""
    below = tmp_path / "site" / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "site" / name).touch()
    assert folders.root_of(below) == tmp_path / "site"


def test_commands_find_the_profiles_that_pytest_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a subfolder too."""
    (tmp_path / "pytest.toml").touch()
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "prod-a.yaml").write_text(PROFILE)
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path / "results")
    monkeypatch.delenv("GPUCLUSTER_PROFILES", raising=False)
    loaded = common.load_profile("prod-a", ())
    assert loaded.file == tmp_path / "clusters" / "prod-a.yaml"
