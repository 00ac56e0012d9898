"""Fixtures of the driver's tests: a fake API server and a connection to it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_gpucluster.kube import connection, errors, objects, retry

from . import fake_api

QUICK = retry.Limits(connect=2.0, read=0.3, attempts=4, total=10.0, first_pause=0.01, longest_pause=0.05)


@pytest.fixture
def fake() -> Iterator[fake_api.FakeApi]:
    """Run a fake API server."""
    with fake_api.serving() as server:
        yield server


@pytest.fixture
def api(fake: fake_api.FakeApi) -> Iterator[objects.Objects]:
    """Connect to the fake API server, with short patience."""
    opened = connection.Connection.at(fake.url, limits=QUICK)
    yield objects.Objects(opened)
    opened.close()


class Sink:
    """Keeps what a watch says and the state that follows from it."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.lock = threading.Condition()
        self.state: dict[str, dict[str, Any]] = {}
        self.lines: list[tuple[str, str]] = []
        self.syncs: list[tuple[str, float, str]] = []
        self.problem: errors.GpuClusterError | None = None

    def line(self, change: str, kind: str, obj: dict[str, Any], t: float) -> None:
        """Check that the change fits the state, and apply it."""
        with self.lock:
            name = obj["metadata"]["name"]
            self.lines.append((change, name))
            if change == "DELETED":
                assert self.state.pop(name)["metadata"]["uid"] == obj["metadata"]["uid"]
            else:
                assert (name in self.state) == (change == "MODIFIED")
                self.state[name] = obj
            self.lock.notify_all()

    def in_sync(self, kind: str, t: float, how: str) -> None:
        """Keep when and how."""
        with self.lock:
            self.syncs.append(("in", t, how))
            self.lock.notify_all()

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """Keep when and why."""
        with self.lock:
            self.syncs.append(("out", t, why))
            self.lock.notify_all()

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:
        """Keep the problem."""
        with self.lock:
            self.problem = error
            self.lock.notify_all()

    def until(self, check: Any, seconds: float = 10.0) -> bool:
        """Wait until `check` holds; report whether it does."""
        with self.lock:
            return self.lock.wait_for(check, seconds)

    def versions(self) -> dict[str, tuple[str, str]]:
        """Return uid and version of each object by name."""
        with self.lock:
            return _versions(self.state)


def _versions(state: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {n: (o["metadata"]["uid"], o["metadata"]["resourceVersion"]) for n, o in state.items()}


@pytest.fixture
def sink() -> Sink:
    """Keep what a watch says."""
    return Sink()
