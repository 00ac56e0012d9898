"""One kind cluster for all tests of this folder; it stays, so that a second run need not make it."""

import sys

import pytest

from pytest_gpucluster import provider
from pytest_gpucluster.provider.kind import engine
from tests.kind import lab


@pytest.fixture(scope="session")
def kind_lab(tmp_path_factory):
    """The cluster, made where it is missing; skipped where there is no kind or no engine."""
    loaded = lab.loaded()
    try:
        provider.verify(loaded)
    except provider.ProviderError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("kind")
    with provider.start(loaded, folder / "cluster") as cluster:
        yield lab.Lab(cluster, loaded.profile.model_dump(mode="json"), engine.find().program, folder)


@pytest.fixture(scope="session")
def show(request):
    """Write a text past pytest's capture: tables are for the reader of a run that is green, too."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def write(text):
        with capture.global_and_fixture_disabled():
            sys.stdout.write(f"\n{text}")

    return write
