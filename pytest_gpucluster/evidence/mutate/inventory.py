"""Departures of what the cluster answers about itself."""

from typing import Any

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.mutate import base


def no_phase(evidence: Evidence) -> Evidence:
    """Let no PodGroup ever get a phase, as when no scheduler runs."""
    return base.each(
        evidence, lambda line: line.kind == "PodGroup", lambda obj: obj.get("status", {}).pop("phase", None)
    )


def no_podgroup(evidence: Evidence) -> Evidence:
    """Take away every PodGroup, as when no controllers run."""
    return base.without(evidence, lambda line: line.kind == "PodGroup")


def api_not_served(evidence: Evidence) -> Evidence:
    """Answer 404 to every question whether an API is served."""
    return base.responses(
        evidence,
        lambda line: str(line.data.get("case") or "").startswith("api:"),
        lambda data: data.update(
            code=404, status={"code": 404, "reason": "NotFound", "message": "not found"}
        ),
    )


def unfilled_dry_run(evidence: Evidence) -> Evidence:
    """Let the dry-run Job come back as it was sent: no mutating admission."""

    def strip(data: dict[str, Any]) -> None:
        spec = fields.sub(data, "object", "spec")
        if isinstance(spec, dict):
            spec.pop("schedulerName", None)

    return base.responses(evidence, lambda line: line.data.get("case") == "dry-run", strip)


MUTANTS: base.Table = {
    "inventory.api-not-served": ("the APIs answer 404", api_not_served),
    "inventory.unfilled-dry-run": ("the dry-run Job comes back unfilled", unfilled_dry_run),
    "inventory.no-phase": ("no PodGroup gets a phase", no_phase),
    "inventory.no-podgroup": ("no PodGroup appears", no_podgroup),
}
