"""How much is tried, which tests are pure and held to it, and in which order workers begin."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_gpucluster.node import images
from tests import amount, order, pure

WATCH = pure.Watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choices of `make everything` and `make quick`."""
    parser.addoption(
        "--everything",
        action="store_true",
        help="try each property with its full number of examples, not with a quarter of it",
    )
    parser.addoption("--pure", action="store_true", help="run only the tests that do nothing but compute")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how much is tried before any property is imported, and how the processes that tests start begin."""
    amount.choose(everything=config.getoption("everything"))
    if not amount.all_of_it():
        start_sooner()
    config.addinivalue_line(
        "markers", f"{order.LONG}: waits for minutes or starts torch; workers begin with them"
    )


def start_sooner() -> None:
    """Spare every interpreter that is started from here, workers first, the garbage collection of its imports.

    Hundreds are started, most of them only to import pytest or torch and to end: it is a quarter of their CPU time.
    """
    sooner, given = str(images.STARTUP), os.environ.get("PYTHONPATH", "")
    if sooner not in given.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sooner, given)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --pure leave the other folders alone: importing torch takes longer than many a test."""
    if (
        config.getoption("pure")
        and pure.HERE in collection_path.parents
        and not pure.is_pure(collection_path)
    ):
        return True
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each worker begin with its part of what takes longest; after the shuffle."""
    items[:] = order.spread(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the collector of cycles leave all tests alone: a run within a test looks through all there is ten times."""
    del session
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Hold pure tests to it."""
    if not (pure.HERE in item.path.parents and pure.is_pure(item.path)):
        return (yield)
    WATCH.begin()
    try:
        result = yield
    finally:
        seen = WATCH.end()
    assert not seen, f"a pure test (tests/pure.py) only computes, this one did {'; '.join(seen)}"
    return result
