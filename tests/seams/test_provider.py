"""A kind of cluster that this package does not know: its provider is one class and one entry."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster import profile, provider
from pytest_gpucluster.provider import cluster_of_run
from pytest_gpucluster.provider.protocol import Cluster, Started


class Toy:
    """Makes a file, and calls it a cluster."""

    start_limit = 1.5
    real = True

    def __init__(self, keep: bool) -> None:
        """Take whether the cluster of a run stays."""
        self._keep = keep

    def verify(self, loaded: profile.LoadedProfile) -> None:
        """Nothing is needed."""

    def completed(self, loaded: profile.LoadedProfile) -> profile.LoadedProfile:
        """Tell how many GPUs a node has."""
        return dataclasses.replace(loaded, profile=loaded.profile.model_copy(update={"gpus_per_node": 3}))

    def start(
        self, loaded: profile.LoadedProfile, run_folder: Path, *, defects: Sequence[str], owner_pid: int
    ) -> tuple[Started, Sequence[Any]]:
        """Make the file."""
        made = run_folder / "toy"
        made.write_text("a cluster")
        cluster = Cluster(loaded.profile.name, "toy", str(made), "toy")
        return Started(cluster, undo=None if self._keep else {"file": str(made)}), ()

    def kept(self, loaded: profile.LoadedProfile, run_folder: Path, *, asked: bool) -> str:
        """Name the file."""
        return f"{run_folder / 'toy'}; remove it with: rm" if asked else ""

    def undo(self, undo: Mapping[str, str]) -> str:
        """Remove the file; say so if it is not there."""
        file = Path(undo["file"])
        if not file.exists():
            return f"{file.name} is not there"
        file.unlink()
        return ""


@pytest.fixture
def loaded(monkeypatch):
    """A profile that names the provider."""
    monkeypatch.setitem(cluster_of_run.PROVIDERS, "toy", Toy)
    known = profile.load("embedded")
    return dataclasses.replace(known, profile=known.profile.model_copy(update={"provider": "toy"}))


def test_it_is_asked_for_all_that_differs(loaded, tmp_path):
    """Completion, limit, what stays, and whether what a run makes outlives it."""
    provider.verify(loaded)
    assert provider.completed(loaded).profile.gpus_per_node == 3
    assert provider.of(loaded).real is True
    assert provider.of(loaded).kept(loaded, tmp_path, asked=True).endswith("remove it with: rm")


def test_a_cluster_is_made_found_again_and_undone(loaded, tmp_path):
    """Another process of the run finds it by its file; its owner removes it through the provider."""
    first = provider.obtain(loaded, tmp_path)
    second = provider.obtain(loaded, tmp_path)
    assert (first.owned, second.owned) == (True, False)
    assert second.cluster == first.cluster
    assert json.loads((tmp_path / provider.CLUSTER_FILE).read_text())["undo"]["file"].endswith("toy")
    assert first.close() == []
    assert not (tmp_path / "toy").exists()
    assert not (tmp_path / provider.CLUSTER_FILE).exists()


def test_what_could_not_be_undone_is_told(loaded, tmp_path):
    """In one line, and the file by which a later try finds it stays."""
    made = provider.obtain(loaded, tmp_path)
    (tmp_path / "toy").unlink()
    assert made.close() == ["toy is not there"]
    assert (tmp_path / provider.CLUSTER_FILE).exists()


def test_who_asked_to_keep_it_keeps_it(loaded, tmp_path):
    """Nothing is undone."""
    provider.obtain(loaded, tmp_path, keep=True).close()
    assert (tmp_path / "toy").exists()


def test_what_cannot_be_written_down_is_undone(loaded, tmp_path, monkeypatch):
    """A cluster that the run's folder does not name would be found by nobody."""

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(cluster_of_run, "_write", full)
    with pytest.raises(OSError, match="no space left"):
        provider.obtain(loaded, tmp_path)
    assert not (tmp_path / "toy").exists()
