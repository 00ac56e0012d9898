"""Departures of the world that the ranks form."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base


def unending(event: str) -> base.Act:
    """Return the mutant in which the last pod that got no further never ends; the driver waited in vain."""

    def mutant(evidence: Evidence) -> Evidence:
        stays = max(
            (w.pod for w in payload_lines.words(evidence).of(event) if w.data.get("ok") is not True),
            default="",
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


INDEX = "batch.kubernetes.io/job-completion-index"


def index_twice(evidence: Evidence) -> Evidence:
    """Give the last member of an Indexed Job with a Service the index of the first."""
    uids = {line.uid for line in evidence.of_kind("Pod") if fields.text(line.object, "spec", "subdomain")}
    indexed = [
        line for line in evidence.of_kind("Pod")
        if line.uid in uids and INDEX in fields.sub(line.object, "metadata", "labels")
    ]  # fmt: skip
    if not indexed:
        return evidence
    last = max(indexed, key=lambda line: line.name).uid

    def change(obj: dict[str, Any]) -> None:
        for part in ("labels", "annotations"):
            obj["metadata"].setdefault(part, {})[INDEX] = "0"

    return base.each(evidence, lambda line: line.kind == "Pod" and line.uid == last, change)


def _unanswered(word: dict[str, Any]) -> None:
    """Let a member have found no name."""
    lost = {"addresses": [], "tries": 9, "kind": "no-answer", "error": "Temporary failure in name resolution"}
    word.update(ok=False, names=dict.fromkeys(word.get("names") or {}, lost))


def _at_once(word: dict[str, Any]) -> None:
    """Let a member have found every name at its first look-up."""
    for told in (word.get("names") or {}).values():
        told["tries"] = 1


MUTANTS: base.Table = {
    "rendezvous.index-twice": base.Mutant(
        "the last member of an Indexed Job has the index of the first",
        index_twice,
        {
            "RDZV-002": "fail",
            "RDZV-010": "inconclusive",
            "FAB-013": "inconclusive",
            "TRN-003": "fail",
            "TRN-007": "fail",
        },
    ),
    "rendezvous.another-host-name": base.Mutant(
        "a member of an Indexed Job has a host name that does not match its index",
        base.on("member", lambda w: w.update(hostname="worker-x7k2p"), alone=True),
        {"RDZV-002": "fail", "TRN-007": "fail"},
    ),
    "rendezvous.ddp-differs": base.Mutant(
        "one member's weights differ from those of one process after a step",
        base.on("trained", lambda w: w.update(ok=False, difference=0.25), alone=True),
        {"RDZV-002": "fail"},
    ),
    "rendezvous.names-unanswered": base.Mutant(
        "no lookup of a member's name is answered",
        base.on("waited", _unanswered),
        {"RDZV-002": "fail", "RDZV-003": "fail", "FAB-013": "environment", "TRN-007": "fail"},
    ),
    "rendezvous.wait-unbounded": base.Mutant(
        "a wait for names lasts longer than its bound",
        base.on("waited", lambda w: w.update(seconds=999.0), alone=True),
        {"RDZV-003": "fail"},
    ),
    "rendezvous.wait-unexplained": base.Mutant(
        "a failed wait does not say which name was missing",
        base.on("waited", lambda w: w.pop("error", None)),
        {"RDZV-003": "fail"},
    ),
    "rendezvous.nobody-waits": base.Mutant(
        "every name resolves at the first lookup", base.on("waited", _at_once), {"RDZV-003": "inconclusive"}
    ),
    "rendezvous.hangs": base.Mutant(
        "a member that cannot reach its rendezvous never ends", unending("barrier"), {"RDZV-004": "fail"}
    ),
    "rendezvous.unexplained": base.Mutant(
        "a member that cannot reach its rendezvous does not say so",
        base.on("barrier", lambda w: w.pop("error", None), alone=True),
        {"RDZV-004": "fail"},
    ),
    "rendezvous.stall-unbounded": base.Mutant(
        "a stalled rank never ends", unending("place"), {"RDZV-009": "fail"}
    ),
    "rendezvous.stall-unnamed": base.Mutant(
        "no log says where a rank stalled", unnamed, {"RDZV-009": "fail"}
    ),
    "rendezvous.drop-a-rank": base.Mutant(
        "one rank printed nothing", base.drop("rank", alone=True), {"RDZV-001": "inconclusive"}
    ),
    "rendezvous.rank-twice": base.Mutant(
        "one rank exists twice", base.on("rank", lambda w: w.update(rank=0), alone=True), {"RDZV-001": "fail"}
    ),
    "rendezvous.wrong-sum": base.Mutant(
        "one rank got a different sum",
        base.on("sum", lambda w: w.update(got=-1.0), alone=True),
        {"RDZV-001": "fail"},
    ),
    "rendezvous.two-worlds": base.Mutant(
        "one rank is in a smaller world",
        base.on("rank", lambda w: w.update(world=1), alone=True),
        {"RDZV-001": "fail"},
    ),
}
