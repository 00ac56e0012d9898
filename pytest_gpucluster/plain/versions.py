"""Versions as components print them, and the ranges in which a support matrix names them."""

import functools
import re

Version = tuple[int, ...]

_FOUND = re.compile(r"(?<![\w.])v?(?P<numbers>\d+(?:\.\d+)+)")
"""The first dotted number: of `v1.37.0-eks-1a2b`, of an image's tag, of a driver."""
_BOUND = re.compile(r"^(?P<how>>=|<=|>|<|=|==)?\s*v?(?P<numbers>\d+(?:\.\d+)*)$")
_TAG = re.compile(r":(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]*)$")


class RangeError(ValueError):
    """A text that is no range of versions."""


@functools.lru_cache(1024)
def parse(text: str) -> Version | None:
    """Return the version in a text, None where there is none that can be compared (`latest`, `nightly`, a digest)."""
    match = _FOUND.search(text)
    return tuple(int(part) for part in match["numbers"].split(".")) if match else None


def of_image(image: str) -> Version | None:
    """Return the version that an image's tag names, None without one: no tag, `latest`, only a digest."""
    name = image.partition("@")[0]
    match = _TAG.search(name.rpartition("/")[2])
    return parse(match["tag"]) if match else None


@functools.lru_cache(1024)
def printed(text: str) -> str:
    """Return the version in a text as it is printed there (`570.172.08`), the text itself where there is none."""
    match = _FOUND.search(text.partition("@")[0].rpartition(":")[2])
    return match["numbers"] if match else text


def check_range(text: str) -> str:
    """Return the text if it is a range.

    Raises:
        RangeError: it is none.
    """
    _bounds(text)
    return text


@functools.lru_cache(1024)
def within(version: Version, range_: str) -> bool:
    """Report whether a version lies in a range: `1.14` for every 1.14.x, or bounds such as `>=1.33 <1.38`.

    A bound compares as many numbers as it has: `<=1.37` includes 1.37.4.

    Raises:
        RangeError: the range is none.
    """
    return all(_holds(version, how, bound) for how, bound in _bounds(range_))


def _bounds(text: str) -> list[tuple[str, Version]]:
    found: list[tuple[str, Version]] = []
    for word in re.sub(r"(>=|<=|>|<|==?)\s+", r"\1", text).replace(",", " ").split():
        match = _BOUND.match(word)
        if match is None:
            raise RangeError(f"not a range of versions: {text!r} (such as 1.14, or >=1.33 <1.38)")
        found.append((match["how"] or "=", tuple(int(part) for part in match["numbers"].split("."))))
    if not found:
        raise RangeError(f"not a range of versions: {text!r} (such as 1.14, or >=1.33 <1.38)")
    return found


def _holds(version: Version, how: str, bound: Version) -> bool:
    seen = (version + (0,) * len(bound))[: len(bound)]
    match how:
        case ">=":
            return seen >= bound
        case "<=":
            return seen <= bound
        case ">":
            return seen > bound
        case "<":
            return seen < bound
    return seen == bound
