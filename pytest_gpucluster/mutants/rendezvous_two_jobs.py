"""Departures of two Jobs that run at the same time, and of the steps that one of them trains."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base


def _of_pod(evidence: Evidence) -> tuple[set[str], int]:
    """Return the pods of the Job with the last name, and a nonce that a rank of it drew."""
    told = payload_lines.words(evidence).of("exchanged")
    last = max((str(word.data.get("id")) for word in told), default="")
    mine = [word for word in told if word.data.get("id") == last]
    return {word.uid for word in mine}, (mine[0].number("nonce") or 0) if mine else 0


def nonce_of_the_other(evidence: Evidence) -> Evidence:
    """Let the ranks of the first Job get, as their last rank's, a nonce that a rank of the second sent."""
    other, nonce = _of_pod(evidence)

    def act(line: Any, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == "exchanged" and line.data.get("uid") not in other and told.get("got"):
            told["got"][-1][1] = nonce
        return told

    return base.words(evidence, act) if other else evidence


def one_after_the_other(evidence: Evidence) -> Evidence:
    """Let the second Job say all that it says once the first is over."""
    other, _ = _of_pod(evidence)
    by = evidence.end
    lines = (
        dataclasses.replace(line, t=line.t + by)
        if line.type == "LOG" and line.data.get("uid") in other
        else line
        for line in evidence.lines
    )
    return base.with_lines(evidence, lines) if other else evidence


def _at_one_place(word: dict[str, Any]) -> None:
    """Let a rank meet at an address of nobody's own, under the id that a launcher takes by default."""
    word.update(id="none", addresses=["10.96.0.9"], store=["10.96.0.9"])


MUTANTS: base.Table = {
    "rendezvous.nonce-of-the-other": base.Mutant(
        "ranks of one Job get a nonce that the other Job sent", nonce_of_the_other, {"RDZV-005": "fail"}
    ),
    "rendezvous.same-meeting": base.Mutant(
        "both Jobs use one rendezvous address and one id",
        base.on("exchanged", _at_one_place),
        {"RDZV-005": "fail"},
    ),
    "rendezvous.one-after-the-other": base.Mutant(
        "the second Job starts after the first has ended", one_after_the_other, {"RDZV-005": "inconclusive"}
    ),
    "rendezvous.exchange-unseen": base.Mutant(
        "one rank of two Jobs does not report what it received",
        base.drop("exchanged", alone=True),
        {"RDZV-005": "inconclusive"},
    ),
    "rendezvous.loss-not-a-number": base.Mutant(
        "with DDP, one rank's loss is not a number",
        base.on("stepped", lambda w: w["ddp"].update(losses=["nan"] * len(w["ddp"]["losses"])), alone=True),
        {"RDZV-006": "fail"},
    ),
    "rendezvous.fsdp-differs": base.Mutant(
        "with FSDP2, one rank's parameters differ from those of one process",
        base.on("stepped", lambda w: w["fsdp"].update(far=0.02), alone=True),
        {"RDZV-006": "fail"},
    ),
    "rendezvous.not-sharded": base.Mutant(
        "each rank holds the whole model under fully_shard",
        base.on("stepped", lambda w: w["fsdp"].update(own=w["fsdp"]["of"])),
        {"RDZV-006": "fail"},
    ),
    "rendezvous.nothing-moved": base.Mutant(
        "the steps change no parameter",
        base.on("stepped", lambda w: w.update(moved=0.0)),
        {"RDZV-006": "inconclusive"},
    ),
    "rendezvous.step-unseen": base.Mutant(
        "one rank does not report its steps", base.drop("stepped", alone=True), {"RDZV-006": "inconclusive"}
    ),
}
