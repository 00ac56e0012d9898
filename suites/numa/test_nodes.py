"""Nodes align pods to NUMA nodes, by what their kubelets say and by what they do."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.numa import alignment, kubelet_policy, numa_room
from pytest_gpucluster.judge.numa import shared as presupposed

from ..scenarios.numa import numa


@requirement(
    "NUMA-001",
    level="must",
    documents="P",
    scenario=numa,
    judge=kubelet_policy.policy_set,
    presupposes=[],
)
def test_every_gpu_node_runs_the_declared_policy(settle: Callable[[], None]) -> None:
    """Every GPU node runs the declared Topology Manager policy.

    Every GPU node MUST run the Topology Manager policy and scope that the profile declares (single-numa-node for
    whole pods). Evidence is what its kubelet reports and what it does with pods. What may not be read is unknown,
    never assumed.
    """
    settle()


@requirement(
    "NUMA-002",
    level="must",
    documents="P",
    scenario=numa,
    judge=alignment.misfit_rejected,
    presupposes=[alignment.every_node_tried],
)
def test_a_pod_too_large_for_a_numa_node_is_rejected(settle: Callable[[], None]) -> None:
    """A pod that fits no NUMA node is rejected and never runs.

    A pod asks for more GPUs than one NUMA node has, for no more than the node has, and for no whole CPUs. The kubelet
    MUST reject it with TopologyAffinityError, and none of its containers may ever start.
    """
    settle()


@requirement(
    "NUMA-003",
    level="must",
    documents="P",
    scenario=numa,
    judge=alignment.on_one_numa_node,
    presupposes=[alignment.every_node_tried, presupposed.two_numa_nodes, numa_room.room_on_one],
)
def test_the_devices_of_a_fitting_pod_lie_on_one_numa_node(settle: Callable[[], None]) -> None:
    """The devices of a pod that fits lie on one NUMA node.

    A pod that one NUMA node can serve MUST be admitted, and all its devices MUST be on one NUMA node. It may be any
    NUMA node with room.
    """
    settle()


@requirement(
    "NUMA-005",
    level="must",
    documents="P",
    scenario=numa,
    judge=kubelet_policy.told_apart,
    presupposes=[alignment.every_node_tried, presupposed.two_numa_nodes],
)
def test_other_policies_are_told_apart(settle: Callable[[], None]) -> None:
    """The policies restricted and best-effort differ from single-numa-node.

    Every node that is tried MUST behave as the declared policy and as no other. One pod fits no NUMA node; another
    asks for what the first one leaves. The policy single-numa-node admits only the second, restricted admits only the
    first, and the others admit both.
    """
    settle()


@requirement(
    "NUMA-006",
    level="must",
    documents="P",
    scenario=numa,
    judge=alignment.topology_reported,
    presupposes=[alignment.every_node_tried],
)
def test_the_device_plugin_reports_numa_nodes(settle: Callable[[], None]) -> None:
    """The device plugin reports the NUMA node of every device.

    The device plugin of every GPU node MUST report the NUMA node of each of its devices. Without that, no policy ever
    acts, and pods straddle NUMA nodes without any sign.
    """
    settle()
