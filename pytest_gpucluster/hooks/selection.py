"""Words of `-m` and `-k` that select no requirement: misspelt, unknown, or known and not built.

What was asked for and is not run is no pass: such a word is a usage error, even if other words select something.
Words that may be a project's own are left alone.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from pytest_gpucluster.hooks import options, state
from pytest_gpucluster.plain.names import did_you_mean, nearest
from pytest_gpucluster.report import suites
from pytest_gpucluster.requirement import REGISTRY, catalogue, row_ids

_WORD = re.compile(r"[\w:+\-.\[\]\\/]+")
"""A word of an expression, as pytest reads it."""
_ARGUMENTS = re.compile(r"\([^()]*=[^()]*\)")
"""What follows the name of a marker in `-m "needs(nodes=2)"`."""
_ID = re.compile(r"[a-z][a-z0-9]*-\d{3}", re.IGNORECASE)
NOT = "not"
_RESERVED = frozenset({"and", "or", NOT, "True", "False", "None"})

MARKERS = "pytest --markers"
"""What lists all markers."""

NEAR = 0.7
"""How like a word of ours another is, of 1, to be taken for it."""


class Word(NamedTuple):
    """A word of an expression, and whether `not` stands before it."""

    text: str
    negated: bool


def problem(config: pytest.Config, collected: Sequence[pytest.Item], *, nothing_selected: bool) -> str | None:
    """Return what is wrong with `-m` or `-k`, in one line; None if nothing is.

    Args:
        config: pytest's configuration.
        collected: all items that were collected, some of them requirements.
        nothing_selected: none of them is to be run, so that a word may be judged that is like none of ours.
    """
    found = [
        *_of_markers(config, collected, nothing_selected),
        *_of_keywords(config, collected, nothing_selected),
    ]
    return found[0] if found else None


def _of_markers(
    config: pytest.Config, collected: Sequence[pytest.Item], nothing_selected: bool
) -> Iterator[str]:
    expression = config.getoption("markexpr")
    ours = options.markers()
    known = {*ours, *(re.split(r"[:(]", line)[0].strip() for line in config.getini("markers"))}
    known |= {mark.name for item in collected for mark in item.iter_markers()}
    for word, _ in words(expression):
        if word in known:
            continue
        if _ID.fullmatch(word):
            yield f"-m {expression!r}: {word} is not a marker; select a requirement with -k {word.upper()}"
        elif nearest(word, ours, NEAR) or nothing_selected:
            yield f"-m {expression!r}: no test has a marker {word!r}{did_you_mean(word, ours, MARKERS)}"


def _of_keywords(
    config: pytest.Config, collected: Sequence[pytest.Item], nothing_selected: bool
) -> Iterator[str]:
    expression = config.getoption("keyword")
    told_words = list(words(expression))
    names = _names(collected) if told_words else set()
    for word in told_words:
        if any(word.text.lower() in name for name in names):
            continue
        told = (
            _of_id(config, word._replace(text=word.text.upper()))
            if row_ids.is_like(word.text)
            else _of_name(word.text, collected if nothing_selected else ())
        )
        if told:
            yield f"-k {expression!r}: {told}"


def _of_id(config: pytest.Config, word: Word) -> str:
    """Say why no test of an id was collected; "" if that is no mistake."""
    row = catalogue.row(word.text)
    if row is None:
        near = row_ids.nearest(word.text, [each.id for each in (*catalogue.rows(), *REGISTRY)])
        return f"there is no requirement {word.text}; did you mean {near!r}?" if near else ""
    if word.negated or config.getoption("lf", default=False):
        # Not there to be left out; or left out by pytest with all files in which nothing failed.
        return ""
    if suites.complete() and row.id not in {declared.id for declared in REGISTRY}:
        return f"{row.id} ({row.title}) is not built: it is in the catalogue but has no test yet"
    return f"{row.id} ({row.title}) is not among the collected requirements"


def _of_name(word: str, collected: Sequence[pytest.Item]) -> str:
    """Say which name a word is like: an area, a level, or the test of a requirement that was collected."""
    tests = [item.name for item in collected if state.declared(item) is not None]
    near = nearest(word.lower(), [*options.markers(), *tests], NEAR)
    return f"no test has {word!r} in its name or its markers; did you mean {near!r}?" if near else ""


def words(expression: str) -> Iterator[Word]:
    """Yield the words of an expression of `-m` or `-k`."""
    negated = False
    for found in _WORD.findall(_ARGUMENTS.sub("", expression)):
        if found not in _RESERVED:
            yield Word(found, negated)
        negated = found == NOT


def _names(collected: Sequence[pytest.Item]) -> set[str]:
    """Return all that pytest compares the words of `-k` with, in lower case."""
    found: set[str] = set()
    for item in collected:
        found.update(node.name.lower() for node in item.listchain()[1:])
        found.update(name.lower() for name in item.listextrakeywords())
        found.update(str(name).lower() for name in item.keywords)
        found.update(mark.name.lower() for mark in item.iter_markers())
    return found
