"""RDMA adapters as pods see them."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.fabric import adapter_ports

from ..scenarios.adapters import adapters


@requirement(
    "FAB-007",
    level="must",
    documents="R P",
    scenario=adapters,
    judge=adapter_ports.open_and_active,
    presupposes=[adapter_ports.node_tried],
)
def test_a_pod_opens_its_rdma_device_and_its_port_is_up(settle: Callable[[], None]) -> None:
    """The RDMA device opens and its port is up at the declared rate.

    A pod on each GPU node that asks for the declared RDMA resource MUST be able to open every device file that it is
    given. Each of these adapters MUST have an active port, with the declared rate and link layer.
    """
    settle()
