"""Containers and the GPUs of their nodes."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.health import device_isolation as judge

from ..scenarios.access import access


@requirement(
    "HLT-004",
    level="must",
    documents="+",
    scenario=access,
    judge=judge.sees_its_own,
    presupposes=[judge.node_tried],
    defects=[
        "node.devices-leak",
        "health.sees-all",
        "health.none-sees-one",
        "health.shares-a-gpu",
        "health.other-than-told",
        "health.sees-nothing",
        "health.untold",
    ],
)
def test_a_container_sees_the_gpus_that_it_was_granted(settle: Callable[[], None]) -> None:
    """A container sees the GPUs it was granted and no others.

    By its device files and by what its driver lists, a container MUST reach exactly as many GPUs as it asked for, no
    two containers the same one, and a container that asked for none MUST reach none.
    """
    settle()
