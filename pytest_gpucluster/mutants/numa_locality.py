"""Departures of where the parts of a pod lie: CPUs, memory, GPUs, network functions."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.hardware import pod_devices
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base


def _last(change: Callable[[dict[str, Any]], None], *, every: bool = False) -> base.Mutant:
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
    "numa.cpus-elsewhere": ("the CPUs of a pod lie on both NUMA nodes", _last(_cpus)),
    "numa.memory-elsewhere": ("the memory of a pod lies on the other NUMA node", _last(_memory)),
    "numa.functions-elsewhere": (
        "the network function of a pod lies on the other NUMA node",
        _last(_functions),
    ),
    "numa.bus-says-otherwise": (
        "the device plugin reports another NUMA node for GPUs than the machine",
        _last(_bus),
    ),
    "numa.memory-untold": (
        "a pod does not report where its memory lies",
        _last(lambda told: told.pop("memory")),
    ),
    "numa.function-unseen": (
        "a pod that asked for a network function sees none",
        _last(lambda told: told.update(functions=[])),
    ),
    "numa.one-on-the-machine": (
        "the machine has one NUMA node",
        _last(lambda told: told.update(nodes="0"), every=True),
    ),
}
