"""Departures of what the cluster answers about itself."""

from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base


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


def other_name(evidence: Evidence) -> Evidence:
    """Let the scheduler run under another name, where it is tried whether it answers: it phases, and serves no pod."""
    if evidence.header.get("scenario") not in ("probe", "unserved"):
        return evidence
    quiet = base.without(
        evidence,
        lambda line: (
            (line.kind == "Event" and fields.sub(line.object, "involvedObject").get("kind") == "Pod")
            or (
                line.kind == "Pod"
                and bool(fields.text(line.object, "spec", "nodeName"))
                and line.type == "MODIFIED"
            )
        ),
    )

    def unplace(obj: dict[str, Any]) -> None:
        obj.get("spec", {}).pop("nodeName", None)
        obj.get("status", {}).pop("conditions", None)

    def rename(obj: dict[str, Any]) -> None:
        obj.update(source={"component": "volcano-v2"}, reportingComponent="volcano-v2")

    placed = base.each(quiet, lambda line: line.kind == "Pod", unplace)
    return base.each(placed, lambda line: line.kind == "Event", rename)


MUTANTS: base.Table = {
    "inventory.other-name": ("the scheduler has another name", other_name),
    "inventory.api-not-served": ("the APIs answer 404", api_not_served),
    "inventory.unfilled-dry-run": ("the dry-run Job comes back without defaults", unfilled_dry_run),
    "inventory.no-phase": ("no PodGroup gets a phase", no_phase),
    "inventory.no-podgroup": ("no PodGroup appears", no_podgroup),
}
