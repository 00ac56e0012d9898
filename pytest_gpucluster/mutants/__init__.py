"""Evidence mutants: departures planted into evidence of a passing scenario, in milliseconds and without a cluster.

Each mutant is a pure function of an evidence; one that finds nothing to change returns the evidence as it is. They
show that a judge can fail, and that a judge which lacks its ground falls silent instead of passing. One module an
area; `base` has the pieces. A mutant says itself which rows it flips; the matrix compares exactly.
"""

import importlib
import pkgutil

from pytest_gpucluster.mutants.base import Mutant, Table, each, edited, with_lines, without
from pytest_gpucluster.requirement import DeclarationError, flips

__all__ = ["MUTANTS", "Mutant", "each", "edited", "with_lines", "without"]


def _gathered() -> Table:
    found: dict[str, Mutant] = {}
    for module in pkgutil.iter_modules(__path__):
        where = f"{__name__}.{module.name}"
        table: Table = getattr(importlib.import_module(where), "MUTANTS", {})
        for name, mutant in table.items():
            if name in found:
                raise DeclarationError(f"mutant {name!r} of {where} is also in another module of {__name__}")
            flips.check(name, mutant.flips, where)
            found[name] = mutant
    return found


MUTANTS: Table = _gathered()
"""All mutants by name; the name's first part is the area.

Raises `DeclarationError` at import for an entry that names an unknown row, a verdict that is not red, or no row.
"""
