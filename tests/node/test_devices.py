"""Device manager and Topology Manager. Pure; the pairs of requests are those recorded from kubelets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.node.config import TOPOLOGY_POLICIES, NodeSpec
from pytest_gpucluster.node.devices import AdmissionError, Device, DeviceManager, node_devices

RESOURCE = "nvidia.com/gpu"


def manager(policy: str, gpus: int = 8, numa: int = 2) -> DeviceManager:
    """Return the devices of a fresh node."""
    return DeviceManager(NodeSpec("n", gpus=gpus, numa=numa, topology_policy=policy), RESOURCE)


def numa_of(given: list[Device]) -> list[int]:
    """Return the NUMA node of each device."""
    return [device.numa for device in given]


@pytest.mark.parametrize(
    ("policy", "five", "three"),
    [
        ("single-numa-node", False, True),
        ("restricted", True, False),
        ("best-effort", True, True),
        ("none", True, True),
    ],
)
def test_policies_are_told_apart_by_five_then_three(policy: str, five: bool, three: bool) -> None:
    """Of eight GPUs in two halves, five and then three are admitted or refused as recorded with kubelet v1.34.3."""
    devices = manager(policy)
    for uid, count, admitted in (("a", 5, five), ("b", 3, three)):
        if admitted:
            assert len(devices.admit(uid, {"c": count})["c"]) == count
            continue
        with pytest.raises(
            AdmissionError, match="Resources cannot be allocated with Topology locality"
        ) as caught:
            devices.admit(uid, {"c": count})
        assert caught.value.reason == "TopologyAffinityError"


def test_a_spanning_request_leaves_some_on_both_nodes() -> None:
    """Five of eight take three from one NUMA node and two from the other, as recorded."""
    ids = manager("restricted").admit("a", {"c": 5})["c"]
    assert sorted(numa_of(ids)) in ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])


@pytest.mark.parametrize("policy", TOPOLOGY_POLICIES)
def test_requests_keep_to_one_numa_node(policy: str) -> None:
    """Three, then four, then one of eight GPUs each lie on one NUMA node, whatever the policy."""
    devices = manager(policy)
    held = [devices.admit(str(n), {"c": n})["c"] for n in (3, 4, 1)]
    assert [len(set(numa_of(ids))) for ids in held] == [1, 1, 1]
    assert len({i for ids in held for i in ids}) == 8


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("none", "UnexpectedAdmissionError"), ("single-numa-node", "TopologyAffinityError")],
)
def test_shortage(policy: str, reason: str) -> None:
    """A plain shortage is UnexpectedAdmissionError, and TopologyAffinityError under a strict policy."""
    devices = manager(policy, gpus=1, numa=1)
    devices.admit("a", {"c": 1})
    with pytest.raises(AdmissionError) as caught:
        devices.admit("b", {"c": 1})
    assert caught.value.reason == reason


def test_devices_come_back() -> None:
    """What a pod held is free once it is released; releasing twice is no error."""
    devices = manager("none")
    devices.admit("a", {"c": 8})
    devices.release("a")
    devices.release("a")
    assert len(devices.free()) == 8


def test_refused_pod_holds_nothing() -> None:
    """When the second container of a pod is refused, the first one's devices are free again."""
    devices = manager("single-numa-node")
    with pytest.raises(AdmissionError):
        devices.admit("a", {"one": 3, "two": 5})
    assert len(devices.free()) == 8


def test_ids_and_halves() -> None:
    """A node of eight GPUs and two NUMA nodes has ids 0 to 3 on the first and 4 to 7 on the second."""
    assert [(d.id, d.numa) for d in node_devices(NodeSpec("n"))] == [
        (f"GPU-fake-{i}", i // 4) for i in range(8)
    ]


@given(
    st.sampled_from(TOPOLOGY_POLICIES), st.integers(1, 4), st.lists(st.integers(1, 9), max_size=12), st.data()
)
def test_no_device_is_held_twice(policy: str, numa: int, requests: list[int], data: st.DataObject) -> None:
    """Whatever is asked and released, each device is held once at most, and admitted pods have what they asked for."""
    devices = manager(policy, numa=numa)
    held: dict[str, list[Device]] = {}
    for number, count in enumerate(requests):
        if held and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(held)))
            devices.release(gone)
            del held[gone]
        try:
            held[str(number)] = devices.admit(str(number), {"c": count})["c"]
            assert len(held[str(number)]) == count
        except AdmissionError:
            pass
        taken = [i for ids in held.values() for i in ids]
        assert len(taken) == len(set(taken))
        assert len(devices.free()) == 8 - len(taken)
