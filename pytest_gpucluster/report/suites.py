"""Find and import the shipped suites, so that the registry holds every requirement that has a test."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import pytest_gpucluster
from pytest_gpucluster.plain import checkout
from pytest_gpucluster.report import modules
from pytest_gpucluster.report.modules import SuiteError
from pytest_gpucluster.requirement import REGISTRY, Registry, Requirement
from pytest_gpucluster.requirement import flips as entries

__all__ = ["SuiteError", "defects", "flips", "load_suites", "location"]


def location() -> tuple[Path, str] | None:
    """Return folder and package name of the shipped suites, None where there are none.

    Installed, they lie inside this package; in a checkout, beside it. The present folder does not matter: a
    package of someone else that happens to be called `suites` is never imported.
    """
    package = Path(pytest_gpucluster.__file__).resolve().parent
    for folder, name in (
        (package / "suites", "pytest_gpucluster.suites"),
        (package.parent / "suites", "suites"),
    ):
        if any(folder.rglob("*.py")):
            return folder, name
    return None


def load_suites(extra: Iterable[str] = ()) -> Registry:
    """Import every module of the suites and return the registry.

    A module that is already imported, perhaps by pytest under another name, is not imported again.

    Args:
        extra: further modules with requirements of a site's own, each a file or a dotted name.

    Raises:
        SuiteError: when a module fails to import.
    """
    for module in _shipped():
        modules.attempt(module, functools.partial(importlib.import_module, module))
    for module in extra:
        modules.load(module)
    return REGISTRY


def complete() -> bool:
    """Report whether the registry holds all shipped requirements, which it is given if it holds any of them.

    A project with requirements of its own alone may have taken their ids.
    """
    found = location()
    if found is None or not any(row.where.startswith(f"{found[1]}.") for row in REGISTRY):
        return False
    load_suites()
    return True


def defects(row: Requirement, mutants: Mapping[str, entries.Flips] | None = None) -> tuple[str, ...]:
    """Return the planted defects that a row is there for: those that it declares, else what the tables say.

    Args:
        row: a shipped row, which declares none, or a site's own.
        mutants: what each evidence mutant says of itself; None for the live defects alone.
    """
    place = location()
    if row.defects or place is None or not row.where.startswith((f"{place[1]}.", f"{checkout.NAME}.")):
        return row.defects
    if importlib.util.find_spec(f"{place[1]}.defects") is None:
        return row.defects  # suites without tables of defects
    live = importlib.import_module(f"{place[1]}.defects").FLIPS
    return entries.of_row(row.id, row.area, live, mutants or {})


def flips(mutants: Mapping[str, entries.Flips]) -> dict[str, dict[str, str]]:
    """Return for each planted defect the rows that it turns red, each with the verdict it then gets.

    Read from every suite module that defines `FLIPS`, and from the declarations; a row that only its declaration
    names has the verdict "".

    Args:
        mutants: what each evidence mutant says of itself.
    """
    found: dict[str, dict[str, str]] = {}
    for declared in load_suites():
        for defect in declared.defects:
            found.setdefault(defect, {})[declared.id] = ""
    tables = [getattr(module, "FLIPS", None) for module in _loaded_below_suites()]
    for table in (mutants, *tables):
        if isinstance(table, Mapping):
            for defect, rows in table.items():
                found.setdefault(str(defect), {}).update({str(row): str(rows[row]) for row in rows})
    return {defect: dict(sorted(rows.items())) for defect, rows in sorted(found.items())}


def _shipped() -> list[str]:
    place = location()
    if place is None:
        return []
    folder, package = place
    root = str(folder.parent)
    if "." not in package and root not in sys.path:
        sys.path.append(root)
    loaded = {modules.file_of(module) for module in list(sys.modules.values())}
    found: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        if path.name == "conftest.py" or path in loaded:
            continue
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] != "__init__":
            found.append(".".join((package, *parts)))
    return found


def _loaded_below_suites() -> list[ModuleType]:
    place = location()
    if place is None:
        return []
    return [
        module
        for module in list(sys.modules.values())
        if (file := modules.file_of(module)) and file.is_relative_to(place[0])
    ]
