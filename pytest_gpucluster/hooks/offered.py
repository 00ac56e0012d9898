"""Whether any node offers the declared GPU resource: asked once, before the first row."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run


def check(run: "Run") -> str:
    """Return why it could not be checked, in one line; "" where a node offers the resource, or the run makes its nodes.

    Raises:
        pytest.UsageError: no node offers it; says what the nodes offer.
    """
    told = run.settings
    if told.plan or told.reuse is not None:
        return ""
    from pytest_gpucluster.scenario import offered

    found = offered.ask(run.loaded)
    if found.problem:
        raise pytest.UsageError(found.problem)
    return found.note
