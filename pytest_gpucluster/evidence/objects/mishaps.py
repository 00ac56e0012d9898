"""What befell a pod before anybody asked for its end: it failed, was evicted, started again, or lost from sight.

Whatever comes after its deletion was asked for is the way of ending it: processes that are killed end with other codes
than 0.
"""

import math
from collections.abc import Container

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory

EVICTED = "DisruptionTarget"
"""Condition by which an eviction is announced: by the API, by a scheduler that takes the place, by a taint."""
BY_VOLCANO = "Evict"
"""Reason of the condition Ready by which Volcano's scheduler announces that it takes a pod's place."""
BROKEN_OFF = ("failed", "stalled")
"""Facts by which a payload says that it did not do its work."""


def mishap(
    evidence: Evidence, pod: PodStory, own: Container[str] | None = None, until: float = math.inf
) -> tuple[str, str] | None:
    """Return what befell a pod that was to run to its end, and the key of the line that tells; None for nothing.

    Args:
        evidence: what was seen.
        pod: the pod.
        own: names of the containers that its maker wrote; others were put beside them and may start again. None where
            that is not known.
        until: when nobody looked at it any more.
    """
    for line in evidence.history(pod.uid):
        if line.t > until:
            break
        told = _evicted(line)
        if not told and not _ending(line):
            told = _ended(line, own) or _failed(line)
        if told:
            return told, line.key
    return _said(evidence, pod)


def turned_away(pod: PodStory) -> bool:
    """Report whether a kubelet did not admit a pod that was bound to it: nothing of it ran."""
    reason = fields.text(pod.last, "status", "reason")
    return pod.phase == "Failed" and bool(reason) and reason != "Evicted" and pod.running is None


def _ending(line: Line) -> bool:
    return line.type == "DELETED" or bool(fields.sub(line.object, "metadata").get("deletionTimestamp"))


def _evicted(line: Line) -> str:
    """Return by whom a pod was evicted; an eviction may be told together with the deletion that it leads to.

    One that had succeeded is only cleared away.
    """
    if fields.text(line.object, "status", "phase") == "Succeeded":
        return ""
    announced, ready = fields.condition(line.object, EVICTED), fields.condition(line.object, "Ready")
    if announced.get("status") == "True":
        return f"was evicted ({announced.get('reason') or 'without a reason'})"
    return "was evicted (by Volcano's scheduler)" if ready.get("reason") == BY_VOLCANO else ""


def _failed(line: Line) -> str:
    status = fields.sub(line.object, "status")
    if status.get("phase") == "Unknown":
        return "has phase Unknown: nobody knows whether it runs"
    if status.get("phase") != "Failed":
        return ""
    why = " ".join(str(status.get("reason") or status.get("message") or "").split())[:160]
    return f"Failed ({why})" if why else "Failed"


def _ended(line: Line, own: Container[str] | None) -> str:
    """Return which container ended with another code than 0, or runs again."""
    for part in ("initContainers", "containers"):
        # What stays beside the others for as long as they run is ended by its kubelet, and started again as it likes.
        beside = {
            each.get("name")
            for each in fields.items(line.object, "spec", part)
            if part == "initContainers" and each.get("restartPolicy") == "Always"
        }
        for status in fields.items(line.object, "status", f"{part[:-1]}Statuses"):
            name = str(status.get("name"))
            if name in beside or (own is not None and name not in own):
                continue
            code = fields.number(containers.end_of(status), "exitCode")
            if code:
                return f"ended with exit code {code} ({name})"
            again = fields.number(status, "restartCount")
            if again:
                return (
                    f"was started again {again} times ({name})"
                    if again > 1
                    else f"was started again ({name})"
                )
    return ""


def _said(evidence: Evidence, pod: PodStory) -> tuple[str, str] | None:
    """Return by what fact a payload says itself that it did not come to a good end."""
    for word in payload_lines.words(evidence).words:
        if word.uid != pod.uid:
            continue
        code = word.number("code") if word.event == "done" else None
        if code:
            return f"says that it ended with {code}", word.key
        if word.event in BROKEN_OFF:
            return f"says that it {word.event}", word.key
    return None
