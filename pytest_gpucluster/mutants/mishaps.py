"""Members that did not come to their end: one of each gang failed or was started again, all else is as it was."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import mishaps
from pytest_gpucluster.evidence.objects.pods import pods
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.mutants import base


def _victims(evidence: Evidence) -> set[str]:
    """Return one member of each gang that ran, of those of which nobody failed; and so of pods that are no members."""
    members = {pod.uid for gang in gangs.gangs(evidence) for pod in gang.pods}
    alone = [(pod,) for pod in pods(evidence) if pod.uid not in members]
    found = set()
    for fellows in (*alone, *(gang.pods for gang in gangs.gangs(evidence))):
        ran = [pod for pod in fellows if pod.running is not None or pod.finished is not None]
        if ran and all(mishaps.mishap(evidence, pod) is None for pod in fellows):
            found.add(max(ran, key=lambda pod: (pod.running is not None, pod.name)).uid)
    return found


def _befalls(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes the status of a victim from its start on, until its deletion is asked for."""

    def mutant(evidence: Evidence) -> Evidence:
        uids = _victims(evidence)
        stories = {pod.uid: pod for pod in pods(evidence) if pod.uid in uids}

        def looked_at(line: Line) -> bool:
            pod = stories.get(line.uid)
            begun = (pod.running, pod.finished) if pod is not None else ()
            return any(t is not None and t <= line.t for t in begun) and not _going(line)

        return base.each(evidence, looked_at, change)

    return mutant


def _going(line: Line) -> bool:
    return line.type == "DELETED" or bool(fields.sub(line.object, "metadata").get("deletionTimestamp"))


def _fail(obj: dict[str, Any]) -> None:
    obj["status"] = {**fields.sub(obj, "status"), "phase": "Failed", "reason": "Evicted"}


def _start_again(obj: dict[str, Any]) -> None:
    status = obj.setdefault("status", {})
    main = obj["spec"]["containers"][0]["name"]
    told = fields.items(status, "containerStatuses") or [{"name": main, "state": {"running": {}}}]
    status["containerStatuses"] = [{**one, "restartCount": 1} for one in told]


_ANY = (
    "GANG-001", "GANG-002", "GANG-004", "GANG-007", "GANG-008", "REF-001", "REF-002", "REF-004", "REF-005",
    "REF-006", "REF-008", "PLG-001", "PLG-002", "PLG-003", "PLG-004", "PLG-005", "PLG-006", "PLG-007",
    "PLG-010", "PLG-011", "PLG-013", "LIFE-001", "LIFE-002", "LIFE-003", "LIFE-005", "LIFE-006", "LIFE-008",
    "LIFE-009", "LIFE-010", "LIFE-013", "LIFE-014", "RDZV-001", "RDZV-002", "RDZV-003", "RDZV-005", "RDZV-006",
    "RDZV-007", "RDZV-008", "RDZV-010", "KUE-001", "KUE-002", "KUE-003", "KUE-004", "KUE-005", "KUE-008",
    "KUE-009", "NUMA-001", "NUMA-002", "NUMA-003", "NUMA-004", "NUMA-005", "NUMA-006", "NUMA-007", "NUMA-008",
    "FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-006", "FAB-010", "FAB-012", "FAB-013",
    "FAB-014", "FAB-015", "FAB-016", "FAB-017", "FAB-018", "MFU-001", "MFU-002", "MFU-003", "MFU-004",
    "MFU-006", "FAB-019", "FAB-020", "FAB-021", "CKPT-001", "CKPT-002", "CKPT-003", "CKPT-004", "CKPT-005", "CKPT-006",
    "HLT-002", "HLT-003", "FAB-007", "HLT-004", "TRN-003",
)  # fmt: skip
"""Rows that rest on members that run to their end; others rest on none, or are about members that are meant to fail."""

_BESIDE_ELASTIC = ("ELA-004", "ELA-005")
"""Rows of elastic jobs, whose own members are meant to end, that rest on another pod: a store, a neighbour."""
_AT_A_STORE = ("ELA-001", "ELA-002", "ELA-003", "ELA-004", "ELA-008", "ELA-009")
"""Rows of elastic jobs that meet at a store, which is a pod of its own."""

_SAYING_DONE = (
    "GANG-001", "GANG-007", "PLG-001", "PLG-002", "PLG-003", "PLG-004", "PLG-006", "PLG-007", "PLG-010",
    "PLG-011", "PLG-013", "LIFE-001", "LIFE-008", "RDZV-001", "FAB-001", "FAB-002", "FAB-003", "FAB-004",
    "FAB-005", "FAB-006", "FAB-010", "FAB-012", "FAB-014", "FAB-015", "FAB-016", "FAB-017", "FAB-018",
    "FAB-019", "FAB-020", "FAB-021", "CKPT-001", "CKPT-002", "CKPT-003", "CKPT-004", "CKPT-006",
)  # fmt: skip
"""Rows whose members report how they ended."""

_OF_SETS = ("REF-009", "TRN-004", "TRN-006", "TRN-007")
"""The same of rows whose members may be failed by others, but do not start again."""

_OVER_SSH = ("PLG-008", "PLG-012", "PLG-009")
"""Rows whose members are still there at the end, or had failed before; the last one's are meant to fail."""

MUTANTS: base.Table = {
    "member.failed": base.Mutant(
        "one member of each gang is Failed: its kubelet evicted it",
        _befalls(_fail),
        {
            **dict.fromkeys(
                (*_ANY, *_BESIDE_ELASTIC, "GANG-012", "INV-007", "TRN-004", "TRN-007"), "inconclusive"
            ),
            **dict.fromkeys((*_AT_A_STORE, *_OVER_SSH, "KUE-007", "TRN-006"), "environment"),
            "REF-009": "fail",
        },
    ),
    "member.started-again": base.Mutant(
        "the containers of one member were started again",
        _befalls(_start_again),
        # Which containers of a pod that says nothing are ours is not known: another's may start again.
        dict.fromkeys(
            (
                row
                for row in (*_ANY, *_BESIDE_ELASTIC, *_OVER_SSH[:2], *_OF_SETS, "GANG-012", "KUE-007")
                if row not in {"GANG-002", "NUMA-008"}
            ),
            "inconclusive",
        ),
    ),
    "member.done-with-1": base.Mutant(
        "one rank reports that it ended with 1",
        base.on("done", lambda told: told.update(code=1), alone=True),
        dict.fromkeys(_SAYING_DONE, "inconclusive"),
    ),
}
