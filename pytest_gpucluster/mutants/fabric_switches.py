"""Departures of runs that differ by one switch."""

import re
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.fabric import log_lines

P2P, RDMA, GPUDIRECT = ("switches-p2p", "switches-rdma", "switches-gpudirect")


def _log(run: str, change: Callable[[str], str | None]) -> base.Act:
    """Return the mutant of the logs of one run."""
    return base.only("switches", log_lines(lambda text: change(text) if f"{run}-worker" in text else text))


def words(run: str, event: str, change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant of what the ranks of one run tell."""

    def edit(word: dict[str, Any]) -> None:
        if str(word.get("pod") or "").startswith(run):
            change(word)

    return base.only("switches", base.on(event, edit))


def _as_fast(times: float) -> Callable[[dict[str, Any]], None]:
    """Return the change of figures to so many times as fast; they still follow from their times."""

    def change(word: dict[str, Any]) -> None:
        for one in word.get("results") or []:
            for name in ("mean", "min", "p50", "p90", "p99"):
                one[name] /= times
            one.update(algbw=one["algbw"] * times, busbw=one["busbw"] * times)

    return change


def _unlabelled(evidence: Evidence) -> Evidence:
    given = {**evidence.given, "switched": {}}
    return Evidence(evidence.lines, header={**evidence.header, "given": given}, spans=evidence.spans)


def _direct_again(text: str) -> str:
    return re.sub(r"(Channel \d\d) (: .* via )SHM/direct/direct", r"\1/0 \2P2P/CUMEM", text)


MUTANTS: base.Table = {
    "fabric.switch-p2p-stays": base.Mutant(
        "with peer-to-peer paths labelled off the ranks still use them",
        _log(P2P, _direct_again),
        {"FAB-019": "fail"},
    ),
    "fabric.switch-rdma-stays": base.Mutant(
        "with the fabric labelled off the traffic still uses it",
        _log(RDMA, lambda text: text.replace("NET/Socket/0", "NET/IB/0/GDRDMA")),
        {"FAB-019": "fail"},
    ),
    "fabric.switch-one-rank-stays": base.Mutant(
        "with GPUDirect RDMA labelled off one rank still uses it",
        _log(
            GPUDIRECT,
            lambda text: (
                re.sub(r"(via NET/IB/\d)$", r"\1/GDRDMA", text) if text.startswith("[rank0]") else text
            ),
        ),
        {"FAB-019": "fail"},
    ),
    "fabric.switch-equal-figures": base.Mutant(
        "the run without peer-to-peer paths is as fast as the one with them",
        words(P2P, "measured", _as_fast(2.5)),
        {"FAB-019": "fail"},
    ),
    "fabric.switch-not-set": base.Mutant(
        "the ranks of one run do not have the variable that its label speaks of",
        words(P2P, "who", lambda word: word["env"].pop("NCCL_P2P_DISABLE", None)),
        {"FAB-019": "inconclusive"},
    ),
    "fabric.switch-log-cut": base.Mutant(
        "the logs of one run end before their last line",
        _log(RDMA, lambda text: None if "Destroy" in text else text),
        {"FAB-019": "inconclusive"},
    ),
    "fabric.switch-no-path": base.Mutant(
        "the logs of one run name no path",
        _log(P2P, lambda text: text.replace(" via ", " by ") if " via " in text else text),
        {"FAB-019": "inconclusive"},
    ),
    "fabric.switch-no-label": base.Mutant(
        "the evidence does not say what was switched off",
        base.only("switches", _unlabelled),
        {"FAB-019": "inconclusive"},
    ),
}
