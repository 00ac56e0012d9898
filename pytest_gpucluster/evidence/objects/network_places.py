"""Where nodes are in the network, by their labels: the domain of a node at a level.

Two racks of one name in two blocks are two domains: a domain is named by its own label and those of all coarser levels.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.node_status import Machine

Domain = tuple[str, ...]
"""Values of a level's label and of all coarser ones, coarse to fine."""


@dataclasses.dataclass(frozen=True)
class Levels:
    """The declared levels.

    Attributes:
        labels: node labels, coarse to fine.
        required: the level within one domain of which gangs must be placed, "" where none is declared.
    """

    labels: tuple[str, ...]
    required: str

    def domain(self, labels: Mapping[str, Any], level: str = "") -> Domain | None:
        """Return the domain of a node at a level, by default the required one; None where its labels do not tell."""
        until = level or self.required
        if until not in self.labels:
            return None
        values = [value(labels, one) for one in self.labels[: self.labels.index(until) + 1]]
        return None if "" in values else tuple(values)

    def lacking(self, labels: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the levels of which a node carries no label, or one without a value."""
        return tuple(one for one in self.labels if not value(labels, one))


def value(labels: Mapping[str, Any], key: str) -> str:
    """Return the value of a label, "" where there is none."""
    found = labels.get(key)
    return found.strip() if isinstance(found, str) else ""


def levels(given: Mapping[str, Any]) -> Levels | None:
    """Return the declared levels, None where no topology is declared or it cannot be read."""
    told = fields.sub(given, "topology")
    listed: object = told.get("levels")
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return None
    labels = tuple(one for one in listed if isinstance(one, str) and one)
    if not labels or len(set(labels)) < len(listed):
        return None
    return Levels(labels, fields.text(told, "required"))


def undeclared(given: Mapping[str, Any]) -> bool:
    """Report whether the evidence says that the profile declares no topology; it may also say nothing about it."""
    return "topology" in given and given["topology"] is None


def domains(machines: Iterable[Machine], known: Levels, level: str = "") -> dict[Domain, tuple[Machine, ...]]:
    """Return the domains of a level, by default the required one, with their nodes; who tells no place is in none."""
    found: dict[Domain, list[Machine]] = {}
    for machine in machines:
        domain = known.domain(machine.labels, level)
        if domain is not None:
            found.setdefault(domain, []).append(machine)
    return {domain: tuple(found[domain]) for domain in sorted(found)}
