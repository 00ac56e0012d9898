"""Fake programs on PATH, a state folder of the test's own, and the API server of a new cluster."""

import threading

import pytest

from pytest_gpucluster.provider.kind import payload
from tests.provider.kind import fakes


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Fake `kind` and `docker`, found before any real ones."""
    made = fakes.Programs(tmp_path / "fakes")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    for name in ("DOCKER_HOST", "KIND_EXPERIMENTAL_PROVIDER", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    source = tmp_path / "images" / "payload"
    source.mkdir(parents=True)
    (source / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setattr(payload, "folder", lambda: source)
    return made


@pytest.fixture
def api(programs):
    """The API server of whatever cluster is made."""
    server = fakes.Api()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    programs.serve(server.url)
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)
