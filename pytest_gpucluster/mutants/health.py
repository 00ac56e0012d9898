"""Departures of what containers can reach of their node's GPUs."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.hardware import device_access
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base

ONE, OTHER = "GPU-11111111-1111-4111-8111-111111111111", "GPU-22222222-2222-4222-8222-222222222222"


def _in(containers: tuple[str, ...], change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes what some containers tell."""

    def mutant(evidence: Evidence) -> Evidence:
        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == device_access.EVENT and line.data.get("container") in containers:
                change(told)
            return told

        return base.words(evidence, act)

    return mutant


def _file(number: int) -> dict[str, Any]:
    return {"path": f"/dev/gpucluster/gpu{number}", "opens": True}


def _driver(told: dict[str, Any], *names: str) -> None:
    devices = [{"uuid": name.removeprefix("GPU-")} for name in names]
    told["driver"] = {"library": "libcuda.so.1", "result": 0, "count": len(names), "devices": devices}


def _another(told: dict[str, Any]) -> None:
    told["told"] = [ONE]
    _driver(told, OTHER)


def _nothing(told: dict[str, Any]) -> None:
    told["files"] = []
    told["driver"] = {"library": "libcuda.so.1", "result": device_access.NO_DEVICE, "devices": []}


def _silent(evidence: Evidence) -> Evidence:
    def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:
        gone = told.get("event") == device_access.EVENT and line.data.get("container") == "other"
        return None if gone else told

    return base.words(evidence, act)


MUTANTS: base.Table = {
    "health.sees-all": base.Mutant(
        "containers with a granted GPU can also open the device file of another GPU",
        _in(("one", "other"), lambda told: told["files"].append(_file(7))),
        {"HLT-004": "fail"},
    ),
    "health.none-sees-one": base.Mutant(
        "a container that asked for no GPU can open the device file of one",
        _in(("none",), lambda told: told["files"].append(_file(0))),
        {"HLT-004": "fail"},
    ),
    "health.driver-lists-one": base.Mutant(
        "the driver lists a GPU in a container that asked for none and has no device file",
        _in(("none",), lambda told: _driver(told, ONE)),
        {"HLT-004": "fail"},
    ),
    "health.shares-a-gpu": base.Mutant(
        "two containers were given the same GPU",
        _in(("one", "other"), lambda told: told.update(files=[_file(3)])),
        {"HLT-004": "fail"},
    ),
    "health.other-than-told": base.Mutant(
        "the driver lists another GPU than the device plugin reported",
        _in(("one",), _another),
        {"HLT-004": "fail"},
    ),
    "health.sees-nothing": base.Mutant(
        "a container with a granted GPU can reach none", _in(("one",), _nothing), {"HLT-004": "fail"}
    ),
    "health.unseen": base.Mutant(
        "a container with a granted GPU has no device file, and no driver answers in it",
        _in(("one",), lambda told: told.update(files=[])),
        {"HLT-004": "inconclusive"},
    ),
    "health.untold": base.Mutant(
        "a container did not report what it can reach", _silent, {"HLT-004": "inconclusive"}
    ),
}
