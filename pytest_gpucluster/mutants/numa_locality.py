"""Departures of where the parts of a pod lie: CPUs, memory, GPUs, network functions."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.hardware import pod_devices
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base


def _last(change: Callable[[dict[str, Any]], None], *, every: bool = False) -> base.Act:
    """Return the mutant that changes what the last pod that tells its parts tells; or `every` one."""

    def mutant(evidence: Evidence) -> Evidence:
        tellers = sorted(_tellers(evidence))
        chosen = tellers if every else tellers[-1:]

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == pod_devices.EVENT and line.data.get("pod") in chosen:
                change(told)
            return told

        return base.words(evidence, act) if chosen else evidence

    return mutant


def _tellers(evidence: Evidence) -> set[str]:
    """Return the pods that asked for whole CPUs beside their GPUs, so as to tell where all of it lies."""
    roles = evidence.given.get("roles") or {}
    return {str(member.get("name")) for member in roles.get("aligned") or ()}


def _other(node: object) -> int:
    return 1 - int(str(node))


def _cpus(told: dict[str, Any]) -> None:
    told["cpu_nodes"] = [0, 1]
    told["cpus"] = "0-3"


def _memory(told: dict[str, Any]) -> None:
    pages = told["memory"]["pages"]
    told["memory"]["pages"] = {str(_other(node)): count for node, count in pages.items()}


def _functions(told: dict[str, Any]) -> None:
    for function in told["functions"]:
        function["numa"] = _other(function["numa"])


def _bus(told: dict[str, Any]) -> None:
    for device in told["devices"]:
        device["bus"] = _other(device["numa"])


MUTANTS: base.Table = {
    "numa.cpus-elsewhere": base.Mutant(
        "the CPUs of a pod lie on both NUMA nodes", _last(_cpus), {"NUMA-004": "fail"}
    ),
    "numa.memory-elsewhere": base.Mutant(
        "the memory of a pod lies on the other NUMA node", _last(_memory), {"NUMA-004": "fail"}
    ),
    "numa.functions-elsewhere": base.Mutant(
        "the network function of a pod lies on the other NUMA node", _last(_functions), {"NUMA-004": "fail"}
    ),
    "numa.bus-says-otherwise": base.Mutant(
        "the device plugin reports another NUMA node for GPUs than the machine",
        _last(_bus),
        {"NUMA-004": "fail"},
    ),
    "numa.memory-untold": base.Mutant(
        "a pod does not report where its memory lies",
        _last(lambda told: told.pop("memory")),
        {"NUMA-004": "inconclusive"},
    ),
    "numa.function-unseen": base.Mutant(
        "a pod that asked for a network function sees none",
        _last(lambda told: told.update(functions=[])),
        {"NUMA-004": "inconclusive"},
    ),
    "numa.one-on-the-machine": base.Mutant(
        "the machine has one NUMA node",
        _last(lambda told: told.update(nodes="0"), every=True),
        {"NUMA-004": "environment"},
    ),
}
