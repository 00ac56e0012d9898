"""Lists of numbers as the Linux kernel writes them: `0-3,8`."""

import re
from collections.abc import Iterable

_PART = re.compile(r"\s*(\d+)(?:-(\d+))?\s*")


def parts(numbers: Iterable[int]) -> list[str]:
    """Return numbers as ranges in ascending order: `0-3` and `8`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(low) if low == high else f"{low}-{high}" for low, high in found]


def write(numbers: Iterable[int]) -> str:
    """Return numbers as the kernel writes them."""
    return ",".join(parts(numbers))


def read(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as `0-3,8,10-11`; what is no list has none."""
    found: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match:
            found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(found)
