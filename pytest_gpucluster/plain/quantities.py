"""Kubernetes quantities as exact numbers."""

import functools
import re
from fractions import Fraction

_SUFFIX = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_SHAPE = re.compile(
    r"^([+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?|[+-]?\.[0-9]{1,40})([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE]|)$"
)
"""No API server takes numbers of more digits; reckoning with a million of them would take for ever."""


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity."""


def parse_quantity(value: str | float) -> Fraction:
    """Return a quantity as an exact fraction of its base unit.

    Accepts what the API server accepts: decimal numbers with an SI suffix (n u m k M G T P E), a binary
    suffix (Ki .. Ei) or an exponent; also plain numbers, since YAML turns `8` into one.

    Raises:
        QuantityError: when the text has another shape.
    """
    if isinstance(value, bool):
        raise QuantityError(f"not a quantity: {value!r}")
    if isinstance(value, int):
        return Fraction(value)
    exact = _read(str(value).strip())
    if exact is None:
        raise QuantityError(f"not a quantity: {value!r}")
    return exact


@functools.lru_cache(maxsize=1024)
def _read(text: str) -> Fraction | None:
    """Return what a text says, None for what is no quantity; a cluster has few, in each of its pods."""
    match = _SHAPE.match(text)
    if match is None:
        return None
    number, suffix = match.groups()
    if suffix and suffix[0] in "eE" and len(suffix) > 1 and suffix[1:].lstrip("+-").isdigit():
        return Fraction(f"{number}{suffix}")
    return Fraction(number) * _SUFFIX[suffix]


def format_quantity(value: Fraction | float) -> str:
    """Return a canonical text: whole numbers as they are, fractions in thousandths (`500m`), rounded up."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    milli = -(-exact.numerator * 1000 // exact.denominator)
    return f"{milli}m"


def whole(value: object) -> int:
    """Return a count of devices; 0 for what is absent or no whole number, which no device is."""
    try:
        exact = parse_quantity(value) if isinstance(value, str | int | float) else Fraction(0)
    except QuantityError:
        return 0
    return int(exact) if exact.denominator == 1 and exact > 0 else 0
