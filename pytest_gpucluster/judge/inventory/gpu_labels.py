"""What a node offers, against what its labels say: shares and slices that pass for GPUs, GPUs offered twice.

`nvidia.com/gpu` stands for whole GPUs. Who trains on shares or slices declares their own resource name.
"""

import dataclasses
import math

from pytest_gpucluster.evidence.objects import gpu_names, labelled_gpus
from pytest_gpucluster.evidence.objects.labelled_gpus import COUNT, SHARED, WHOLE, Discovered
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

SHARING = Cause(
    "the GPUs are shared (time-slicing or MPS) and counted once per share",
    "switch sharing off for training nodes in the device plugin's configuration, or set its `renameByDefault` and "
    "declare the shared resource as gpu_resource",
)
MIG = Cause(
    "the GPUs are cut into MIG slices",
    "switch MIG off on training nodes (mig.config=all-disabled), or use the MIG strategy `mixed` and declare the slice "
    "as gpu_resource",
)
STALE = Cause(
    "the labels are older than what the device plugin offers, or count only one of several kinds of GPU",
    "look at the log of the feature discovery's pod on the node, and compare nvidia-smi -L there",
)
GONE = Cause(
    "a GPU that feature discovery saw is no longer offered: it fell off the bus, or the device plugin leaves it out",
    "compare nvidia-smi -L on the node with its hardware, and look at the device plugin's log there",
)
TWICE = Cause(
    "the same GPUs are offered under two names: two device plugins run there, or one was reconfigured and the "
    "old name remained",
    "find which device plugins run on the node (kubectl get pods -A -o wide --field-selector "
    "spec.nodeName=NODE), and check their MIG strategy and sharing; keep one name per GPU",
)


@dataclasses.dataclass(frozen=True)
class Odd:
    """How what a node offers and what its labels say do not agree."""

    text: str
    causes: tuple[Cause, ...]


def contradiction(machine: Machine, declared: str, stated: int | None) -> Odd | None:
    """Return how the labels of a node contradict the resource that it offers, None where they do not.

    Args:
        machine: the node.
        declared: the declared resource.
        stated: GPUs of a node as the profile says, None where it does not.
    """
    said = labelled_gpus.discovered(machine)
    return (
        _no_whole_gpus(machine, declared, said)
        or _another_number(machine, declared, said)
        or _offered_twice(machine, said, stated if declared == WHOLE else None)
    )


def _no_whole_gpus(machine: Machine, declared: str, said: Discovered) -> Odd | None:
    """Return whether `nvidia.com/gpu` stands for something else than whole GPUs."""
    offered = machine.offers(declared)[1]
    if declared != WHOLE or not offered:
        return None
    if said.cut:
        return Odd(f"its {offered} {WHOLE} are slices of GPUs ({said.cut})", (MIG,))
    if said.sharing:
        of = f" of {wording.count(said.count, 'GPU')} ({COUNT}={said.count})" if said.count else ""
        return Odd(f"its {offered} {WHOLE} are shares{of}: {said.sharing}", (SHARING,))
    return None


def _another_number(machine: Machine, declared: str, said: Discovered) -> Odd | None:
    """Return whether more, or fewer, are offered than the labels count."""
    counted = said.number(declared)
    capacity, offered = machine.offers(declared)
    if counted is None or not capacity:
        return None
    number, label = counted
    if offered > number:
        text = f"{offered} are offered where {label}"
        if number and offered % number == 0:
            return Odd(f"{text}: each is counted {offered // number} times", (SHARING, STALE))
        return Odd(text, (STALE, SHARING))
    if capacity < number and not machine.other_gpus(declared):
        return Odd(f"{capacity} are offered where {label}", (GONE, STALE))
    return None


def _offered_twice(machine: Machine, said: Discovered, stated: int | None) -> Odd | None:
    """Return whether whole GPUs stand beside shares or slices of the same GPUs: more than there are."""
    there, label = (said.whole, COUNT) if said.whole else (stated, "gpus_per_node")
    whole, shares = machine.offers(WHOLE)[1], machine.offers(f"{WHOLE}{SHARED}")[1]
    cut, parts = labelled_gpus.sliced(machine)
    if shares:
        parts[f"{WHOLE}{SHARED}"] = shares
        cut += math.ceil(shares / said.replicas) if said.replicas > 1 else 1
    if not whole or not parts or there is None or whole + cut <= there:
        return None
    listed = wording.listed([f"{count} {name}" for name, count in sorted(parts.items())], 4)
    text = f"{whole} whole GPUs are offered beside {listed}, which need {cut} more at least, and {label} says {there}"
    return Odd(text, (TWICE, MIG if labelled_gpus.sliced(machine)[1] else SHARING))


def beside(machine: Machine, declared: str, stated: int | None) -> str:
    """Return what a node offers beside the declared GPUs that nobody understands, "" for nothing.

    Names of site and vendor plugins (`volcano.sh/vgpu-number`) may stand for shares of the same GPUs. Where feature
    discovery counts as many GPUs as are offered under all names together, each is offered once.
    """
    others = {
        name: count for name, count in machine.other_gpus(declared).items() if not gpu_names.is_gpu(name)
    }
    offered = machine.offers(declared)[1]
    if not others or not offered:
        return ""
    said = labelled_gpus.discovered(machine)
    there = said.whole or stated
    if said.whole and said.whole >= offered + sum(others.values()):
        return ""
    listed = wording.listed([f"{count} {name}" for name, count in sorted(others.items())], 4)
    known = "" if there is None else f", of {there} GPUs"
    return f"{machine.name} offers {listed} beside {offered} {declared}{known}: what these stand for is not known"
