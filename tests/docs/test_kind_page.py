"""What the page about kind says of versions and images is what the rows need."""

from pathlib import Path

import pytest

from pytest_gpucluster.embedded.kueue import names as kueue
from pytest_gpucluster.embedded.volcano import names as volcano
from pytest_gpucluster.embedded.volcano.plugins import pytorch
from pytest_gpucluster.provider.kind import addons
from pytest_gpucluster.requirement import catalogue

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "run-on-kind.md").read_text(
    encoding="utf-8"
)


@pytest.mark.parametrize("version", [volcano.VERSION, kueue.VERSION])
def test_versions_are_those_that_the_embedded_cluster_follows(version: str) -> None:
    """Another version behaves otherwise."""
    assert f"v{version.removeprefix('v')}" in PAGE


def test_the_image_that_waits_for_the_master_is_the_default_of_the_plugin() -> None:
    """And the rows that wait are named."""
    (image,) = [
        word for word in pytorch.__dict__.values() if isinstance(word, dict) and "wait-master-image" in word
    ]
    assert image["wait-master-image"] in PAGE
    for row in ("PLG-002", "PLG-010", "PLG-013"):
        assert row in PAGE
        assert catalogue.row(row) is not None


def test_files_of_the_folder_are_ones_that_the_provider_reads() -> None:
    """Manifests and archives by their endings."""
    listed = PAGE.partition("addons/\n")[2].partition("```")[0].split("\n")
    files = [line.split()[0] for line in listed if "." in line.partition("#")[0]]
    assert len(files) == 5
    assert all(name.endswith(addons.MANIFESTS + addons.ARCHIVES) for name in files)
