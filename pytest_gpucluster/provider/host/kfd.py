"""AMD's GPUs as the kernel shows them: /sys/class/kfd. No library is needed."""

import re
from pathlib import Path

from pytest_gpucluster.provider.host import sysfs
from pytest_gpucluster.provider.host.inventory import Gpu, HostProblem, Vendor

RESOURCE = "amd.com/gpu"
TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"


def read(root: Path) -> Vendor:
    """Return the GPUs of the kernel's compute driver.

    Raises:
        HostProblem: the driver is not loaded, or has no GPU.
    """
    folder = root / TOPOLOGY
    if not folder.is_dir():
        raise HostProblem(f"/{TOPOLOGY} does not exist")
    found: list[Gpu] = []
    for node in sorted(folder.iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1):
        facts = dict(re.findall(r"^(\w+)\s+(\d+)$", sysfs.text(node / "properties"), re.MULTILINE))
        # CPUs are nodes of this topology too; they have no SIMD units.
        if int(facts.get("simd_count", 0)):
            found.append(_gpu(root, len(found), node, {key: int(value) for key, value in facts.items()}))
    if not found:
        raise HostProblem(f"/{TOPOLOGY} names no GPU")
    notes = tuple(f"GPU {gpu.index} cannot be used: {gpu.problem}" for gpu in found if gpu.problem)
    shared = ("/dev/kfd",) if (root / "dev/kfd").exists() else ()
    return Vendor(
        RESOURCE, tuple(found), shared, (), sysfs.text(root / "sys/module/amdgpu/version"), notes=notes
    )


def _gpu(root: Path, index: int, node: Path, facts: dict[str, int]) -> Gpu:
    where = facts.get("location_id", 0)
    pci = f"{facts.get('domain', 0):04x}:{where >> 8 & 0xFF:02x}:{where >> 3 & 0x1F:02x}.{where & 7}"
    file = f"/dev/dri/renderD{facts.get('drm_render_minor', 0)}"
    banks = [
        int(match[1])
        for bank in node.glob("mem_banks/*/properties")
        if (match := re.search(r"^size_in_bytes\s+(\d+)$", sysfs.text(bank), re.MULTILINE))
    ]
    unique = facts.get("unique_id", 0)
    there = (root / file.lstrip("/")).exists()
    return Gpu(
        f"GPU-{unique:016x}" if unique else pci,
        index,
        name=sysfs.text(root / sysfs.PCI / pci / "product_name") or sysfs.text(node / "name"),
        pci=pci,
        memory=sum(banks) >> 20,
        numa=sysfs.numa_of(root, pci),
        files=(file,),
        problem="" if there else f"its device file {file} does not exist",
    )
