"""Departures of the curve of bus bandwidth over size."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.mutants import base

MIDDLE, LARGEST = 16 << 20, 1 << 30


def _at(size: int, left: float, chosen: Callable[[dict[str, Any]], bool] = lambda _word: True) -> base.Act:
    """Return the mutant that leaves a part of the speed at one size; the figures still follow from their times."""

    def change(word: dict[str, Any]) -> None:
        if not chosen(word):
            return
        for one in word.get("results") or []:
            if one.get("size") == size and "busbw" in one:
                times = ("mean", "min", "p50", "p90", "p99")
                one.update({name: one[name] / left for name in times if name in one})
                one.update(algbw=one["algbw"] * left, busbw=one["busbw"] * left)

    return base.only("collectives", base.on("measured", change))


def _second_node(word: dict[str, Any]) -> bool:
    return word.get("group_rank") == 1


def _smallest_only(word: dict[str, Any]) -> None:
    word["results"] = [one for one in word.get("results") or [] if one.get("size") != MIDDLE]


MUTANTS: base.Table = {
    "fabric.falls-at-the-end": base.Mutant(
        "the largest size has half of the bandwidth",
        _at(LARGEST, 0.5),
        {"FAB-021": "fail", "FAB-006": "fail"},
    ),
    "fabric.dips-in-the-middle": base.Mutant(
        "16 MiB have the bandwidth of small messages", _at(MIDDLE, 0.01), {"FAB-021": "fail"}
    ),
    "fabric.falls-on-one-node": base.Mutant(
        "the largest size has half of the bandwidth on the ranks of one node",
        _at(LARGEST, 0.5, _second_node),
        {"FAB-021": "fail", "FAB-006": "fail"},
    ),
    "fabric.curve-of-two-sizes": base.Mutant(
        "two sizes were measured",
        base.only("collectives", base.on("measured", _smallest_only)),
        {"FAB-021": "inconclusive"},
    ),
}
