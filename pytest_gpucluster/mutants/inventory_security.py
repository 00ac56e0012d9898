"""Departures of the versions under containers, and of the list that they are compared with."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain.copies import clone

DRIVER = "nvidia.com/cuda.driver-version.full"


def _driver(version: str | None) -> base.Act:
    """Return the mutant in which every node tells another version of the driver, or none."""

    def change(node: dict[str, Any]) -> None:
        labels = {**fields.sub(node, "metadata", "labels")}
        if DRIVER in labels and version is None:
            del labels[DRIVER]
        elif DRIVER in labels:
            labels[DRIVER] = version
        node["metadata"]["labels"] = labels

    return base.only(
        "inventory", lambda evidence: base.each(evidence, lambda line: line.kind == "Node", change)
    )


def _list(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes the list that was compared with."""

    def mutant(evidence: Evidence) -> Evidence:
        header = clone(dict(evidence.header))
        security = fields.sub(header, "given", "security")
        if isinstance(security, dict):
            change(security)
        return Evidence(evidence.lines, header=header, spans=evidence.spans)

    return base.only("inventory", mutant)


def _raised(security: dict[str, Any]) -> None:
    for floor in security["floors"]:
        if floor["component"] == "driver":
            floor["version"] = "1.0.1"


def _ended(security: dict[str, Any]) -> None:
    for floor in security["floors"]:
        if floor["component"] == "driver":
            floor.update(ended=True, version=None)


MUTANTS: base.Table = {
    "inventory.driver-old": base.Mutant(
        "all nodes have a driver below its floor", _driver("0.9.9"), {"INV-011": "fail"}
    ),
    "inventory.driver-unlisted": base.Mutant(
        "all nodes have a driver of a branch that is not in the list",
        _driver("700.10.02"),
        {"INV-011": "inconclusive"},
    ),
    "inventory.driver-untold": base.Mutant(
        "no node tells the version of its driver", _driver(None), {"INV-011": "inconclusive"}
    ),
    "inventory.driver-floor-raised": base.Mutant(
        "the list asks for a newer driver", _list(_raised), {"INV-011": "fail"}
    ),
    "inventory.driver-branch-ended": base.Mutant(
        "the branch of the driver has ended", _list(_ended), {"INV-011": "fail"}
    ),
}
