"""Departures of what GPUs, the kernel and the cluster tell of faults."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.hardware import gpu_health
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]


def _on_last(event: str, change: Change) -> base.Act:
    """Return the mutant that changes the last fact of a kind, by pod and number of the GPU."""

    def mutant(evidence: Evidence) -> Evidence:
        words = payload_lines.words(evidence).of(event)
        last = max(((w.pod, w.number("index") or 0) for w in words), default=None)

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == event and (line.data.get("pod"), told.get("index") or 0) == last:
                change(told)
            return told

        return base.words(evidence, act)

    return mutant


def _gpu(**values: object) -> base.Act:
    return _on_last(gpu_health.GPU, lambda told: told["gpu"].update(values))


def _logged(*lines: str) -> base.Act:
    return _on_last(
        gpu_health.LOG, lambda told: told.update(readable=True, lines=list(lines), count=len(lines))
    )


def _condition(evidence: Evidence) -> Evidence:
    name = max((line.name for line in evidence.of_kind("Node") if line.name.startswith("gpu")), default="")

    def change(node: dict[str, Any]) -> None:
        told = {"type": "XIDErrors", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        node["status"]["conditions"] = [*node["status"]["conditions"], told]

    return base.each(evidence, lambda line: line.kind == "Node" and line.name == name, change)


def _silent(evidence: Evidence) -> Evidence:
    def act(_line: Line, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == gpu_health.GPU:
            told["gpu"]["recovery"] = None
        return told

    return base.words(evidence, act)


MUTANTS: base.Table = {
    "health.uncorrected-errors": base.Mutant(
        "memory of one GPU had errors that could not be corrected", _gpu(uncorrected=2), {"HLT-002": "fail"}
    ),
    "health.remap-failed": base.Mutant(
        "a row of one GPU could not be remapped", _gpu(failed=1), {"HLT-002": "fail"}
    ),
    "health.gpu-lost": base.Mutant("one GPU does not answer", _gpu(lost=True), {"HLT-002": "fail"}),
    "health.recovery-asked": base.Mutant(
        "the driver says that one GPU must be reset", _gpu(recovery=1), {"HLT-002": "fail"}
    ),
    "health.fell-off-the-bus": base.Mutant(
        "the kernel's log of one node has Xid 79",
        _logged("<3>[ 812.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
        {"HLT-002": "fail"},
    ),
    "health.xid-of-nobody-knows": base.Mutant(
        "the kernel's log of one node has an Xid that is in no list",
        _logged("<3>[ 812.1] NVRM: Xid (PCI:0000:3b:00): 999, pid=1"),
        {"HLT-002": "inconclusive"},
    ),
    "health.remaps-not-told": base.Mutant(
        "the driver of one GPU does not tell of remapped rows",
        _gpu(pending=None),
        {"HLT-002": "inconclusive"},
    ),
    "health.ecc-off": base.Mutant("one GPU has ECC switched off", _gpu(ecc=0), {"HLT-002": "inconclusive"}),
    "health.fatal-errors-told-by-nobody": base.Mutant(
        "neither the kernel's log nor the driver nor a condition tells fatal errors",
        _silent,
        {"HLT-002": "inconclusive"},
    ),
    "health.condition-of-an-xid": base.Mutant(
        "a node problem detector reports an Xid on one node",
        base.only("gpu-health", _condition),
        {"HLT-002": "fail"},
    ),
}
