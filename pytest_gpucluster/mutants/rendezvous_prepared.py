"""Departures of what members do before their launcher starts."""

from typing import Any

from pytest_gpucluster.mutants import base


def _at_once(word: dict[str, Any]) -> None:
    """Let a member have found interface and peers at its first look."""
    for told in (word["interface"], *word["peers"].values()):
        told["tries"] = 1


def _silent(word: dict[str, Any]) -> None:
    """Let no peer have answered a member, which says so."""
    for told in word["peers"].values():
        told.update(answer="", error="timed out")
    if word["peers"]:
        word.update(ok=False, error=f"{next(iter(word['peers']))} does not answer over eth0 within 10 s")


def _elsewhere(word: dict[str, Any]) -> None:
    """Let a launcher have another node's name in its environment."""
    word["env"] = {name: (f"{value}-b" if value else value) for name, value in word["env"].items()}


MUTANTS: base.Table = {
    "rendezvous.labels-not-exported": (
        "the labels written for one launcher are missing from its environment",
        base.on("launching", lambda w: w.update(env={}), alone=True),
    ),
    "rendezvous.labels-of-another-node": (
        "one launcher has the labels of another node",
        base.on("launching", _elsewhere, alone=True),
    ),
    "rendezvous.no-label-missing": (
        "the label that no node has was not requested",
        base.on("launching", lambda w: w["env"].pop("NODE_NO_SUCH_LABEL", None)),
    ),
    "rendezvous.launcher-unseen": (
        "one launcher was not seen to start",
        base.drop("launching", alone=True),
    ),
    "rendezvous.launched-early": (
        "one launcher started before the network was there",
        base.on("launching", lambda w: w.update(t=float(w["t"]) - 60.0), alone=True),
    ),
    "rendezvous.gate-unexplained": (
        "a failed wait for the network does not say what is missing",
        base.on("gate", lambda w: w.pop("error", None)),
    ),
    "rendezvous.gate-unbounded": (
        "a wait for the network lasts longer than its bound",
        base.on("gate", lambda w: w.update(seconds=999.0), alone=True),
    ),
    "rendezvous.peers-silent": ("no peer answers over the interface", base.on("gate", _silent)),
    "rendezvous.network-at-once": ("the network is ready at the first check", base.on("gate", _at_once)),
}
