"""Departures of what exporters of GPU metrics answer."""

import re
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.hardware import gpu_metrics
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]
COUNTER, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"


def _on_last_node(change: Change, *pages: str) -> base.Act:
    """Return the mutant that changes what the exporter of one node answers."""

    def mutant(evidence: Evidence) -> Evidence:
        words = payload_lines.words(evidence).of(gpu_metrics.EVENT)
        node = max((str(word.data.get("node")) for word in words), default="")

        def act(_line: Line, told: dict[str, Any]) -> dict[str, Any]:
            mine = told.get("event") == gpu_metrics.EVENT and told.get("node") == node
            if mine and (not pages or told.get("which") in pages):
                change(told)
            return told

        return base.words(evidence, act)

    return mutant


def _lines(change: Callable[[str], str]) -> Change:
    def act(told: dict[str, Any]) -> None:
        told["lines"] = [changed for line in told["lines"] if (changed := change(line))]

    return act


def _without_a_gpu(line: str) -> str:
    return "" if 'gpu="7"' in line else line


def _renamed(line: str) -> str:
    return "" if POWER in line else line


def _valued(name: str, value: str) -> Callable[[str], str]:
    return lambda line: re.sub(r"\} \S+", f"}} {value}", line) if line.startswith(f"{name}{{") else line


def _no_page(failure: str, why: str) -> Change:
    return lambda told: told.update(failure=failure, why=why, lines=[], others=[])


def _still(told: dict[str, Any]) -> None:
    _lines(_valued(COUNTER, "5000"))(told)
    if told["which"] == "last":
        told["elapsed"] = 60.0


def _other_name(told: dict[str, Any]) -> None:
    _lines(_renamed)(told)
    told["others"] = [*told["others"], *(["DCGM_FI_DEV_POWER_DRAW"] if told["part"] == 1 else [])]


MUTANTS: base.Table = {
    "health.metrics-lack-a-gpu": base.Mutant(
        "the exporter of one node has no values of one GPU",
        _on_last_node(_lines(_without_a_gpu)),
        {"HLT-003": "fail"},
    ),
    "health.metric-renamed": base.Mutant(
        "the exporter of one node has the power of GPUs under a name of its own",
        _on_last_node(_other_name),
        {"HLT-003": "fail"},
    ),
    "health.metric-without-value": base.Mutant(
        "the used memory of the GPUs of one node is the number that stands for none",
        _on_last_node(_lines(_valued("DCGM_FI_DEV_FB_USED", "9223372036854775794"))),
        {"HLT-003": "fail"},
    ),
    "health.metrics-stand-still": base.Mutant(
        "the energy of the GPUs of one node does not rise in a minute",
        _on_last_node(_still),
        {"HLT-003": "fail"},
    ),
    "health.metrics-hang": base.Mutant(
        "the exporter of one node takes connections and does not answer",
        _on_last_node(_no_page("hangs", "no whole page within 10 s")),
        {"HLT-003": "fail"},
    ),
    "health.exporter-out-of-reach": base.Mutant(
        "no packet comes to the exporter of one node",
        _on_last_node(_no_page("unreachable", "timed out")),
        {"HLT-003": "inconclusive"},
    ),
    "health.metrics-of-yesterday": base.Mutant(
        "the samples of one node carry times of long ago",
        _on_last_node(_lines(lambda line: line if line.startswith("#") else f"{line} 1700000000000")),
        {"HLT-003": "inconclusive"},
    ),
    "health.energy-counter-reset": base.Mutant(
        "the energy of the GPUs of one node fell while it was watched",
        _on_last_node(_lines(_valued(COUNTER, "17")), "last"),
        {"HLT-003": "inconclusive"},
    ),
}
