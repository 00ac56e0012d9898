"""What is found on a machine: GPUs, NUMA nodes, adapters; and what is said where there is nothing."""

import pytest

from pytest_gpucluster.plain import ranges
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.host import discover, nvml
from pytest_gpucluster.provider.host.inventory import HostProblem

from . import machines
from .machines import Card, Slice


def test_a_machine_with_two_sockets(tmp_path):
    """Each GPU has its UUID, PCI address, NUMA node, memory and device file; adapters have theirs."""
    root, cards = machines.hgx(tmp_path)
    found = machines.look(root, cards)
    assert [gpu.id for gpu in found.vendor.gpus] == [card.uuid for card in cards]
    assert [gpu.numa for gpu in found.vendor.gpus] == [0] * 4 + [1] * 4
    first = found.vendor.gpus[0]
    assert (first.pci, first.memory, first.files, first.compute) == (
        "0000:1b:00.0",
        81920,
        ("/dev/nvidia0",),
        "9.0",
    )
    assert found.vendor.shared == ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    assert (found.vendor.driver, found.vendor.runtime) == ("580.159.04", "13.0")
    assert found.cpus == {0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15)}
    assert found.memory == {0: 1 << 20, 1: 1 << 20}
    assert [(a.name, a.kind, a.numa, a.files) for a in found.hcas] == [
        (f"mlx5_{n}", "InfiniBand", n // 2, (f"/dev/infiniband/uverbs{n}",)) for n in range(4)
    ]
    assert [(a.name, a.pci, a.rate) for a in found.adapters if a.kind == "net"] == [
        ("eth0", "0000:01:00.0", "100000 Mbit/s")
    ]
    assert found.rdma == ("/dev/infiniband/rdma_cm",)
    assert not found.notes
    assert not found.vendor.notes


def test_files_that_the_driver_makes_late_are_made_and_else_noted(tmp_path):
    """A container cannot make /dev/nvidia-uvm; the machine is asked to, and it is noted where it does not."""
    root, cards = machines.hgx(tmp_path)
    missing = root / "dev/nvidia-uvm"
    missing.unlink()
    (note,) = machines.look(root, cards).vendor.notes
    assert note.startswith("/dev/nvidia-uvm does not exist: CUDA does not start")
    nvml.make_files(("no-such-program",), root)
    assert not missing.exists()
    nvml.make_files(("touch", str(missing)), root)
    assert missing.exists()
    assert not machines.look(root, cards).vendor.notes
    nvml.make_files(("rm", str(missing)), root)
    assert missing.exists()


def test_older_libraries_give_bytes(tmp_path):
    """Text of NVML is text whichever version of its library says it."""
    root, cards = machines.hgx(tmp_path)
    assert machines.look(root, cards, bytes_too=True) == machines.look(root, cards)


@pytest.mark.parametrize("told", ["-1", None])
def test_a_virtual_machine_that_tells_no_numa_node(tmp_path, told):
    """-1 and nothing to read are no topology, and that is said."""
    cards = [Card(n, f"0000:0{n}:00.0", "-1") for n in range(2)]
    root = machines.tree(tmp_path, cards)
    for card in cards if told is None else []:
        (root / f"sys/bus/pci/devices/{card.pci}/numa_node").unlink()
    found = machines.look(root, cards, range(4))
    assert [gpu.numa for gpu in found.vendor.gpus] == [None, None]
    assert found.notes == (
        "no GPU has a NUMA node (/sys/bus/pci/devices/*/numa_node): pods cannot be aligned",
    )


def test_cpus_that_this_process_may_not_use_are_not_offered(tmp_path):
    """A cpuset counts; a NUMA node of which nothing may be used is none."""
    root, cards = machines.hgx(tmp_path)
    assert machines.look(root, cards, {1, 2, 8}).cpus == {0: (1, 2, 8)}


def test_a_kernel_without_numa(tmp_path):
    """No NUMA nodes in sysfs: the machine counts as one, and that is said."""
    cards = [Card(0, "0000:01:00.0")]
    found = machines.look(machines.tree(tmp_path, cards, {}), cards, range(4))
    assert found.cpus == {0: (0, 1, 2, 3)}
    assert "/sys/devices/system/node lists no NUMA node: the machine counts as one" in found.notes


def test_a_lost_gpu_is_counted_and_cannot_be_used(tmp_path):
    """A GPU that fell off the bus is not left out: the machine has it, and nobody gets it."""
    root, cards = machines.hgx(tmp_path)
    cards[3].lost = True
    found = machines.look(root, cards)
    assert [gpu.problem for gpu in found.vendor.gpus] == ["", "", "", "GPU is lost", "", "", "", ""]
    assert found.vendor.notes == ("GPU 3 cannot be used: GPU is lost",)


def test_a_gpu_without_its_device_file_cannot_be_used(tmp_path):
    """What cannot be handed to a container is said, not tried."""
    root, cards = machines.hgx(tmp_path)
    (root / "dev/nvidia5").unlink()
    assert machines.look(root, cards).vendor.gpus[5].problem == "its device file /dev/nvidia5 does not exist"


def test_mig_slices_stand_in_place_of_their_gpu(tmp_path):
    """A GPU in MIG mode offers its slices, each with the parent's file and its two capabilities."""
    cards = [
        Card(
            0, "0000:1b:00.0", mig=True, slices=[Slice("MIG-a", "1g.10gb", 9), Slice("MIG-b", "1g.10gb", 11)]
        ),
        Card(1, "0000:2b:00.0", mig=True),
    ]
    root = machines.tree(tmp_path, cards)
    minors = "gpu0/gi9/access 84\ngpu0/gi9/ci0/access 85\ngpu0/gi11/access 102\ngpu0/gi11/ci0/access 103"
    machines.put(root / "proc/driver/nvidia-caps/mig-minors", minors)
    one, two, whole = machines.look(root, cards).vendor.gpus
    assert (one.id, one.mig, one.memory) == ("MIG-a", "1g.10gb", 10240)
    assert one.files == ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap84", "/dev/nvidia-caps/nvidia-cap85")
    assert two.files[1:] == ("/dev/nvidia-caps/nvidia-cap102", "/dev/nvidia-caps/nvidia-cap103")
    assert whole.problem == "it is in MIG mode but has no slice"


def test_a_slice_whose_files_nobody_names_cannot_be_used(tmp_path):
    """Without the list of capabilities a container could not be given the slice."""
    cards = [
        Card(0, "0000:1b:00.0", mig=True, slices=[Slice("MIG-a", "1g.10gb", 9)]),
        Card(1, "0000:2b:00.0"),
    ]
    found = machines.look(machines.tree(tmp_path, cards), cards)
    assert found.vendor.gpus[0].problem == "proc/driver/nvidia-caps/mig-minors does not name its files"


@pytest.mark.parametrize(
    ("visible", "expected"), [("1,0", [0, 1]), ("GPU-00000006", [6]), ("7, GPU-00000002-1111", [2, 7])]
)
def test_gpus_that_are_hidden_from_this_process_are_not_its_to_give(tmp_path, visible, expected):
    """What CUDA_VISIBLE_DEVICES leaves out belongs to somebody else."""
    root, cards = machines.hgx(tmp_path)
    found = machines.look(root, cards, visible=visible)
    assert [gpu.index for gpu in found.vendor.gpus] == expected


def _missing():
    raise HostProblem("the Python package nvidia-ml-py is missing: pip install nvidia-ml-py")


@pytest.mark.parametrize(
    ("library", "visible", "told"),
    [
        (
            _missing,
            None,
            "nvidia-ml-py is missing: pip install nvidia-ml-py; /sys/class/kfd",
        ),
        (
            lambda: machines.library([], error=machines.NVMLError("NVML Shared Library Not Found")),
            None,
            "NVML does not open: NVML Shared Library Not Found; /sys/class/kfd/kfd/topology/nodes does not exist",
        ),
        (
            lambda: machines.library([], error=machines.NVMLError("Driver Not Loaded")),
            None,
            "NVML does not open: Driver Not Loaded",
        ),
        (
            lambda: machines.library([], error=machines.NVMLError_NoPermission("Insufficient Permissions")),
            None,
            "NVML does not open: Insufficient Permissions",
        ),
        (lambda: machines.library([]), None, "NVML answers, but no GPU can be used: it finds none"),
        (
            lambda: machines.library([Card(0, "0000:01:00.0", lost=True)]),
            None,
            "no GPU can be used: GPU 0 cannot be used: GPU is lost",
        ),
        (
            lambda: machines.library([Card(0, "0000:01:00.0")]),
            "",
            "no GPU can be used: none that CUDA_VISIBLE_DEVICES= names",
        ),
    ],
)
def test_no_gpu_is_one_line_that_names_what_was_looked_for(tmp_path, library, visible, told):
    """Nobody has to guess what is missing, and the way out is named."""
    with pytest.raises(ProviderError) as caught:
        discover.look(tmp_path, library, frozenset({0}), visible)
    text = str(caught.value)
    assert text.startswith("no usable GPU was found on this host: ")
    assert told in text
    assert text.endswith("; --cluster=embedded needs no GPU")
    assert "\n" not in text


def test_a_device_that_this_user_may_not_ask_is_no_lost_device(tmp_path):
    """No permission is told as such."""
    cards = [Card(0, "0000:01:00.0")]
    module = machines.library(cards)

    def refused(_card):
        raise machines.NVMLError_NoPermission("Insufficient Permissions")

    module.nvmlDeviceGetUUID = refused
    with pytest.raises(ProviderError, match="NVML refuses GPU 0 to this user: Insufficient Permissions"):
        discover.look(machines.tree(tmp_path, cards), lambda: module, frozenset({0}))


def test_gpus_of_the_kernels_compute_driver(tmp_path):
    """AMD's GPUs need no library: the kernel tells what they are and where."""
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    machines.put(nodes / "0/properties", "cpu_cores_count 64\nsimd_count 0")
    machines.put(
        nodes / "1/properties",
        "simd_count 1216\ndomain 0\nlocation_id 9984\ndrm_render_minor 128\nunique_id 11769603417512476743",
    )
    machines.put(nodes / "1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 206141652992")
    machines.put(tmp_path / "sys/bus/pci/devices/0000:27:00.0/numa_node", "1")
    for name in ("kfd", "dri/renderD128"):
        machines.put(tmp_path / "dev" / name)
    found = discover.look(tmp_path, _missing, frozenset({0}))
    (gpu,) = found.vendor.gpus
    assert found.vendor.resource == "amd.com/gpu"
    assert (gpu.id, gpu.pci, gpu.numa) == ("GPU-a35607f3400e0047", "0000:27:00.0", 1)
    assert (gpu.memory, gpu.files) == (196592, ("/dev/dri/renderD128",))
    assert found.vendor.shared == ("/dev/kfd",)


@pytest.mark.parametrize(
    ("told", "expected"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("5", (5,)), ("a-b,2", (2,)), (" 1 , 3-4 ", (1, 3, 4))],
)
def test_lists_of_cpus(told, expected):
    """What is no list has no CPUs."""
    assert ranges.read(told) == expected
