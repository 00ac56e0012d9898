"""Alignment of pods as training has them."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.numa import guaranteed_pods as judge
from pytest_gpucluster.judge.numa import one_numa_node
from pytest_gpucluster.judge.numa import rejected_member as rejected
from pytest_gpucluster.judge.numa.alignment import every_node_tried

from ..scenarios.alignment import alignment
from ..scenarios.guaranteed import guaranteed
from ..scenarios.rejected_member import rejected_member


@requirement(
    "NUMA-004",
    level="should",
    documents="P",
    scenario=alignment,
    judge=one_numa_node.one_numa_node,
    presupposes=[every_node_tried, one_numa_node.two_on_the_machine],
)
def test_all_parts_of_a_pod_share_a_numa_node(settle: Callable[[], None]) -> None:
    """CPUs, memory, GPUs and network functions share the NUMA node.

    A Guaranteed pod's CPUs, its memory, its GPUs and its network functions SHOULD all be on one NUMA node, according
    to what the machine itself reports inside the pod.
    """
    settle()


@requirement(
    "NUMA-007",
    level="must",
    documents="P",
    scenario=guaranteed,
    judge=judge.holds_for_training_pods,
    presupposes=[every_node_tried],
)
def test_training_pods_are_aligned_and_have_their_cpus(settle: Callable[[], None]) -> None:
    """Alignment holds with init containers and whole CPUs.

    A Guaranteed pod with an init container and whole CPUs MUST be rejected if it fits no NUMA node, and aligned if it
    fits one. It MUST have the QoS class and the CPUs that the profile declares for training pods.
    """
    settle()


@requirement(
    "NUMA-008",
    level="should",
    documents="P",
    scenario=rejected_member,
    judge=rejected.ends_or_restarts,
    presupposes=[every_node_tried, rejected.member_rejected],
)
def test_a_rejected_member_keeps_nobody_waiting(settle: Callable[[], None]) -> None:
    """A gang with a rejected member ends or starts again.

    If the kubelet rejects one member of a gang, the gang SHOULD end or be attempted again within its bound, and no
    more often than allowed. It SHOULD NOT keep its other members waiting.
    """
    settle()
