"""What a queue promises of each resource, and what of it cannot be read."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.plain import quantities


@dataclasses.dataclass(frozen=True)
class Promise:
    """One amount that a queue promises.

    Attributes:
        field: where it stands.
        resource: the resource.
        amount: how much, in the resource's base unit.
        text: how much, as it is written.
    """

    field: str
    resource: str
    amount: Fraction
    text: str


def unread(line: Line, promised: Iterable[Promise], found: Iterable[Machine]) -> list[str]:
    """Return what is no amount: of the queue's own fields, and of what nodes offer of the resources promised."""
    own = [
        f"{field} {resource}={value}"
        for field, resource, value in _amounts(line)
        if fields.amount(value) is None
    ]
    wanted = {promise.resource for promise in promised}
    nodes = [
        f"{said} {name} of {machine.name}"
        for machine in found
        for name, said in sorted(machine.unreadable.items())
        if name in wanted
    ]
    return [*own, *nodes]


def _amounts(line: Line) -> Iterator[tuple[str, str, object]]:
    """Yield (field, resource, amount as it stands there) of all that a queue promises."""
    spec = fields.sub(line.object, "spec")
    if line.kind == "Queue":
        parts: Mapping[str, Mapping[str, Any]] = {
            "capability": fields.sub(spec, "capability"),
            "deserved": fields.sub(spec, "deserved"),
            "guarantee": fields.sub(spec, "guarantee", "resource"),
        }
        for field, amounts in parts.items():
            yield from ((field, str(resource), value) for resource, value in amounts.items())
        return
    for group in fields.items(spec, "resourceGroups"):
        for flavor in fields.items(group, "flavors"):
            for row in fields.items(flavor, "resources"):
                if fields.text(row, "name"):
                    yield "nominalQuota", fields.text(row, "name"), row.get("nominalQuota")


def promises(line: Line) -> Iterator[Promise]:
    """Yield what a queue promises, as far as it can be read."""
    readable = [(f, r, v) for f, r, v in _amounts(line) if fields.amount(v) is not None]
    if line.kind == "Queue":
        yield from (Promise(field, resource, fields.quantity(v), str(v)) for field, resource, v in readable)
        return
    sums: dict[str, Fraction] = {}
    for _, resource, value in readable:
        sums[resource] = sums.get(resource, Fraction(0)) + fields.quantity(value)
    for resource, amount in sums.items():
        yield Promise("nominalQuota", resource, amount, quantities.format_quantity(amount))
