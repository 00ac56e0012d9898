"""Evidence mutants: departures planted into evidence of a passing scenario, in milliseconds and without a cluster.

Each mutant is a pure function of an evidence; one that finds nothing to change returns the evidence as it is. They
show that a judge can fail, and that a judge which lacks its ground falls silent instead of passing. One module an
area; `base` has the pieces. Which rows each one flips: `suites/defects`.
"""

import importlib
import pkgutil

from pytest_gpucluster.mutants.base import Mutant, Table, each, edited, with_lines, without

__all__ = ["MUTANTS", "Mutant", "each", "edited", "with_lines", "without"]


def _gathered() -> Table:
    found: dict[str, tuple[str, Mutant]] = {}
    for module in pkgutil.iter_modules(__path__):
        table = getattr(importlib.import_module(f"{__name__}.{module.name}"), "MUTANTS", {})
        twice = sorted(set(found) & set(table))
        if twice:
            raise ValueError(f"mutant {twice[0]!r} is in two modules of {__name__}")
        found.update(table)
    return found


MUTANTS: Table = _gathered()
"""All mutants by name; the name's first part is the area."""
