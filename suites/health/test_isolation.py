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
)
def test_a_container_sees_the_gpus_that_it_was_granted(settle: Callable[[], None]) -> None:
    """A container sees the GPUs that it was granted, and no others.

    According to its device files and to its driver, a container MUST reach exactly as many GPUs as it asked for. Two
    containers MUST NOT reach the same GPU, and a container that asked for none MUST NOT reach any.
    """
    settle()
