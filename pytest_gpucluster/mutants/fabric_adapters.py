"""Departures of RDMA adapters as pods see them."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.mutants import base

LAST = "mlx5_3"


def _last(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant of the last adapter of one pod."""

    def edit(word: dict[str, Any]) -> None:
        if word.get("name") == LAST:
            change(word)

    return base.only("adapters", base.on("adapter", edit, alone=True))


def _port(**told: object) -> base.Act:
    """Return the mutant of the port of the last adapter of one pod."""
    return _last(lambda word: word["ports"][0].update(told))


def _none_given(word: dict[str, Any]) -> None:
    word.update(file="", opens=False)


MUTANTS: base.Table = {
    "fabric.adapter-closed": base.Mutant(
        "a device file does not open",
        _last(lambda word: word.update(opens=False, why="Operation not permitted")),
        {"FAB-007": "fail"},
    ),
    "fabric.adapter-not-given": base.Mutant(
        "a pod got no device file",
        base.only("adapters", base.on("adapter", _none_given, alone=True)),
        {"FAB-007": "fail"},
    ),
    "fabric.port-polls": base.Mutant(
        "a port has no link", _port(state="1: DOWN", phys_state="2: Polling"), {"FAB-007": "fail"}
    ),
    "fabric.port-waits": base.Mutant(
        "a port is linked and waits for a subnet manager", _port(state="2: INIT"), {"FAB-007": "fail"}
    ),
    "fabric.port-slower": base.Mutant(
        "a port runs at a quarter of its rate", _port(rate="100 Gb/sec (4X EDR)"), {"FAB-007": "fail"}
    ),
    "fabric.port-of-ethernet": base.Mutant(
        "a port runs another link layer", _port(link_layer="Ethernet"), {"FAB-007": "fail"}
    ),
    "fabric.port-unread": base.Mutant(
        "the files of a port were gone when they were read",
        _last(lambda word: word.update(lost=["1/state: No such file or directory"])),
        {"FAB-007": "inconclusive"},
    ),
    "fabric.port-without-rate": base.Mutant(
        "a port tells no rate", _port(rate=""), {"FAB-007": "inconclusive"}
    ),
    "fabric.port-of-no-state": base.Mutant(
        "a port tells no state", _port(state=None), {"FAB-007": "inconclusive"}
    ),
    "fabric.adapters-untold": base.Mutant(
        "one pod does not tell its adapters to the end",
        base.only("adapters", base.drop("adapters", alone=True)),
        {"FAB-007": "inconclusive"},
    ),
}
