"""Lists of numbers as the Linux kernel writes them, `0-3,8`, and of names that end in numbers, `gpu-[0-3,8]`."""

import re
from collections.abc import Iterable, Mapping

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


def names(listed: Iterable[str]) -> str:
    """Return names in short: those that differ in their last number alone share one entry, `gpu-[0-3,8], login`.

    Zeros before a number are part of the name and stay.
    """
    groups: dict[tuple[str, int, str], set[int]] = {}
    for name in listed:
        head, digits, tail = _LAST.fullmatch(name).groups("")  # type: ignore[union-attr]  # matches any name
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        groups.setdefault((head, width, tail), set())
        if digits:
            groups[head, width, tail].add(int(digits))
    return ", ".join(f"{head}{_padded(found, width)}{tail}" for (head, width, tail), found in _joined(groups))


_LAST = re.compile(r"(.*?)(?:(\d+)(\D*))?", re.DOTALL)


def _joined(
    groups: Mapping[tuple[str, int, str], set[int]],
) -> list[tuple[tuple[str, int, str], set[int]]]:
    """Return groups with `gpu-099` and `gpu-100` in one: zeros fill up to a width, which larger numbers have anyway."""
    found: dict[tuple[str, int, str], set[int]] = {}
    for (head, width, tail), numbers in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1])):
        wide = next((key for key in found if (key[0], key[2]) == (head, tail) and key[1]), None)
        if width == 0 and wide is not None and all(len(str(number)) == wide[1] for number in numbers):
            found[wide] |= numbers
        else:
            found[head, width, tail] = set(numbers)
    return list(found.items())


def _padded(numbers: set[int], width: int) -> str:
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"{numbers.pop():0{width}d}"
    spans = ["-".join(f"{int(end):0{width}d}" for end in part.split("-")) for part in parts(numbers)]
    return f"[{','.join(spans)}]"
