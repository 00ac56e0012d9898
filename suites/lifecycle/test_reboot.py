"""What becomes of members whose node is restarted."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.lifecycle import node_reboot as judge

from ..scenarios.reboot import reboot


@requirement(
    "LIFE-011",
    level="should",
    documents="+",
    scenario=reboot,
    judge=judge.replaced_once,
    presupposes=[judge.restarted],
)
def test_a_restarted_node_loses_each_member_once(settle: Callable[[], None]) -> None:
    """A node's restart replaces its members once.

    After a restart of their node, every lost member SHOULD be replaced exactly once and run again. A replacement
    SHOULD NOT be rejected because the node's device plugin starts late.
    """
    settle()
