"""Departures of the RDMA devices that nodes offer, and of the networks that bring them."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import network_definitions, node_status
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

RESOURCE = "rdma/hca"


def _on_last(change: Callable[[dict[str, Any]], None], *, part: str = "") -> base.Act:
    """Return the mutant that changes the amounts of the last GPU node, in both parts of its status or in one."""

    def mutant(evidence: Evidence) -> Evidence:
        last = max((m.name for m in node_status.machines(evidence) if m.gpu_label), default="")

        def edit(node: dict[str, Any]) -> None:
            for each in (part,) if part else ("capacity", "allocatable"):
                amounts = fields.sub(node, "status", each)
                if isinstance(amounts, dict) and RESOURCE in amounts:
                    change(amounts)

        return base.each(evidence, lambda line: line.kind == "Node" and line.name == last, edit)

    return base.only("inventory", mutant)


def _network(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant of the answer with a network's definition."""
    prefix = f"{network_definitions.CASE}:"
    return base.only(
        "inventory",
        lambda evidence: base.responses(
            evidence, lambda line: str(line.data.get("case") or "").startswith(prefix), change
        ),
    )


def _renamed(amounts: dict[str, Any]) -> None:
    amounts["mellanox.com/cx6_rdma"] = amounts.pop(RESOURCE)


def _answers(code: int, reason: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data.pop("object", None)
        data.update(
            code=code, status={"code": code, "reason": reason, "message": f"{data.get('request')}: {reason}"}
        )

    return change


def _names(resource: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data["object"]["metadata"]["annotations"] = {names.ANNOTATION_NETWORK_RESOURCE: resource}

    return change


MUTANTS: base.Table = {
    "inventory.rdma-counted-per-share": base.Mutant(
        "the last GPU node offers 63 shares of its adapters under the declared name",
        _on_last(lambda amounts: amounts.update({RESOURCE: "63"})),
        {"INV-003": "fail", "INV-008": "fail"},
    ),
    "inventory.rdma-plugin-left": base.Mutant(
        "the RDMA device plugin of the last GPU node is gone: capacity counts its devices, nothing is offered",
        _on_last(lambda amounts: amounts.update({RESOURCE: "0"}), part="allocatable"),
        {"INV-003": "fail", "INV-008": "fail"},
    ),
    "inventory.rdma-another-name": base.Mutant(
        "the last GPU node offers its adapters under another name",
        _on_last(_renamed),
        {"INV-003": "fail", "INV-008": "fail"},
    ),
    "inventory.rdma-no-number": base.Mutant(
        "the last GPU node's status has no number of RDMA devices",
        _on_last(lambda amounts: amounts.update({RESOURCE: "some"})),
        {"INV-003": "inconclusive", "INV-008": "fail"},
    ),
    "inventory.rdma-network-names-another": base.Mutant(
        "a network that brings RDMA devices names another resource than pods ask for",
        _network(_names("mellanox.com/cx6_rdma")),
        {"INV-003": "fail"},
    ),
    "inventory.rdma-network-missing": base.Mutant(
        "there is no definition of a network that brings RDMA devices",
        _network(_answers(404, "NotFound")),
        {"INV-003": "fail"},
    ),
    "inventory.rdma-network-forbidden": base.Mutant(
        "the definition of a network that brings RDMA devices may not be read",
        _network(_answers(403, "Forbidden")),
        {"INV-003": "inconclusive"},
    ),
}
