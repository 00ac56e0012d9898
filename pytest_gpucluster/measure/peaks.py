"""Dense peaks of GPUs: which one a name stands for, and when there is none.

A peak that is a guess makes every share of it a guess: a name that is not listed, a slice of a GPU and a GPU that is
shared have no peak here, and never a default.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.measure import shipped

FORMATS = ("bf16", "fp16", "tf32", "fp8")
"""Number formats that peaks and floors are about."""

LIST = "gpu_peaks"

_SLICE = re.compile(r"\bmig\b")
_SHARED = re.compile(r"\bshared$")
# Virtual GPUs end in their memory and a letter: A100-4C, L40S-48Q.
_VIRTUAL = re.compile(r"\b\d{1,3}(?:me)?[abcq]$")
_FORM = re.compile(r"\b(sxm|pcie|oam|nvl)\d*\b")


@dataclasses.dataclass(frozen=True)
class Part:
    """One entry of the list.

    Attributes:
        name: what it is called here.
        match: patterns, any of which finds it in a normalised name.
        weak: those of them that also fit other parts.
        peak: dense TFLOP/s by format.
        form: SXM, PCIe, OAM ..., or `by name`.
        watts: board power by default, None where it is not known here.
        units: multiprocessors of a whole one, None where it is not known here.
        source: where the figures come from.
    """

    name: str
    match: tuple[str, ...]
    weak: tuple[str, ...]
    peak: Mapping[str, float]
    form: str
    watts: float | None
    units: int | None
    source: str


@dataclasses.dataclass(frozen=True)
class Found:
    """What a name stands for.

    Attributes:
        part: the entry; None where there is none.
        why: why there is no peak, "" where there is one.
        form: the form factor, `unknown` where neither list nor name tells.
        certain: whether the name stands for this part alone.
    """

    part: Part | None
    why: str = ""
    form: str = "unknown"
    certain: bool = True

    def peak(self, number_format: str) -> float | None:
        """Return the dense TFLOP/s of a format; None where the part has no such path, or is not known."""
        return None if self.part is None else self.part.peak.get(number_format)


def normalise(name: str) -> str:
    """Return a name in lower case with every run of -, _ and blanks as one blank."""
    return " ".join(re.sub(r"[-_\s]+", " ", name.lower()).split())


def named(part: str, device: str) -> bool:
    """Report whether a GPU's name has a part: B200 is none of GB200, which has other links, and H20 none of H200."""
    own = normalise(part)
    start = r"(?<![a-z])" if own[:1].isalpha() else ""
    end = r"(?![a-z0-9])" if own[-1:].isalnum() else ""
    return re.search(start + re.escape(own) + end, normalise(device)) is not None


def parts_of(data: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the entries of a list as it was read."""
    return tuple(
        Part(
            name=str(entry["name"]),
            match=tuple(entry["match"]),
            weak=tuple(entry.get("weak", ())),
            peak={key: float(value) for key, value in entry["peak"].items()},
            form=str(entry.get("form", "unknown")),
            watts=None if entry.get("watts") is None else float(entry["watts"]),
            units=entry.get("units"),
            source=str(entry["source"]),
        )
        for entry in data["gpus"]
    )


@functools.cache
def known() -> tuple[Part, ...]:
    """Return the shipped entries, in the order in which they are tried."""
    return parts_of(shipped.load(LIST))


@functools.cache
def largest() -> float:
    """Return the largest peak of any shipped part in any format."""
    return max(value for part in known() for value in part.peak.values())


def look_up(name: str, units: int | None = None, parts: Iterable[Part] | None = None) -> Found:
    """Return what a GPU's name stands for.

    Args:
        name: as the driver or a node label has it.
        units: multiprocessors that the device tells; fewer than a whole one has make it a slice.
        parts: entries in the order in which they are tried; None for the shipped ones.
    """
    plain = normalise(name)
    for pattern, why in (
        (_SLICE, "a slice of a GPU (MIG): the peak of a whole one does not apply"),
        (_SHARED, "a GPU shared by several pods: its peak does not apply to one pod"),
        (_VIRTUAL, "a virtual GPU: the peak of a whole one does not apply"),
    ):
        if pattern.search(plain):
            return Found(None, why)
    for part in known() if parts is None else parts:
        hits = [pattern for pattern in part.match if re.search(pattern, plain)]
        if not hits:
            continue
        if part.units is not None and units is not None and units < part.units:
            return Found(None, f"{units} of {part.units} multiprocessors: a slice of {part.name}")
        return Found(part, form=_form(part, plain), certain=any(hit not in part.weak for hit in hits))
    return Found(None, f"no peak is known for {name!r}" if plain else "the GPU has no name")


def _form(part: Part, plain: str) -> str:
    if part.form != "by name":
        return part.form
    told = _FORM.search(plain)
    return {"sxm": "SXM", "pcie": "PCIe", "oam": "OAM", "nvl": "PCIe"}[told[1]] if told else "unknown"
