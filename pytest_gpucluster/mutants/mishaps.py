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


def _befalls(change: Callable[[dict[str, Any]], None]) -> base.Mutant:
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


MUTANTS: base.Table = {
    "member.failed": ("one member of each gang is Failed: its kubelet evicted it", _befalls(_fail)),
    "member.started-again": ("the containers of one member were started again", _befalls(_start_again)),
    "member.done-with-1": (
        "one rank reports that it ended with 1",
        base.on("done", lambda told: told.update(code=1), alone=True),
    ),
}
