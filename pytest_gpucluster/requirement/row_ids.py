"""Ids of requirements as people type them: which one was meant."""

import re
from collections.abc import Iterable

from pytest_gpucluster.plain import names

_LIKE = re.compile(r"([a-z]+)[-_]?([0-9o]{1,4})?", re.IGNORECASE)
"""A word that somebody may have meant for an id: `GANG_002`, `LIFE-0O3`, `FAB-1`; or for an area: `gang`."""

NEAR = 0.7
"""How like the prefix of an area another is, of 1, to be taken for it."""

PAGE = "gpucluster describe requirements"
"""What lists all ids."""


def is_like(word: str) -> bool:
    """Report whether a word has the form of an id, with a number."""
    return bool(_number(word))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the id most like a word; None if its area is like none, or if it has no number."""
    ids = _of_area(word, known)
    return names.nearest(_spelt(word, ids), ids) if ids and _number(word) else None


def hint(word: str, known: Iterable[str]) -> str:
    """Return the end of an error line about an unknown id: the nearest of its area, or the areas."""
    every = list(known)
    ids = _of_area(word, every)
    if not ids:
        areas = list(dict.fromkeys(each.partition("-")[0] for each in every))
        return f" (allowed: ids of the areas {', '.join(areas)}; see {PAGE})"
    if not _number(word):
        return f" (allowed: {', '.join(ids)})"
    return names.did_you_mean(_spelt(word, ids), ids, PAGE)


def _of_area(word: str, known: Iterable[str]) -> list[str]:
    """Return the ids of the area that a word begins with, none if it is like none."""
    match, ids = _LIKE.fullmatch(word), list(known)
    area = names.nearest(match[1], {each.partition("-")[0] for each in ids}, NEAR) if match else None
    return sorted(each for each in ids if each.partition("-")[0] == area)


def _number(word: str) -> str:
    match = _LIKE.fullmatch(word)
    return (match[2] or "") if match else ""


def _spelt(word: str, ids: list[str]) -> str:
    """Return a word as an id of an area is written."""
    return f"{ids[0].partition('-')[0]}-{_number(word).upper().replace('O', '0').zfill(3)[-3:]}"
