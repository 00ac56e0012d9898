"""Where a fabric between machines can be switched off, and where there is nothing between them."""

import types

import pytest

from pytest_gpucluster.provider import ONE_MACHINE
from pytest_gpucluster.scenario import NotApplicable
from suites.scenarios import collectives


def stage(*features):
    """Return as much of a stage as is read before anything is submitted."""
    return types.SimpleNamespace(
        cluster=types.SimpleNamespace(features=frozenset(features)),
        profile=types.SimpleNamespace(fabric=None),
    )


def test_one_machine_has_no_fabric_between_machines():
    """The cluster says so, whichever provider made it."""
    with pytest.raises(NotApplicable, match="lies between machines; here is one"):
        collectives.run_sockets(stage(ONE_MACHINE))
    with pytest.raises(NotApplicable, match="does not declare `fabric`"):
        collectives.run_sockets(stage())
