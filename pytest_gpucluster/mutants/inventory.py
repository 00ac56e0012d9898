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
    "inventory.other-name": base.Mutant(
        "the scheduler has another name", other_name, {"INV-001": "inconclusive", "REF-008": "inconclusive"}
    ),
    "inventory.api-not-served": base.Mutant("the APIs answer 404", api_not_served, {"INV-001": "fail"}),
    "inventory.unfilled-dry-run": base.Mutant(
        "the dry-run Job comes back without defaults", unfilled_dry_run, {"INV-001": "fail"}
    ),
    "inventory.no-phase": base.Mutant("no PodGroup gets a phase", no_phase, {"INV-001": "inconclusive"}),
    "inventory.no-podgroup": base.Mutant(
        "no PodGroup appears",
        no_podgroup,
        base.all_to(
            "inconclusive",
            "INV-001 "
            "GANG-001 GANG-002 GANG-003 GANG-004 GANG-005 GANG-006 GANG-007 GANG-009 GANG-010 "
            "GANG-011 REF-001 REF-002 REF-004 REF-005 REF-006 REF-007 REF-008 REF-009 "
            "PLG-001 PLG-002 PLG-003 PLG-004 PLG-005 PLG-006 PLG-007 PLG-008 PLG-009 PLG-010 PLG-011 PLG-012 PLG-013 "
            "LIFE-001 LIFE-002 LIFE-003 LIFE-004 LIFE-005 LIFE-006 LIFE-007 LIFE-008 LIFE-009 "
            "LIFE-010 LIFE-012 LIFE-013 LIFE-014 RDZV-001 RDZV-004 RDZV-005 RDZV-006 RDZV-009 "
            "NUMA-008 FAB-001 FAB-002 FAB-003 FAB-004 FAB-005 FAB-006 FAB-010 FAB-011 FAB-012 FAB-019 FAB-020 FAB-021 "
            "FAB-014 FAB-015 FAB-016 FAB-017 FAB-018 MFU-001 MFU-002 MFU-003 MFU-004 MFU-006 "
            "CKPT-001 CKPT-002 CKPT-003 CKPT-004 CKPT-005 CKPT-006 "
            "TRN-003",
        ),
    ),
}
