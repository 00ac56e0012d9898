"""Floors of what GPUs must do: which one applies to a GPU, what it is in TFLOP/s, and where it comes from."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_gpucluster.measure import peaks, samples

MARGIN = 0.05
"""What a proposed floor leaves below what was measured: GPUs of one kind differ by so much from run to run."""


@dataclasses.dataclass(frozen=True)
class Floor:
    """A floor as it applies to one GPU.

    Attributes:
        tflops: least TFLOP/s.
        origin: where it comes from, with the peak where it is a part of one.
    """

    tflops: float
    origin: str


def of_products(
    declared: Iterable[Mapping[str, Any]], name: str, number_format: str, peak: float | None
) -> Floor | None:
    """Return the floor of a GPU for products of a format: the first that is declared for it, None for none.

    A part of a peak that is not known is no floor.

    Args:
        declared: floors, each with `format`, `share` or `tflops`, and perhaps `device`, which is a part of the name, or
            with `exact` all of it.
        name: the GPU's name.
        number_format: the format.
        peak: its dense peak in TFLOP/s, None where it is not known.
    """
    plain = peaks.normalise(name)
    for one in declared:
        device = one.get("device")
        own = peaks.normalise(str(device or ""))
        fits = own == plain if one.get("exact") else peaks.named(own, plain)
        if one.get("format") != number_format or not fits:
            continue
        origin = str(one.get("origin") or one.get("of") or "profile")
        tflops, share = samples.number(one.get("tflops")), samples.number(one.get("share"))
        if tflops is not None:
            return Floor(tflops, origin)
        if share is not None and peak is not None:
            return Floor(share * peak, f"{share:g} of the peak of {peak:g} TFLOP/s; {origin}")
    return None


def proposed(values: Sequence[float], margin: float = MARGIN) -> float:
    """Return the floor that measured values propose: the lowest of them less a margin, three significant digits.

    Args:
        values: low percentiles of accepted runs, one a GPU and run.
        margin: what is left below, as part of the lowest.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values")
    return float(f"{min(values) * (1 - margin):.3g}")
