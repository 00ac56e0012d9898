"""Device, CPU and Topology Manager. Pure; pairs of requests as recorded from kubelets, tables as their source says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.node.admission import Admission, Demand, demands
from pytest_gpucluster.node.config import TOPOLOGY_POLICIES, NodeSpec
from pytest_gpucluster.node.cpus import CpuManager
from pytest_gpucluster.node.devices import AdmissionError, Device, DeviceManager, node_devices
from pytest_gpucluster.node.topology import AFFINITY_REASON, Hint

RESOURCE = "nvidia.com/gpu"
STRICT = ("restricted", "single-numa-node")


def node(
    policy: str,
    gpus: int = 8,
    numa: int = 2,
    *,
    scope: str = "container",
    machine: int = 0,
    devices: tuple[Device, ...] = (),
    cpus: int = 64,
) -> Admission:
    """Return a fresh node; `machine` is how many NUMA nodes its kernel has where they differ from the plugin's."""
    nodes = range(machine or numa)
    manager = DeviceManager(devices or node_devices(NodeSpec("n", gpus=gpus, numa=numa)), RESOURCE, nodes)
    return Admission(policy, scope, manager, CpuManager(cpus, nodes, static=True), nodes)


def take(on: Admission, uid: str, gpus: int, cpus: int = 0) -> list[Device]:
    """Admit a pod of one container; returns its devices."""
    return list(on.admit(uid, [Demand("c", gpus, cpus)])["c"].devices)


def admits(on: Admission, *wanted: Demand) -> bool:
    """Report whether a pod is admitted; a refusal is about topology."""
    try:
        on.admit("pod", wanted)
    except AdmissionError as error:
        if error.reason != AFFINITY_REASON:
            raise
        return False
    return True


def numa_of(given: list[Device]) -> list[int | None]:
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
    on = node(policy)
    for uid, count, admitted in (("a", 5, five), ("b", 3, three)):
        if admitted:
            assert len(take(on, uid, count)) == count
            continue
        with pytest.raises(
            AdmissionError, match="Resources cannot be allocated with Topology locality"
        ) as caught:
            take(on, uid, count)
        assert caught.value.reason == "TopologyAffinityError"


FREE = {"empty": (0, 0), "1+1": (3, 3), "2+2": (2, 2)}
"""What is held of each half before the request."""


@pytest.mark.parametrize(
    ("gpus", "cpus", "state", "restricted", "single"),
    [
        (1, 0, "empty", True, True),
        (4, 0, "empty", True, True),
        (5, 0, "empty", True, False),
        (8, 0, "empty", True, False),
        (4, 8, "empty", True, True),
        (4, 33, "empty", False, False),
        (6, 4, "empty", False, False),
        (8, 32, "empty", False, False),
        (8, 40, "empty", True, False),
        (2, 0, "1+1", False, False),
        (4, 0, "2+2", False, False),
    ],
)
def test_what_two_resources_admit(gpus: int, cpus: int, state: str, restricted: bool, single: bool) -> None:
    """Four GPUs and 32 CPUs on each half: the hints of both are merged as the kubelet's source says."""
    for policy, admitted in zip(STRICT, (restricted, single), strict=True):
        on = node(policy)
        for half, held in enumerate(FREE[state]):
            on.devices.allocate("holder", held, Hint(frozenset({half}), preferred=True))
        assert admits(on, Demand("c", gpus, cpus)) is admitted, policy


@pytest.mark.parametrize(("scope", "restricted", "single"), [("pod", True, False), ("container", True, True)])
def test_two_containers_of_three(scope: str, restricted: bool, single: bool) -> None:
    """Scope pod looks at the sum of six, scope container at three and three."""
    for policy, admitted in zip(STRICT, (restricted, single), strict=True):
        assert admits(node(policy, scope=scope), Demand("a", 3), Demand("b", 3)) is admitted


def test_an_uneven_layout() -> None:
    """Where one half has six GPUs, six fit on it."""
    uneven = tuple(Device(f"GPU-fake-{i}", int(i >= 6)) for i in range(8))
    for policy in STRICT:
        assert numa_of(take(node(policy, devices=uneven), "a", 6)) == [0] * 6


@pytest.mark.parametrize("policy", STRICT)
def test_numa_ids_that_the_machine_lacks(policy: str) -> None:
    """On a machine with one NUMA node, ids of a second one are ignored: its devices cannot be had by themselves."""
    assert not admits(node(policy, machine=1), Demand("c", 5))
    on = node(policy, machine=1)
    assert len(take(on, "a", 4)) == 4
    assert not admits(on, Demand("c", 4))
    elsewhere = tuple(Device(f"GPU-fake-{i}", 1) for i in range(8))
    assert admits(node(policy, machine=1, devices=elsewhere), Demand("c", 1))
    assert admits(node(policy, numa=1), Demand("c", 8))


def test_one_numa_node_does_not_align() -> None:
    """The rejection works there, alignment does not: recorded, four GPUs came from both reported halves."""
    assert len(set(numa_of(take(node("single-numa-node", machine=1), "a", 3)))) == 2


@pytest.mark.parametrize("policy", TOPOLOGY_POLICIES)
def test_without_numa_ids_nothing_is_refused(policy: str) -> None:
    """Devices without topology give no hints, so that no policy acts on them."""
    plain = tuple(Device(f"GPU-fake-{i}", None) for i in range(8))
    assert len(take(node(policy, devices=plain), "a", 5)) == 5


def test_a_spanning_request_leaves_some_on_both_nodes() -> None:
    """Five of eight take three from one NUMA node and two from the other, as recorded."""
    assert sorted(map(str, numa_of(take(node("restricted"), "a", 5)))) in (list("00011"), list("00111"))


@pytest.mark.parametrize("policy", [p for p in TOPOLOGY_POLICIES if p != "none"])
def test_requests_keep_to_one_numa_node(policy: str) -> None:
    """Three, then four, then one of eight GPUs each lie on one NUMA node."""
    on = node(policy)
    held = [take(on, str(n), n) for n in (3, 4, 1)]
    assert [len(set(numa_of(each))) for each in held] == [1, 1, 1]
    assert len({device for each in held for device in each}) == 8


def test_no_policy_does_not_look() -> None:
    """Without a policy devices come from wherever they are free."""
    assert len(set(numa_of(take(node("none"), "a", 3)))) == 2


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("none", "UnexpectedAdmissionError"), ("single-numa-node", "TopologyAffinityError")],
)
def test_shortage(policy: str, reason: str) -> None:
    """A plain shortage is UnexpectedAdmissionError, and TopologyAffinityError under a strict policy."""
    on = node(policy, gpus=1, numa=1)
    take(on, "a", 1)
    with pytest.raises(AdmissionError) as caught:
        take(on, "b", 1)
    assert caught.value.reason == reason


def test_a_plugin_that_is_not_there() -> None:
    """Before the plugin has registered nothing can be allocated, and no policy is to blame."""
    on = node("none")
    on.devices.registered = False
    with pytest.raises(AdmissionError, match="no healthy devices present") as caught:
        take(on, "a", 1)
    assert caught.value.reason == "UnexpectedAdmissionError"


def test_unhealthy_devices_are_not_handed_out() -> None:
    """A device that turns unhealthy is gone from what is free; the others stay usable."""
    on = node("none")
    on.devices.unhealthy = frozenset({"GPU-fake-0"})
    assert "GPU-fake-0" not in {device.id for device in take(on, "a", 7)}
    with pytest.raises(AdmissionError, match="Requested: 1, Available: 0"):
        take(on, "b", 1)


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_init_containers_lend_what_they_held(scope: str) -> None:
    """An init container's devices and CPUs are used again by the container after it, and count once."""
    on = node("single-numa-node", scope=scope)
    granted = on.admit("a", [Demand("init", 4, 2, init=True), Demand("main", 4, 2)])
    assert granted["init"] == granted["main"]
    assert len(on.devices.free()) == 4
    assert len(on.cpus.free()) == 62


def test_devices_come_back() -> None:
    """What a pod held is free once it is released; releasing twice is no error."""
    on = node("none")
    take(on, "a", 8, 4)
    on.release("a")
    on.release("a")
    assert len(on.devices.free()) == 8
    assert len(on.cpus.free()) == 64


def test_refused_pod_holds_nothing() -> None:
    """When the second container of a pod is refused, the first one's devices are free again."""
    on = node("single-numa-node")
    assert not admits(on, Demand("one", 3, 1), Demand("two", 5))
    assert len(on.devices.free()) == 8
    assert len(on.cpus.free()) == 64


def test_whole_cpus_of_a_guaranteed_pod_are_its_own() -> None:
    """They lie on the NUMA node of its devices; a pod of another class, or half a CPU, has none of its own."""
    on = node("single-numa-node")
    take(on, "a", 3)
    cpus = on.admit("b", [Demand("c", 4, 2)])["c"].cpus
    assert all(cpu >= 32 for cpu in cpus)
    pod = {
        "status": {"qosClass": "Guaranteed"},
        "spec": {
            "initContainers": [{"name": "i", "resources": {"limits": {RESOURCE: "2", "cpu": "1"}}}],
            "containers": [{"name": "c", "resources": {"limits": {RESOURCE: "4", "cpu": "1500m"}}}],
        },
    }
    first = Demand("i", 2, 1, init=True, resources={RESOURCE: 2, "cpu": 1}, guaranteed=True)
    assert demands(pod, RESOURCE) == [
        first,
        Demand("c", 4, 0, resources={RESOURCE: 4, "cpu": 1}, guaranteed=True),
    ]


def test_ids_and_halves() -> None:
    """A node of eight GPUs and two NUMA nodes has ids 0 to 3 on the first and 4 to 7 on the second."""
    found = node_devices(NodeSpec("n"))
    assert [(d.id, d.numa) for d in found] == [(f"GPU-fake-{i}", i // 4) for i in range(8)]
    assert [d.word for d in found[3:5]] == ["GPU-fake-3@0", "GPU-fake-4@1"]
    assert Device("GPU-x", None).word == "GPU-x"


@given(
    st.sampled_from(TOPOLOGY_POLICIES),
    st.sampled_from(["container", "pod"]),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20)), max_size=12),
    st.data(),
)
def test_nothing_is_held_twice(
    policy: str, scope: str, numa: int, requests: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Whatever is asked and released, each thing is held once at most, and admitted pods have what they asked for."""
    on = node(policy, numa=numa, scope=scope)
    held: dict[str, list[Device]] = {}
    for number, (gpus, cpus) in enumerate(requests):
        if held and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(held)))
            on.release(gone)
            del held[gone]
        try:
            granted = on.admit(str(number), [Demand("c", gpus, cpus)])["c"]
        except AdmissionError:
            continue
        held[str(number)] = list(granted.devices)
        assert (len(granted.devices), len(granted.cpus)) == (gpus, cpus)
        if policy == "single-numa-node":
            assert len(set(numa_of(list(granted.devices)))) == 1
        taken = [device for each in held.values() for device in each]
        assert len(taken) == len(set(taken))
        assert len(on.devices.free()) == 8 - len(taken)
