"""Which rows a planted defect turns red: what an entry may say, and the defects of a row that follow from entries."""

from collections.abc import Mapping

from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import catalogue
from pytest_gpucluster.requirement.declare import DeclarationError
from pytest_gpucluster.requirement.verdict import Verdict

Flips = Mapping[str, str]
"""Requirement id -> the verdict that the row gets; every other row stays `pass`."""

RED = tuple(verdict.value for verdict in (Verdict.FAIL, Verdict.ENVIRONMENT, Verdict.INCONCLUSIVE))
"""Verdicts that a defect can turn a row to."""


def check(defect: str, flips: Flips, where: str) -> None:
    """Check what an entry says about rows.

    Args:
        defect: name of the defect.
        flips: the rows that it turns red.
        where: module of the entry.

    Raises:
        DeclarationError: no row, a row that the catalogue does not have, or a verdict that is not red.
    """
    if not flips:
        raise DeclarationError(f"defect {defect!r} of {where} turns no row red: it shows nothing")
    known = catalogue.ids()
    for row, verdict in flips.items():
        if row not in known:
            hint = names.did_you_mean(row, known, "gpucluster describe requirements")
            raise DeclarationError(f"defect {defect!r} of {where} names the unknown row {row!r}{hint}")
        if verdict not in RED:
            hint = names.did_you_mean(verdict, RED)
            raise DeclarationError(f"defect {defect!r} of {where} turns {row} to {verdict!r}{hint}")


def of_row(row: str, area: str, live: Mapping[str, Flips], mutants: Mapping[str, Flips]) -> tuple[str, ...]:
    """Return the defects that a row is there for.

    These are the live defects and the mutants of the row's own area under which it fails; if it fails under none of
    a kind, those that turn it red at all.

    Args:
        row: the row's id.
        area: the row's area, with which the names of its mutants begin.
        live: live defect -> its flips.
        mutants: evidence mutant -> its flips.
    """
    own = {name: flips for name, flips in mutants.items() if name.partition(".")[0] == area}
    return (*_failing(row, live), *_failing(row, own))


def _failing(row: str, table: Mapping[str, Flips]) -> list[str]:
    red = {name: flips[row] for name, flips in sorted(table.items()) if row in flips}
    return [name for name, verdict in red.items() if verdict == Verdict.FAIL] or list(red)
