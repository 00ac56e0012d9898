"""The tree that makes a kubelet believe in several NUMA nodes."""

import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpucluster.plain import ranges
from pytest_gpucluster.provider.kind.numa_tree import NumaTree, NumaTreeError, deal, write_numa_tree


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> pathlib.Path:
    """A machine of four cores with two threads each, siblings n and n + 4."""
    for cpu in range(8):
        told = tmp_path / "system" / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        told.parent.mkdir(parents=True)
        told.write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    (tmp_path / "system" / "cpu" / "cpufreq").mkdir()
    (tmp_path / "meminfo").write_text(
        "MemTotal:       1000000 kB\nMemFree:         500000 kB\nHugePages_Total:       4\n"
    )
    return tmp_path


def write(machine: pathlib.Path, nodes: int = 2) -> NumaTree:
    """Write the tree of that machine."""
    return write_numa_tree(machine / "tree", nodes, system=machine / "system", meminfo=machine / "meminfo")


def test_threads_of_a_core_stay_together(machine: pathlib.Path) -> None:
    """A core is not cut in two."""
    tree = write(machine)
    assert tree.cpus == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert (tree.folder / "node0" / "cpulist").read_text() == "0-1,4-5\n"
    assert (tree.folder / "node1" / "cpulist").read_text() == "2-3,6-7\n"


def test_what_a_kubelet_reads_of_a_node(machine: pathlib.Path) -> None:
    """Distances, memory, links and lists."""
    folder = write(machine).folder
    assert (folder / "node1" / "distance").read_text() == "21 10\n"
    assert (folder / "node1" / "meminfo").read_text().splitlines() == [
        "Node 1 MemTotal:          500000 kB",
        "Node 1 MemFree:          250000 kB",
    ]
    # Mounted over /sys/devices/system/node, the link leads to the machine's own CPU.
    assert str((folder / "node1" / "cpu6").readlink()) == "../../cpu/cpu6"
    assert (folder / "online").read_text() == "0-1\n"
    assert list((folder / "node0" / "hugepages").iterdir()) == []


def test_the_mount_is_what_a_kind_node_takes(machine: pathlib.Path) -> None:
    """One entry of extraMounts."""
    tree = write(machine)
    assert tree.mount() == {
        "hostPath": str(machine / "tree"),
        "containerPath": "/sys/devices/system/node",
        "readOnly": True,
    }


def test_this_machine_can_be_told_anew(tmp_path: pathlib.Path) -> None:
    """The real folders are read."""
    tree = write_numa_tree(tmp_path / "tree", 1)
    assert tree.cpus[0]
    assert "MemTotal" in (tree.folder / "node0" / "meminfo").read_text()


def test_a_folder_that_holds_something_is_left_alone(machine: pathlib.Path) -> None:
    """Nothing is overwritten."""
    write(machine)
    with pytest.raises(NumaTreeError, match="not empty"):
        write(machine)


def test_more_nodes_than_cpus(machine: pathlib.Path) -> None:
    """One line says why it cannot be."""
    with pytest.raises(NumaTreeError, match="8 CPUs of this machine cannot be divided among 9 NUMA nodes"):
        write(machine, 9)


@settings(deadline=None)
@given(st.integers(1, 32), st.integers(1, 4), st.integers(1, 8))
def test_each_cpu_lies_on_one_node_and_no_node_is_empty(cores: int, threads: int, nodes: int) -> None:
    """Dealing is a partition, and keeps cores whole where it can."""
    told = [[core + cores * thread for thread in range(threads)] for core in range(cores)]
    if cores * threads < nodes:
        with pytest.raises(NumaTreeError):
            deal(told, nodes)
        return
    parts = deal(told, nodes)
    assert len(parts) == nodes
    assert all(parts)
    assert sorted(cpu for part in parts for cpu in part) == list(range(cores * threads))
    if cores >= nodes:
        owner = {cpu: place for place, part in enumerate(parts) for cpu in part}
        assert all(len({owner[cpu] for cpu in core}) == 1 for core in told)


@settings(deadline=None)
@given(st.sets(st.integers(0, 200)))
def test_lists_of_cpus_are_written_as_they_are_read(numbers: set[int]) -> None:
    """Ranges and back."""
    assert ranges.read(ranges.write(numbers)) == tuple(sorted(numbers))
