"""Whether ranks that measured have a GPU each, and measured at one time.

A GPU's UUID is unique in the world, the address on its bus on its node. A slice of a GPU (MIG) has a UUID of its own,
or in the older form the GPU's with the numbers of its instances: `MIG-GPU-<uuid>/1/0`.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.hardware.throughput import Rank
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.measure import samples

_NOBODY = re.compile(r"^(?:n/?a|none|unknown|\[.*\]|not supported|0[0-]*|)$", re.IGNORECASE)
"""What stands for a UUID or an address where the driver tells none."""
_BUS = re.compile(r"^(?:[0-9a-f]+:)?(?P<place>[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Gpu:
    """What tells the GPU of a rank from others.

    Attributes:
        id: its UUID without prefix, of a slice its own; "" where nobody tells one.
        parent: the UUID of the GPU itself; "" where it is not known.
        slice: whether it is a slice, by the form of its UUID or by its name.
        bus: node and address on its bus; "" where nobody tells one.
    """

    id: str
    parent: str
    slice: bool
    bus: str

    @property
    def known(self) -> bool:
        """Report whether it can be told from others at all."""
        return bool(self.id or self.bus)


def gpu(rank: Rank) -> Gpu:
    """Return what tells the GPU of a rank from others."""
    text = str(rank.device.get("uuid") or "").strip().lower()
    bare = text.removeprefix("mig-").removeprefix("gpu-")
    bare = "" if _NOBODY.match(bare) else bare
    parent, _, instance = bare.partition("/")
    cut = text.startswith("mig-") or bool(instance) or bool(_MIG.search(str(rank.device.get("name") or "")))
    told = _BUS.match(str(rank.device.get("bus") or "").strip())
    address = told["place"].lower() if told and rank.node else ""
    address = "" if _NOBODY.match(address) else address
    known_parent = parent if instance or not cut else ""
    return Gpu(bare, known_parent, cut, f"{rank.node}/{address}" if address else "")


_MIG = re.compile(r"\bMIG\b", re.IGNORECASE)


def shared(ranks: Sequence[Rank]) -> list[tuple[str, tuple[Rank, ...]]]:
    """Return GPUs that several ranks have, each with these ranks; two slices of one GPU are two."""
    found: dict[str, dict[int, Rank]] = {}
    pairs = [(rank, gpu(rank)) for rank in ranks]
    for at, (one, mine) in enumerate(pairs):
        for other, its in pairs[at + 1 :]:
            same = _same(mine, its)
            if same:
                found.setdefault(same, {}).update({one.rank: one, other.rank: other})
    return [(name, tuple(held.values())) for name, held in found.items()]


def _same(one: Gpu, other: Gpu) -> str:
    """Return by what two GPUs are the same; "" where they are not."""
    if one.id and one.id == other.id:
        return one.id
    both = one.slice and other.slice
    if one.parent and one.parent == other.parent and not both:
        return one.parent
    return one.bus if one.bus and one.bus == other.bus and not both else ""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """When a rank measured, in seconds of one clock that all ranks share."""

    rank: Rank
    start: float
    end: float


def apart(ranks: Sequence[Rank]) -> tuple[Stretch, Stretch] | None:
    """Return two ranks that did not measure at one time: the first to end and the last to begin; None for none.

    A rank tells its figures when it has measured. By the clock of its machine where it tells that too, which stands
    above the time at which its line was read: a log may be fetched late.
    """
    by_machine = [_stretch(rank, samples.number(rank.told.get("t"))) for rank in ranks]
    by_receipt = [_stretch(rank, rank.line.t if rank.line is not None else None) for rank in ranks]
    found = _disjoint(by_machine)
    times_of_day = all(one is not None and one.end > payload_lines.EPOCH for one in by_machine)
    return found if found is not None or times_of_day else _disjoint(by_receipt)


def lives_apart(ranks: Sequence[Rank]) -> tuple[Rank, Rank] | None:
    """Return two ranks of which one's pod had ended before the other's was bound; None for none."""
    ended = [
        (rank.pod.finished, rank) for rank in ranks if rank.pod is not None and rank.pod.finished is not None
    ]
    begun = [(rank.pod.bound, rank) for rank in ranks if rank.pod is not None and rank.pod.bound is not None]
    if not ended or not begun:
        return None
    first, last = min(ended, key=lambda one: one[0]), max(begun, key=lambda one: one[0])
    return (first[1], last[1]) if first[0] < last[0] else None


def measured_for(rank: Rank) -> float:
    """Return how many seconds a rank says that it measured, by the clock of its host."""
    results: Mapping[str, object] = fields.sub(rank.told, "results")
    walls = [fields.sub(results, name).get("wall") for name in results] or [rank.told.get("wall")]
    return sum(samples.finite(walls))


def needed_for(rank: Rank) -> float:
    """Return how many seconds a rank needed for what it tells, beside others: warm-up, other loops, and measuring."""
    beside = ("start_s", "product_seconds", *(() if "wall" in rank.told else ("seconds",)))
    return measured_for(rank) + sum(samples.finite(rank.told.get(name) for name in beside))


def _stretch(rank: Rank, end: float | None) -> Stretch | None:
    return None if end is None else Stretch(rank, end - measured_for(rank), end)


def _disjoint(found: Sequence[Stretch | None]) -> tuple[Stretch, Stretch] | None:
    """Return the first to end and the last to begin where they share less than half of the shorter one."""
    told = [one for one in found if one is not None]
    if len(told) < 2 or len(told) < len(found):
        return None
    first, last = min(told, key=lambda one: one.end), max(told, key=lambda one: one.start)
    shorter = min(one.end - one.start for one in told)
    return (first, last) if first.end - last.start < shorter / 2 else None


def too_short(rank: Rank) -> str:
    """Return how a rank's figures were told too early for what they say, by the clock of its machine; "" where not."""
    begun = samples.number(rank.start.data.get("t")) if rank.start is not None else None
    told = samples.number(rank.told.get("t"))
    if begun is None or told is None:
        return ""
    if told < begun:
        return f"its figures were told {begun - told:.1f} s before it began"
    lasted, meant = told - begun, needed_for(rank)
    if begun > payload_lines.EPOCH and lasted < 0.98 * meant - 0.1:
        return f"it says that it started and measured for {meant:.1f} s, and told it {lasted:.1f} s after it began"
    return ""
