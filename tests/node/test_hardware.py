"""Nodes that have something of a real machine: what containers see of it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpucluster.node import config, hardware
from tests.node.harness import PODS, Nodes

SEE = "cd /dev; ls -d nvidia* infiniband/* gpucluster/* 2>/dev/null | xargs; env | grep -E 'VISIBLE|GPUCLUSTER' | sort"


def asks(gpus: int = 0, **more: str) -> dict[str, object]:
    """Return a container that asks for GPUs and further resources."""
    limits = {**({"nvidia.com/gpu": str(gpus)} if gpus else {}), **more}
    return {"container": {"resources": {"limits": limits}}}


@pytest.fixture
def machine(short_folder: Path) -> dict[str, object]:
    """A machine with two GPUs, one of them broken, and an adapter; its files open and lead nowhere."""
    root = short_folder / "machine"
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "infiniband/uverbs0", "infiniband/rdma_cm"):
        file = root / "dev" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return {
        "root": str(root),
        "devices": [
            {"id": "GPU-aaaa", "numa": 0, "files": ["/dev/nvidia0"]},
            {"id": "GPU-bbbb", "numa": None, "files": ["/dev/nvidia1"], "healthy": False},
        ],
        "shared": ["/dev/nvidiactl", "/dev/nvidia-uvm"],
        "cpus": {"0": sorted(os.sched_getaffinity(0))},
        "files": {"rdma/hca": ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"]},
        "variables": ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"],
    }


def test_a_container_sees_what_it_was_given_and_no_more(
    start: Callable[..., Nodes], machine: dict[str, object]
) -> None:
    """The device files of its GPUs and what every GPU needs; verbs where it asks for them; else nothing."""
    entry = {"name": "gpu-0", "hardware": machine, "extra": {"rdma/hca": "1"}}
    nodes = start(nodes=[entry])
    status = nodes.api.get("/api/v1/nodes/gpu-0")["status"]
    assert (status["capacity"]["nvidia.com/gpu"], status["allocatable"]["nvidia.com/gpu"]) == ("2", "1")
    assert status["capacity"]["cpu"] == str(len(os.sched_getaffinity(0)))
    one = nodes.output("one", SEE, **asks(1)).splitlines()
    assert one[0].split() == ["nvidia-uvm", "nvidia0", "nvidiactl"]
    assert one[1:] == [
        "CUDA_VISIBLE_DEVICES=GPU-aaaa", "GPUCLUSTER_DEVICES=GPU-aaaa@0", "NVIDIA_VISIBLE_DEVICES=GPU-aaaa",
    ]  # fmt: skip
    assert nodes.output("none", SEE).split() == []
    assert nodes.output("verbs", SEE, **asks(**{"rdma/hca": "1"})).split() == [
        "infiniband/rdma_cm", "infiniband/uverbs0",
    ]  # fmt: skip
    nodes.run("two", "true", **asks(2))
    assert nodes.wait_end("two")["reason"] == "UnexpectedAdmissionError"


def adapter(number: int, numa: int) -> dict[str, object]:
    """Return an adapter on a NUMA node."""
    return {"id": f"mlx5_{number}", "numa": numa, "files": [f"/dev/infiniband/uverbs{number}"]}


def test_adapters_are_aligned_with_gpus(start: Callable[..., Nodes], machine: dict[str, object]) -> None:
    """A pod gets the adapter of the NUMA node of its GPU, and is refused where there is none; memory follows."""
    cpus = sorted(os.sched_getaffinity(0))
    root = Path(str(machine["root"]))
    for name in ("nvidia2", "infiniband/uverbs1"):
        (root / "dev" / name).touch()
    has = {
        **machine,
        "devices": [{"id": f"GPU-{n}", "numa": n, "files": [f"/dev/nvidia{n}"]} for n in (0, 1)],
        "further": {"rdma/hca": [adapter(0, 1), adapter(1, 0)]},
        "cpus": {"0": cpus, "1": [cpus[-1] + 1]},
        "files": {},
    }
    entry = {"name": "gpu-0", "hardware": has, "topology_policy": "single-numa-node", "topology_scope": "pod"}
    nodes = start(nodes=[{**entry, "extra": {"rdma/hca": "2"}}])
    nodes.run("first", f"{SEE}; exec sleep 60", **asks(1, **{"rdma/hca": "1"}))
    nodes.wait_phase("first", "Running")
    nodes.api.wait(lambda: "GPU-0" in nodes.logs("first")[1], 20, "it tells")
    seen = nodes.logs("first")[1].splitlines()[0].split()
    assert seen == ["infiniband/uverbs1", "nvidia-uvm", "nvidia0", "nvidiactl"]
    nodes.run("two", "true", **asks(1, **{"rdma/hca": "2"}))
    assert nodes.wait_end("two")["reason"] == "TopologyAffinityError"


def guaranteed(nodes: Nodes, name: str, script: str, **asked: str) -> str:
    """Run a Guaranteed pod to its end and return what it said."""
    container = {
        "name": "c",
        "image": "test",
        "command": ["sh", "-c", script],
        "resources": {"limits": asked},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "gpu-0", "restartPolicy": "Never", "containers": [container]},
        "status": {"qosClass": "Guaranteed"},
    }
    nodes.api.create(PODS, pod)
    nodes.wait_end(name)
    return nodes.logs(name)[1]


def test_memory_of_guaranteed_pods_is_bound(start: Callable[..., Nodes], machine: dict[str, object]) -> None:
    """With the policy Static a Guaranteed pod has memory of the NUMA node of its devices; others have any."""
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel tells no NUMA nodes of memory")
    cpus = sorted(os.sched_getaffinity(0))
    see = "head -1 /proc/self/numa_maps | cut -d' ' -f2"
    entry = {"name": "gpu-0", "topology_policy": "single-numa-node", "memory_policy": "Static"}
    has = {**machine, "cpus": {"0": cpus, "1": [cpus[-1] + 1]}}
    nodes = start(nodes=[{**entry, "hardware": has}])
    assert nodes.output("shared", see, **asks(1)).split() == ["default"]
    assert guaranteed(nodes, "bound", see, **{"nvidia.com/gpu": "1"}).split() == ["bind:0"]


def test_limits_are_as_high_as_they_may_be(start: Callable[..., Nodes], machine: dict[str, object]) -> None:
    """Locked memory is not bounded where this user may say so, as container engines set it."""
    nodes = start(nodes=[{"name": "gpu-0", "hardware": machine}])
    soft, hard, files, most = nodes.output("limits", "ulimit -l; ulimit -Hl; ulimit -n; ulimit -Hn").split()
    assert soft == hard
    assert files == most
    may = (
        subprocess.run(["sh", "-c", "ulimit -l unlimited"], capture_output=True, check=False).returncode == 0
    )
    assert (soft == "unlimited") is may


def test_played_devices_have_files_that_lead_nowhere(start: Callable[..., Nodes]) -> None:
    """Each granted one has its own in a folder that no driver uses; it can be opened."""
    nodes = start()
    said = nodes.output("played", f"{SEE}; cat /dev/gpucluster/gpu*", **asks(2)).splitlines()
    granted = said[-1].removeprefix("NVIDIA_VISIBLE_DEVICES=GPU-fake-").split(",GPU-fake-")
    assert said[0].split() == [f"gpucluster/gpu{index}" for index in granted]
    assert len(granted) == 2
    assert nodes.output("nothing", SEE).split() == []


def test_devices_leak(start: Callable[..., Nodes]) -> None:
    """With node.devices-leak every container sees all files, and its environment tells what it was given."""
    nodes = start(defects=["node.devices-leak"])
    assert len(nodes.output("none", SEE).split()) == 8
    one = nodes.output("one", SEE, **asks(1)).splitlines()
    assert len(one[0].split()) == 8
    assert one[-1] == "NVIDIA_VISIBLE_DEVICES=GPU-fake-0"


def test_cpus_of_a_part_of_the_machine(start: Callable[..., Nodes], machine: dict[str, object]) -> None:
    """Containers of a node that has some of the CPUs run on those; whole CPUs are the machine's own numbers."""
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2:
        pytest.skip("one CPU cannot be divided")
    entry = {"name": "gpu-0", "cpu_policy": "static", "hardware": {**machine, "cpus": {"0": every[1:]}}}
    nodes = start(nodes=[entry])
    see = "grep Cpus_allowed_list /proc/self/status"
    shared = nodes.output("shared", see).split()[1]
    assert hardware_cpus(shared) == every[1:]
    one = guaranteed(nodes, "own", see, cpu="1", memory="64Mi").split()[1]
    assert len(hardware_cpus(one)) == 1
    assert set(hardware_cpus(one)) <= set(every[1:])


def hardware_cpus(told: str) -> list[int]:
    """Return the CPUs of a list such as `0-3,8`."""
    parts = [part.split("-") for part in told.split(",")]
    return [cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"device": []}, "unknown key 'device' of hardware; did you mean 'devices'?"),
        ({"devices": [{"numa": 0}]}, "a hardware device must have an id"),
        ({"devices": [{"id": "a"}, {"id": "a"}]}, "each hardware device must have an id of its own"),
        ({"devices": [{"id": "a", "file": "x"}]}, "unknown key 'file' of hardware device"),
        ([], "hardware must be an object"),
        ({"cpus": {"x": [0]}}, "invalid literal"),
    ],
)
def test_hardware_that_cannot_be_read(raw: object, told: str) -> None:
    """One line says what is wrong, and of which node."""
    with pytest.raises(config.ConfigError) as caught:
        config._node({"name": "gpu-0", "hardware": raw}, "none")
    assert str(caught.value).startswith("node gpu-0: ")
    assert told in str(caught.value)


def test_a_device_without_numa_node_is_told_without(machine: dict[str, object]) -> None:
    """What the machine does not tell is not made up."""
    assert [device.numa for device in hardware.parse(machine).devices] == [0, None]
