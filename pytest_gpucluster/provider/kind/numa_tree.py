"""A tree that makes a kubelet believe in several NUMA nodes, mounted over `/sys/devices/system/node`.

On a machine with one NUMA node a kubelet rejects a pod that fits no single one, but does not align devices: a test of
alignment would lie there. The kubelet reads its NUMA nodes from that one folder, and nothing else does; the CPUs in
it are links to the machine's own.
"""

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_gpucluster.plain import plurals, ranges

MOUNT = "/sys/devices/system/node"
"""Where the tree belongs in a node."""

_CPU = re.compile(r"cpu(\d+)")
_AMOUNT = re.compile(r"^((?:Node \d+ )?Mem\w+):\s+(\d+) kB$")


class NumaTreeError(Exception):
    """The machine, or the folder, cannot carry such a tree."""


@dataclasses.dataclass(frozen=True)
class NumaTree:
    """A tree that was written.

    Attributes:
        folder: Where it lies on this machine.
        cpus: The CPUs of each NUMA node.
    """

    folder: pathlib.Path
    cpus: tuple[tuple[int, ...], ...]

    def mount(self) -> dict[str, object]:
        """Return the entry for `extraMounts` of a kind node."""
        return {"hostPath": str(self.folder), "containerPath": MOUNT, "readOnly": True}


def write_numa_tree(
    folder: pathlib.Path,
    nodes: int = 2,
    *,
    system: pathlib.Path = pathlib.Path("/sys/devices/system"),
    meminfo: pathlib.Path = pathlib.Path("/proc/meminfo"),
) -> NumaTree:
    """Write the tree of `nodes` NUMA nodes, over which the machine's CPUs and memory are dealt in equal parts.

    Args:
        folder: A folder that is not there yet, or is empty.
        nodes: How many NUMA nodes the kubelet shall see.
        system: Where this machine tells its CPUs.
        meminfo: Where this machine tells its memory.

    Raises:
        NumaTreeError: when the machine has fewer CPUs than that, or the folder holds something.
    """
    if nodes < 1:
        raise NumaTreeError(f"a machine has 1 NUMA node or more, not {nodes}")
    if folder.exists() and any(folder.iterdir()):
        raise NumaTreeError(f"{folder}: a NUMA tree needs its own folder, but this one is not empty")
    cpus = deal(_cores(system / "cpu"), nodes)
    amounts = _memory(meminfo)
    for number, mine in enumerate(cpus):
        _write_node(folder / f"node{number}", number, nodes, mine, amounts)
    everyone = ranges.write(range(nodes))
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        _write(folder / name, everyone)
    return NumaTree(folder.resolve(), cpus)


def deal(cores: Sequence[Sequence[int]], nodes: int) -> tuple[tuple[int, ...], ...]:
    """Deal CPUs over NUMA nodes in consecutive parts; a core stays whole where there are enough of them.

    Raises:
        NumaTreeError: when there are fewer CPUs than nodes.
    """
    groups = [sorted(core) for core in cores]
    if len(groups) < nodes:
        groups = [[cpu] for core in groups for cpu in core]
    if len(groups) < nodes:
        raise NumaTreeError(
            f"{plurals.count(len(groups), 'CPU')} of this machine cannot be divided among {nodes} NUMA nodes"
        )
    groups.sort()
    parts: list[list[int]] = [[] for _ in range(nodes)]
    for place, core in enumerate(groups):
        parts[place * nodes // len(groups)] += core
    return tuple(tuple(sorted(part)) for part in parts)


def _cores(folder: pathlib.Path) -> list[tuple[int, ...]]:
    """Return the CPUs of each core, as this machine tells them; a CPU that tells no sibling is a core of its own."""
    cores: set[tuple[int, ...]] = set()
    for cpu in sorted(int(found[1]) for path in folder.iterdir() if (found := _CPU.fullmatch(path.name))):
        told = folder / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        siblings = ranges.read(told.read_text()) if told.is_file() else ()
        cores.add(siblings if cpu in siblings else (cpu,))
    return sorted(cores)


def _memory(path: pathlib.Path) -> Mapping[str, int]:
    """Return the whole machine's amounts in KiB, in the order in which they are told."""
    matches = (_AMOUNT.match(line) for line in path.read_text().splitlines())
    return {found[1]: int(found[2]) for found in matches if found}


def _write_node(
    folder: pathlib.Path, number: int, nodes: int, cpus: Iterable[int], amounts: Mapping[str, int]
) -> None:
    """Write one NUMA node: what cadvisor, and so a kubelet, reads of it."""
    mine = tuple(cpus)
    _write(folder / "cpulist", ranges.write(mine))
    _write(folder / "distance", " ".join("10" if other == number else "21" for other in range(nodes)))
    text = (f"Node {number} {name}:{amount // nodes:>16} kB" for name, amount in amounts.items())
    _write(folder / "meminfo", "\n".join(text))
    for cpu in mine:
        (folder / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")
    # The huge pages of the machine belong to none of these nodes: a kubelet takes an empty folder for none.
    (folder / "hugepages").mkdir()


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
