"""Departures of a fleet that is to use a second interface."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.mutants import base


def _over_first(part: str) -> Callable[[dict[str, Any]], None]:
    """Return the change that lets a member be connected over its first interface, to an address of that network."""

    def change(word: dict[str, Any]) -> None:
        own = word["has"].get("eth0", "10.0.0.1")
        word[part] = [["eth0", own, own.rpartition(".")[0] + ".251"]]

    return change


MUTANTS: base.Table = {
    "rendezvous.meets-elsewhere": base.Mutant(
        "one launcher is connected to the store over its first interface",
        base.on("wired", _over_first("rendezvous"), alone=True),
        {"RDZV-010": "fail"},
    ),
    "rendezvous.reduces-elsewhere": base.Mutant(
        "one rank reduces over its first interface",
        base.on("wired", _over_first("collective"), alone=True),
        {"RDZV-010": "fail"},
    ),
    "rendezvous.not-attached": base.Mutant(
        "one member does not have the declared interface",
        base.on("wiring", lambda w: w["has"].pop(w["interface"]), alone=True),
        {"RDZV-010": "fail"},
    ),
    "rendezvous.fleet-wrong-sum": base.Mutant(
        "one member of a fleet got a different sum",
        base.on("wired", lambda w: w.update(got=-1.0), alone=True),
        {"RDZV-010": "fail"},
    ),
    "rendezvous.wire-unseen": base.Mutant(
        "one member reports no connection", base.drop("wired", alone=True), {"RDZV-010": "inconclusive"}
    ),
    "rendezvous.nobody-asks": base.Mutant(
        "no member learned its rendezvous",
        base.on("asked", lambda w: w.update(ok=False, error="Temporary failure in name resolution")),
        {"RDZV-010": "environment"},
    ),
}
