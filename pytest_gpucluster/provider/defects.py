"""The planted defects of the embedded cluster: the tables of both its halves, and of its profile, as one."""

import importlib
from collections.abc import Iterable, Mapping, Sequence

from pytest_gpucluster.plain import names
from pytest_gpucluster.provider.protocol import ProviderError

FACT = "defects"
"""Fact of a cluster: the names of the defects that are in force in it, sorted; absent where there are none."""

TABLES = {
    "control plane": "pytest_gpucluster.embedded.defect_table",
    "nodes": "pytest_gpucluster.node.defects",
    "profile": "pytest_gpucluster.profile.defects",
}
"""Who plants them -> module with `DEFECTS`: name to description."""


def known_defects() -> dict[str, str]:
    """Return every defect with its description."""
    return {name: text for table in _tables().values() for name, text in table.items()}


def check_defects(defects: Sequence[str], provider: str) -> None:
    """Check names of defects.

    Raises:
        ProviderError: an unknown defect, or any with a provider that cannot plant one.
    """
    if defects and provider != "embedded":
        raise ProviderError(
            f"defect {defects[0]!r}: defects are planted in the embedded cluster only, but this one is {provider!r}"
        )
    known = known_defects() if defects else {}
    for defect in defects:
        if defect not in known:
            hint = names.did_you_mean(defect, known, "gpucluster describe defects")
            raise ProviderError(f"unknown defect {defect!r}{hint}")


def split(defects: Sequence[str]) -> dict[str, list[str]]:
    """Return the defects by who plants them."""
    return {who: [d for d in defects if d in table] for who, table in _tables().items()}


def fact(defects: Iterable[str]) -> dict[str, list[str]]:
    """Return the fact of a cluster in which these are in force, nothing for none; evidence tells it."""
    named = sorted(defects)
    return {FACT: named} if named else {}


def at_start() -> frozenset[str]:
    """Return the defects that decide what a cluster starts: they cannot be switched in one that runs."""
    modules = [importlib.import_module(name) for name in TABLES.values()]
    return frozenset(name for module in modules for name in module.AT_START)


def _tables() -> dict[str, Mapping[str, str]]:
    return {who: _table(module) for who, module in TABLES.items()}


def _table(module_name: str) -> Mapping[str, str]:
    return dict(importlib.import_module(module_name).DEFECTS)
