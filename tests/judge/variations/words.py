"""What components say: later wordings, further conditions and events, and what programs print beside their facts."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.mutants import with_lines
from tests.judge.variations import admitted
from tests.judge.variations.base import Variation, more, objects, watch_line


def longer_messages(obj: dict[str, Any]) -> None:
    """Messages of events and conditions say more at their end than they did."""
    if obj.get("kind") == "Event" and obj.get("message"):
        obj["message"] += (
            " no new claims to deallocate, preemption: 0/3 nodes are available. See https://k8s.io/x."
        )
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition.get("message"):
            condition["message"] += " (observed by controller v9)"


def further_conditions(obj: dict[str, Any]) -> None:
    """Objects have conditions of kinds that nobody knew, true and false ones."""
    status = obj.get("status")
    if isinstance(status, dict) and isinstance(status.get("conditions"), list):
        told = {
            "lastTransitionTime": "2026-11-28T12:12:41Z",
            "message": "as it should be",
            "observedGeneration": 1,
        }
        status["conditions"] = [
            {"type": "example.com/Synced", "status": "True", "reason": "Synced", **told},
            {"type": "ResizePending", "status": "False", "reason": "", **told},
            *status["conditions"],
            {"type": "AllContainersRestarting", "status": "Unknown", "reason": "NotYet", **told},
        ]


def other_words(obj: dict[str, Any]) -> None:
    """Schedulers and controllers give their reasons in words that nobody knew."""
    if obj.get("kind") == "Event":
        obj.update(message="資源が不足しています (3)", reason="NotYetPlaced")
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if obj.get("kind") in ("PodGroup", "Workload") or condition.get("type") == "PodScheduled":
            condition.update(message="資源が不足しています (3)", reason="NotYetPlaced")


HARMLESS = (
    ("FailedMount", 'MountVolume.SetUp failed for volume "token": failed to sync configmap cache: timed out'),
    ("FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (registry)"),
    ("DNSConfigForming", "Search Line limits were exceeded, some search paths have been omitted"),
    ("Unhealthy", "Readiness probe failed: dial tcp 10.88.1.9:15021: connect: connection refused"),
    ("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: code = Unavailable; retried"),
    ("TaintManagerEviction", "Cancelling deletion of Pod"),
)  # fmt: skip
"""Reason and message of events that healthy pods have."""


def harmless_events(evidence: Evidence) -> Evidence:
    """Pods that run have had warnings that came to nothing."""
    lines = []
    for uid in evidence.uids("Pod"):
        ran = next(
            (ln for ln in evidence.history(uid) if (ln.object.get("status") or {}).get("phase") == "Running"),
            None,
        )
        if ran is None:
            continue
        meta = ran.object["metadata"]
        about = {
            "kind": "Pod",
            "apiVersion": "v1",
            "uid": uid,
            "name": ran.name,
            "namespace": meta.get("namespace"),
        }
        lines += [
            watch_line(ran.t - 1e-4, "Event", {
                "kind": "Event", "apiVersion": "v1", "type": "Warning", "reason": reason, "message": message,
                "metadata": {"name": f"{ran.name}.{n}", "uid": f"{uid}-event-{n}", "namespace": meta.get("namespace")},
                "involvedObject": about, "source": {"component": "kubelet"},
            })
            for n, (reason, message) in enumerate(HARMLESS)
        ]  # fmt: skip
    return more(evidence, lines)


NOISE = (
    "/usr/lib/python3/site.py:1: FutureWarning: torch.distributed.launch is deprecated",
    "socket.gaierror: [Errno -3] Temporary failure in name resolution (attempt 1 of 30, going on)",
    "[W1128 12:12:47.000 socket.cpp:752] [c10d] The client socket has failed to connect to [x]:29500 (errno: 111).",
    "\x1b[33mWARN\x1b[0m 2026-11-28T12:12:47Z retrying in 1s",
    "",
    "unïcode \u202e and \x00",
)


def noise(evidence: Evidence) -> Evidence:
    """Programs print warnings beside their facts, among them look-ups and connections that were tried again."""
    begun: dict[Any, Line] = {}
    for line in evidence.logs():
        begun.setdefault((line.data.get("uid"), line.data.get("container")), line)
    lines = [
        dataclasses.replace(line, data={**line.data, "line": text})
        for line in begun.values()
        for text in NOISE
    ]
    # Before the container's own first line: what it then says shows that it went on.
    return with_lines(evidence, [*lines, *evidence.lines])


def prefixed(evidence: Evidence) -> Evidence:
    """What collects the logs puts a time and the pod before each line, and an end of line of its own after it."""
    lines = [
        dataclasses.replace(
            line,
            data={**line.data, "line": f"2026-11-28T12:12:47.123456789Z [rank0]: {line.data.get('line')}\r"},
        )
        if line.type == "LOG"
        else line
        for line in evidence.lines
    ]
    return with_lines(evidence, lines)


def agents_logs(evidence: Evidence) -> Evidence:
    """The agent that was put beside ours prints troubles of its own."""
    lines = [
        dataclasses.replace(line, data={**line.data, "container": "istio-proxy", "line": text})
        for line in {line.data.get("uid"): line for line in evidence.logs()}.values()
        for text in (
            "error lookup telemetry.svc: no such host",
            "Traceback (most recent call last):",
            "FATAL exit 1",
        )
    ]
    return more(objects(admitted.mesh, "Pod")(evidence), lines)


VARIATIONS: dict[str, Variation] = {
    "longer-messages": objects(longer_messages),
    "other-words": objects(other_words),
    "further-conditions": objects(further_conditions),
    "harmless-events": harmless_events,
    "noise": noise,
    "prefixed": prefixed,
    "agents-logs": agents_logs,
}
"""Name -> variation."""
