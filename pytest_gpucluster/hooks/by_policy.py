"""A run that decides by a policy: the policy is read before the run, the decision is made at its end."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import state
from pytest_gpucluster.requirement import Verdict

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.settings import Settings

_RED = frozenset({Verdict.FAIL.value, Verdict.ENVIRONMENT.value, Verdict.INCONCLUSIVE.value, state.NOT_RUN})
_LONGEST = 300
"""Characters of a reason that the terminal shows; the page has all of it."""
_ROWS = 8
"""Rows of one reason that the terminal names."""


def load(told: "Settings") -> dict[str, Any] | None:
    """Return the policy that a run was told, as plain data; None without one.

    Raises:
        pytest.UsageError: one line: it is not there, or cannot be used.
    """
    if told.policy is None:
        return None
    from pytest_gpucluster.acceptance import policy

    try:
        return policy.load(told.policy).as_dict()
    except policy.PolicyError as error:
        raise pytest.UsageError(f"{told.sources['policy']}: {error}") from None


def decided(folder: Path, report: Mapping[str, Any], *, interrupted: bool) -> dict[str, Any] | None:
    """Return what a run that ends now comes to by its policy; None if it has no policy.

    What keeps the decision from being made closes the gate, too.

    Args:
        folder: the run's folder.
        report: its record so far.
        interrupted: whether it ends before its time.
    """
    if not report["decision"]:
        return None
    from pytest_gpucluster.acceptance import own, policy
    from pytest_gpucluster.plain import times
    from pytest_gpucluster.report import suites
    from pytest_gpucluster.requirement import REGISTRY, is_site

    ended = {**report, "run": {**report["run"], "interrupted": interrupted, "killed": False}}
    registry = suites.load_suites() if all(is_site(row.id) for row in REGISTRY) else REGISTRY
    try:
        return own.decided(folder, ended, times.now(), registry=registry)
    except (policy.PolicyError, ValueError, OSError) as error:
        why = f"the gate could not be decided: {' '.join(str(error).split())}"
        closer = {**report["decision"]["closers"][0], "why": why}
        return {**report["decision"], "text": f"closed: {why}", "closers": [closer]}


def only_rows_failed(config: pytest.Config) -> bool:
    """Report whether all that failed in a run are rows that were decided red: of them a policy is the judge."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return False
    failed = [each for of in terminal.stats.values() for each in of if getattr(each, "failed", False)]
    return all(
        dict(getattr(each, "user_properties", ())).get(state.VERDICT_PROPERTY) in _RED for each in failed
    )


def lines(decision: Mapping[str, Any]) -> Iterator[str]:
    """Yield a decision for the end of the terminal: what closes it and what to do, then each purpose."""
    for each in decision["closers"]:
        stage = f" ({each['stage']})" if each["stage"] else ""
        yield f"{_few(each['what'])}{stage}: {_short(each['why'])}"
        if each["ambiguous"]:
            yield f"  ambiguous: {each['ambiguous']}, and this may come of it"
        # Half a command is of no use: a long one is in the reports.
        first = each["fix"].partition(" -k ")[0]
        yield f"  fix: {each['fix'] if len(each['fix']) <= _LONGEST else f'{first} -k ROWS, as report.md has it'}"
    yield from map(_short, decision["notes"])
    for purpose, word in decision["purposes"].items():
        yield f"{purpose:<18} {word}"
    yield f"{'gate':<10}{decision['text']} (policy {decision['policy']['name']})"


def _few(rows: str) -> str:
    first = rows.split(", ")
    return rows if len(first) <= _ROWS else f"{', '.join(first[:_ROWS])} and {len(first) - _ROWS} more"


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= _LONGEST else f"{one[: _LONGEST - 4].rstrip()} ..."
