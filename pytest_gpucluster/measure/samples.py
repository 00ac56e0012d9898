"""Statistics of measured values: percentiles, variation, where they are steady. Nothing here takes NaN for a number."""

import math
import statistics
import sys
from collections.abc import Iterable, Sequence


def finite(values: Iterable[object]) -> list[float]:
    """Return the values that are finite numbers; truth values are none, nor are whole numbers beyond all of them."""
    return [
        float(v)
        for v in values
        if isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= sys.float_info.max
    ]


def number(value: object) -> float | None:
    """Return a finite number, None for anything else."""
    found = finite([value])
    return found[0] if found else None


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, linear between neighbours.

    Raises:
        ValueError: no values, or a share outside 0 to 1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError(f"no percentile {share} of {len(values)} values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    # Not the difference times the share: that may leave the range by a rounding.
    part = place - low
    return min(max(ordered[low] * (1 - part) + ordered[high] * part, ordered[low]), ordered[high])


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation; infinite for values whose mean is not above 0, 0 for a single one."""
    if not values:
        return math.inf
    mean = statistics.fmean(values)
    return statistics.pstdev(values, mean) / mean if mean > 0 else math.inf


def spread(values: Sequence[float]) -> float:
    """Return (largest - smallest) / largest; 0 for none, infinite where the largest is not above 0."""
    if not values:
        return 0.0
    top = max(values)
    return (top - min(values)) / top if top > 0 else math.inf


def steady_from(values: Sequence[float], window: int, limit: float) -> int | None:
    """Return from which value on every window of so many values varies by less than a limit; None for never.

    The last window decides first: what is not steady at the end never was for good.
    """
    if window < 1 or len(values) < window:
        return None
    start = None
    for at in range(len(values) - window, -1, -1):
        if variation(values[at : at + window]) >= limit:
            break
        start = at
    return start
