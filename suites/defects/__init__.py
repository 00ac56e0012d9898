"""Which rows each live defect of the embedded cluster turns red: the reviewed tables, one module an area.

A row that is not named stays `pass` under the defect. `environment` and `inconclusive` are red too: they name the
prerequisite that failed. The matrix tests compare exactly. Mutants of recorded evidence say themselves what they flip
(`pytest_gpucluster/mutants`).
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from pytest_gpucluster.requirement import DeclarationError, flips

Table = Mapping[str, flips.Flips]


def _gathered() -> Iterator[tuple[str, str, flips.Flips]]:
    found: set[str] = set()
    for module in pkgutil.iter_modules(__path__):
        where = f"{__name__}.{module.name}"
        table: Table = getattr(importlib.import_module(where), "FLIPS", {})
        for name, flipped in table.items():
            if name in found:
                raise DeclarationError(
                    f"defect {name!r} of {where} stands in another table of {__name__} too"
                )
            flips.check(name, flipped, where)
            found.add(name)
            yield name, module.name, flipped


_ALL = tuple(_gathered())

FLIPS: Table = {name: flipped for name, _, flipped in _ALL}
"""Live defect -> {requirement id: verdict}."""

TABLES: Mapping[str, str] = {name: module for name, module, _ in _ALL}
"""Live defect -> the module that has it; if it is called like an area, the defect is one of that area."""
