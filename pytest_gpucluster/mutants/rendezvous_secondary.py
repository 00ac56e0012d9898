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
    "rendezvous.meets-elsewhere": (
        "one launcher is connected to the store over its first interface",
        base.on("wired", _over_first("rendezvous"), alone=True),
    ),
    "rendezvous.reduces-elsewhere": (
        "one rank reduces over its first interface",
        base.on("wired", _over_first("collective"), alone=True),
    ),
    "rendezvous.not-attached": (
        "one member does not have the declared interface",
        base.on("wiring", lambda w: w["has"].pop(w["interface"]), alone=True),
    ),
    "rendezvous.fleet-wrong-sum": (
        "one member of a fleet got a different sum",
        base.on("wired", lambda w: w.update(got=-1.0), alone=True),
    ),
    "rendezvous.wire-unseen": ("one member reports no connection", base.drop("wired", alone=True)),
    "rendezvous.nobody-asks": (
        "no member learned its rendezvous",
        base.on("asked", lambda w: w.update(ok=False, error="Temporary failure in name resolution")),
    ),
}
