"""The table of misconfigurations: what was wrong, which rows had to say so, and what they said."""

import dataclasses
from collections.abc import Mapping, Sequence

from tests.kind.misconfigurations import faults

HEAD = """\
# Real misconfigurations

Typical faults of real clusters, and what the suite says about them: the real-world half of the defect matrix. Written
by `tests/kind/misconfigurations`. It plants each fault into a kind cluster, runs the rows that should notice against
this existing cluster, and takes the fault out again.

A row that *must* see the fault has to fail. If the fault can also prevent a decision, the row must not pass. If the
cluster was only disturbed and is right, the row must not fail.
"""


TOLD = "fault"
"""What tests tell: a fault's name, and row -> verdict."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One fault and what came of it.

    Attributes:
        fault: the fault.
        said: row -> verdict.
    """

    fault: faults.Fault
    said: Mapping[str, str]

    @property
    def as_expected(self) -> bool:
        """Report whether every row said what it may."""
        return all(self.said.get(row) in allowed for row, allowed in self.fault.rows.items())


def rows(told: Sequence[tuple[str, Mapping[str, str]]]) -> list[Row]:
    """Return the rows of what was told of faults by name, in the order of the faults."""
    said = dict(told)
    return [Row(fault, said[fault.name]) for fault in faults.FAULTS if fault.name in said]


def markdown(rows: Sequence[Row]) -> str:
    """Return the table."""
    lines = ["| fault | what is wrong | expected | seen | |", "| --- | --- | --- | --- | --- |"]
    for each in rows:
        expected = ", ".join(f"{name} {_expected(allowed)}" for name, allowed in each.fault.rows.items())
        seen = ", ".join(f"{name} {each.said.get(name, 'not decided')}" for name in each.fault.rows)
        mark = "as expected" if each.as_expected else "**NOT as expected**"
        lines.append(f"| `{each.fault.name}` | {each.fault.what} | {expected} | {seen} | {mark} |")
    return "\n".join(lines) + "\n"


def page(rows: Sequence[Row]) -> str:
    """Return the page of the documentation."""
    return f"{HEAD}\n{markdown(rows)}"


def _expected(allowed: frozenset[str]) -> str:
    words = {faults.FAIL: "fails", faults.NOT_GREEN: "does not pass", faults.NOT_FALSE: "does not fail"}
    return words.get(allowed, " or ".join(sorted(allowed)))
