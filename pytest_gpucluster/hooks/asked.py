"""Which areas a run was asked for by name: by a word of `-m` or `-k`, or by a file or folder of theirs alone."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_gpucluster.hooks import selection
from pytest_gpucluster.requirement import AREAS, Requirement


def areas(config: pytest.Config, chosen: Sequence[tuple[pytest.Item, Requirement]]) -> tuple[str, ...]:
    """Return the areas that were asked for by name, in the order of the catalogue.

    Args:
        config: pytest's configuration.
        chosen: what is selected: items with their requirements.
    """
    named = {*_of_words(config), *_of_paths(config, chosen)}
    return tuple(name for name, _ in AREAS.values() if name in named)


def _of_words(config: pytest.Config) -> Iterator[str]:
    by_prefix = {prefix.lower(): name for prefix, (name, _) in AREAS.items()}
    known = {**by_prefix, **{name: name for name in by_prefix.values()}}
    for expression in (config.getoption("markexpr"), config.getoption("keyword")):
        for word in selection.words(expression):
            area = known.get(re.split(r"[-_]", word.text.lower())[0])
            if area is not None and not word.negated:
                yield area


def _of_paths(config: pytest.Config, chosen: Sequence[tuple[pytest.Item, Requirement]]) -> Iterator[str]:
    for arg in config.args:
        told = str(arg).partition("::")[0]
        of = {row.area for item, row in chosen if _lies_in(item, told, config.invocation_params.dir)}
        if len(of) == 1:
            yield of.pop()


def _lies_in(item: pytest.Item, told: str, folder: Path) -> bool:
    """Report whether a test lies in what an argument names: a file, a folder, or with --pyargs a module."""
    path = (folder / told).resolve()
    module = str(getattr(getattr(item, "module", None), "__name__", ""))
    return item.path == path or path in item.path.parents or f"{module}.".startswith(f"{told}.")
