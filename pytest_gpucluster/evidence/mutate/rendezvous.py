"""Departures of the world that the ranks form."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence import fields, payload
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.mutate import base


def unending(event: str) -> base.Mutant:
    """Return the mutant in which the last pod that got no further never ends; the driver waited in vain."""

    def mutant(evidence: Evidence) -> Evidence:
        stays = max(
            (w.pod for w in payload.words(evidence).of(event) if w.data.get("ok") is not True), default=""
        )
        if not stays:
            return evidence
        gone = {line.uid for line in evidence.of_kind("Pod") if line.name == stays}

        def runs(obj: dict[str, Any]) -> None:
            status = obj.setdefault("status", {})
            status["phase"] = "Running"
            for container in status.get("containerStatuses") or []:
                container["state"] = {"running": {}}

        kept = base.without(evidence, lambda line: line.uid in gone and line.type == "DELETED")
        longer = base.each(kept, lambda line: line.uid in gone and _ended(line.object), runs)
        end = longer.end + 30.0
        note = dataclasses.replace(
            longer.lines[-1], t=end, type="NOTE", kind="", object={},
            data={"note": "timed-out", "what": "every member has ended", "seconds": 20},
        )  # fmt: skip
        spans = [dataclasses.replace(span, end=max(span.end, end)) for span in longer.spans]
        return base.with_lines(longer, (*longer.lines, note), spans=spans)

    return mutant


def _ended(obj: Mapping[str, Any]) -> bool:
    """Report whether a pod has a container that ended."""
    statuses = fields.items(obj, "status", "containerStatuses")
    return any("terminated" in fields.sub(status, "state") for status in statuses)


def unnamed(evidence: Evidence) -> Evidence:
    """Take away what watchdogs dumped."""
    dump = ("Timeout (", "Thread 0x", "Current thread", "  File ")
    return base.without(
        evidence, lambda line: line.type == "LOG" and str(line.data.get("line") or "").startswith(dump)
    )


MUTANTS: base.Table = {
    "rendezvous.hangs": ("a member that reaches nobody never ends", unending("barrier")),
    "rendezvous.unexplained": (
        "a member that reaches nobody does not say so",
        base.on("barrier", lambda w: w.pop("error", None), alone=True),
    ),
    "rendezvous.stall-unbounded": ("a rank that stands still never ends", unending("place")),
    "rendezvous.stall-unnamed": ("no log says where a rank stood", unnamed),
    "rendezvous.drop-a-rank": (
        "one rank printed nothing",
        base.drop("rank", alone=True),
    ),
    "rendezvous.rank-twice": (
        "one rank exists twice",
        base.on("rank", lambda w: w.update(rank=0), alone=True),
    ),
    "rendezvous.wrong-sum": (
        "one rank got another sum",
        base.on("sum", lambda w: w.update(got=-1.0), alone=True),
    ),
    "rendezvous.two-worlds": (
        "one rank is in a smaller world",
        base.on("rank", lambda w: w.update(world=1), alone=True),
    ),
}
