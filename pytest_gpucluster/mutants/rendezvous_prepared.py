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
    "rendezvous.labels-not-exported": base.Mutant(
        "the labels written for one launcher are missing from its environment",
        base.on("launching", lambda w: w.update(env={}), alone=True),
        {"RDZV-007": "fail"},
    ),
    "rendezvous.labels-of-another-node": base.Mutant(
        "one launcher has the labels of another node",
        base.on("launching", _elsewhere, alone=True),
        {"RDZV-007": "fail"},
    ),
    "rendezvous.no-label-missing": base.Mutant(
        "the label that no node has was not requested",
        base.on("launching", lambda w: w["env"].pop("NODE_NO_SUCH_LABEL", None)),
        {"RDZV-007": "fail"},
    ),
    "rendezvous.launcher-unseen": base.Mutant(
        "one launcher was not seen to start",
        base.drop("launching", alone=True),
        {"RDZV-007": "inconclusive", "RDZV-008": "inconclusive"},
    ),
    "rendezvous.launched-early": base.Mutant(
        "one launcher started before the network was there",
        base.on("launching", lambda w: w.update(t=float(w["t"]) - 60.0), alone=True),
        {"RDZV-008": "fail"},
    ),
    "rendezvous.gate-unexplained": base.Mutant(
        "a failed wait for the network does not say what is missing",
        base.on("gate", lambda w: w.pop("error", None)),
        {"RDZV-008": "fail"},
    ),
    "rendezvous.gate-unbounded": base.Mutant(
        "a wait for the network lasts longer than its bound",
        base.on("gate", lambda w: w.update(seconds=999.0), alone=True),
        {"RDZV-008": "fail"},
    ),
    "rendezvous.peers-silent": base.Mutant(
        "no peer answers over the interface", base.on("gate", _silent), {"RDZV-008": "fail"}
    ),
    "rendezvous.network-at-once": base.Mutant(
        "the network is ready at the first check", base.on("gate", _at_once), {"RDZV-008": "inconclusive"}
    ),
}
