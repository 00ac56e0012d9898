"""Fixtures of the node tests."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.node import sandbox
from tests.node.harness import Nodes, started


@pytest.fixture(scope="session")
def sandboxes() -> None:
    """Skip where the machine refuses sandboxes."""
    refusal = sandbox.probe()
    if refusal is not None:
        pytest.skip(refusal)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a path short enough for Unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="gc-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def nodes(sandboxes: None) -> Iterator[Nodes]:
    """Two nodes of eight GPUs, shared by the tests of a module; pods have names of their own."""
    folder = Path(tempfile.mkdtemp(prefix="gc-", dir="/tmp"))
    with started(folder) as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture
def start(sandboxes: None, short_folder: Path) -> Iterator[Callable[..., Nodes]]:
    """Start nodes with a configuration of the test's own."""
    with ExitStack() as stack:

        def begin(**config: Any) -> Nodes:
            return stack.enter_context(started(short_folder / "s", **config))

        yield begin
