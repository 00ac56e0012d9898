"""What is to be mended after a run: each cause once, with its fix and the rows that it keeps from green."""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.report import text

RED = ("fail", "environment", "inconclusive")
"""Verdicts of rows that are not green, the gravest first."""
_NAMED = 6
"""Rows that a cause names."""
_WHERE = 2
"""Places that a cause names."""


@dataclasses.dataclass(frozen=True)
class Ailment:
    """One cause, and what it does.

    Attributes:
        text: the cause; what was observed if no cause is known.
        fix: what mends it, "" where nothing is known that does.
        rows: ids of the rows, the gravest first.
        verdict: the gravest verdict among them.
        where: places at which the first row saw it.
    """

    text: str
    fix: str
    rows: tuple[str, ...]
    verdict: str
    where: tuple[str, ...]


def found(report: Mapping[str, Any]) -> tuple[Ailment, ...]:
    """Return the causes of the rows that are not green, violations first, then those of the most rows.

    Rows whose likeliest cause is the same have one; of rows without a cause those that observed the same.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(report["requirements"], key=lambda row: RED.index(row["verdict"]) if _red(row) else -1):
        if _red(row):
            groups.setdefault(_cause(row), []).append(row)
    ailments = [
        Ailment(text, fix, tuple(row["id"] for row in rows), rows[0]["verdict"],
                tuple(rows[0]["finding"]["where"])[:_WHERE])
        for (text, fix), rows in groups.items()
    ]  # fmt: skip
    return tuple(sorted(ailments, key=lambda one: (RED.index(one.verdict), -len(one.rows))))


def lines(ailments: Sequence[Ailment]) -> Iterator[str]:
    """Yield the causes for a terminal: a number, the rows, what is wrong, how it is mended."""
    for number, one in enumerate(ailments, 1):
        more = len(one.rows) - _NAMED
        rows = ", ".join(one.rows[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield from _filled(f"{number}.".ljust(3), one.text)
        yield from _filled("   rows  ", f"{rows} ({one.verdict})")
        if one.where:
            yield from _filled("   where ", ", ".join(one.where))
        if one.fix:
            yield from _filled("   fix   ", one.fix)


def head(ailments: Sequence[Ailment]) -> str:
    """Return what is said above the causes."""
    rows = sum(len(one.rows) for one in ailments)
    what = "fix this cause" if len(ailments) == 1 else f"fix these {len(ailments)} causes"
    return f"{'1 row is' if rows == 1 else f'{rows} rows are'} not green: {what}, then run the last line"


def _filled(label: str, told: str) -> list[str]:
    after = " " * len(label)
    return textwrap.wrap(
        " ".join(told.split()), text.WIDTH, initial_indent=label, subsequent_indent=after,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _red(row: Mapping[str, Any]) -> bool:
    return row["verdict"] in RED


def _cause(row: Mapping[str, Any]) -> tuple[str, str]:
    finding = row["finding"]
    for cause in finding["causes"]:
        return cause["text"], cause["fix"]
    return finding["observed"], ""
