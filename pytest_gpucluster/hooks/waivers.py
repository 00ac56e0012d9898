"""Waivers of the profile: which are in force, which have expired, and which name no requirement."""

import datetime as dt
from collections.abc import Iterator

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.plain import times
from pytest_gpucluster.profile.model import Waiver
from pytest_gpucluster.requirement import REGISTRY, Verdict, catalogue, declare, row_ids

RED = frozenset({Verdict.FAIL, Verdict.ENVIRONMENT, Verdict.INCONCLUSIVE})
"""Verdicts that a waiver covers: the row is shown as waived, and stays red."""


def check(loaded: profile.LoadedProfile) -> None:
    """Check that each waiver names a requirement; a site's own are known only where its tests are collected.

    Raises:
        pytest.UsageError: one line: where, which id, the nearest one.
    """
    known = {row.id for row in catalogue.rows()} | {row.id for row in REGISTRY}
    for number, waiver in enumerate(loaded.profile.waivers):
        if waiver.id in known or declare.is_site(waiver.id):
            continue
        path = f"waivers.{number}.id"
        sources = loaded.sources
        where = sources.get(path) or sources.get("waivers") or str(loaded.file or loaded.profile.name)
        hint = row_ids.hint(waiver.id, sorted(known, key=catalogue.order))
        raise pytest.UsageError(f"{where}: {path} = {waiver.id!r}: unknown requirement{hint}")


def is_in_force(waiver: Waiver, today: dt.date | None = None) -> bool:
    """Report whether a waiver counts: up to and with its last day."""
    return (today or times.now().date()) <= waiver.expires


def of(loaded: profile.LoadedProfile, requirement_id: str) -> Waiver | None:
    """Return the waiver of a requirement that is in force, None without one."""
    return next((w for w in loaded.profile.waivers if w.id == requirement_id and is_in_force(w)), None)


def text(waiver: Waiver) -> str:
    """Return a waiver in one line."""
    return f"until {waiver.expires.isoformat()} by {waiver.owner}: {waiver.reason}"


def lines(loaded: profile.LoadedProfile) -> Iterator[str]:
    """Yield a line for each waiver, for the head of the run; an expired one says that it has no effect."""
    for waiver in loaded.profile.waivers:
        if is_in_force(waiver):
            yield f"gpucluster: {waiver.id} is waived {text(waiver)}"
        else:
            yield (
                f"gpucluster: the waiver of {waiver.id} by {waiver.owner} expired on {waiver.expires.isoformat()} "
                "and has no effect"
            )
