"""Nodes that are kept back for their health."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.health import quarantine
from pytest_gpucluster.judge.inventory import gpu_count

from ..scenarios.inventory import inventory


@requirement(
    "HLT-005",
    level="should",
    documents="+",
    scenario=inventory,
    judge=quarantine.named_and_ending,
    presupposes=[gpu_count.nodes_listed],
)
def test_a_quarantine_names_its_fault_and_its_end(settle: Callable[[], None]) -> None:
    """A quarantine names its fault and its end.

    For each node that is kept back for its health, by a cordon or by a label or a taint of a health system, an open
    fault SHOULD be named, with how the quarantine ends. One without an open fault, and one whose repair has failed, is
    reported. Planned work, such as maintenance or an update of the driver, is no quarantine.
    """
    settle()
