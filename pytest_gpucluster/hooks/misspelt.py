"""Words that are almost ours: told in one line with the nearest."""

import difflib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import pytest

from pytest_gpucluster.hooks import table
from pytest_gpucluster.plain.names import did_you_mean, nearest

PREFIX = "gpucluster_"
LIKE = 0.9
"""How like a setting of ours a name of another beginning is, of 1, to be taken for it."""


def check_options(args: Sequence[str]) -> None:
    """Refuse options of ours that there are not; pytest would name neither the nearest nor the allowed.

    Raises:
        pytest.UsageError: the first of them, with the nearest.
    """
    known = table.flags_known()
    for word in itertools.takewhile(lambda word: word != "--", args):
        flag = word.partition("=")[0]
        if flag.startswith(table.OURS.rstrip("-")) and flag not in known:
            raise pytest.UsageError(f"{flag}: unknown option{did_you_mean(flag, known)}")


def variables(env: Iterable[str]) -> Iterator[str]:
    """Yield a line for each variable that is almost the twin of an option; keys of a profile are checked with it.

    A run of somebody else's tests goes on: the variable may be somebody else's, too.
    """
    known = {option.env for option in table.OPTIONS if option.env}
    for name in sorted(env):
        if name not in known and (near := nearest(name.upper(), known, LIKE)):
            yield f"gpucluster: environment {name} is no variable of the plugin; did you mean {near!r}?"


def check_ini(config: pytest.Config, names: Iterable[str]) -> None:
    """Refuse ini settings that nobody declares and that are meant to be ours.

    Raises:
        pytest.UsageError: the first of them, with the nearest.
    """
    known = table.settings_known()
    for name in names:
        if name in known or _is_declared(config, name):
            continue
        low = name.lower()
        if low.startswith(PREFIX) or difflib.get_close_matches(low, known, n=1, cutoff=LIKE):
            where = config.inipath.name if config.inipath else "-o"
            raise pytest.UsageError(f"{where}: {name}: unknown setting{did_you_mean(low, known)}")


def _is_declared(config: pytest.Config, name: str) -> bool:
    try:
        config.getini(name)
    except ValueError:
        # pytest's answer for a name that no plugin declared.
        return False
    return True
