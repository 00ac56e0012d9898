"""Faults of GPUs, as their drivers, the kernel and the cluster tell them."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.health import device_isolation, faults
from pytest_gpucluster.judge.inventory import gpu_count

from ..scenarios.gpu_health import gpu_health


@requirement(
    "HLT-002",
    level="must",
    documents="R",
    scenario=gpu_health,
    judge=faults.no_fault,
    presupposes=[gpu_count.nodes_listed, device_isolation.node_tried],
)
def test_no_gpu_has_a_pending_or_fatal_fault(settle: Callable[[], None]) -> None:
    """No GPU has a pending or fatal fault.

    No GPU MUST wait for a row remap or have one that failed, have uncorrected memory errors since its driver was
    loaded, or a fatal Xid in the kernel's log since the node was booted; none MUST be unhealthy for the device plugin
    or for a health system that sets node conditions. Errors that programs of users make are passed over. What the
    driver, the kernel and the cluster do not tell leaves the row undecided.
    """
    settle()
