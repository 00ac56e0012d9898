"""Fixtures of the control plane's tests: one process per test session, one namespace per test."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.embedded.support import Api, control_plane


@pytest.fixture(scope="session")
def plane() -> Iterator[dict[str, Any]]:
    """A control plane without Volcano whose watches send a bookmark every 0.2 s."""
    with control_plane({"volcano": False, "bookmark_seconds": 0.2, "job_backoff_seconds": 0.01}) as ready:
        yield ready


@pytest.fixture
def api(plane: dict[str, Any]) -> Api:
    """A client of the control plane."""
    return Api(plane["url"])


@pytest.fixture
def ns(api: Api) -> Iterator[str]:
    """A namespace of its own, deleted afterwards."""
    made = api.ok("POST", "/api/v1/namespaces", {"metadata": {"generateName": "t-"}})
    name = made["metadata"]["name"]
    yield name
    api.call("DELETE", f"/api/v1/namespaces/{name}")
