"""What of a stream is compared: per object the distinct states it went through, the events, what was asked for."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

DIGITS = re.compile(r"\d+")
HASH = re.compile(r"(job-[a-z-]+)-[0-9a-f]{5}\b")
GENERATED = re.compile(r"-\d+-[a-z0-9]{5}\b")
NODE = re.compile(r"\bgpu-\d\b")
KUEUE = ("Workload", "ClusterQueue", "LocalQueue")

State = tuple[Any, ...]
States = dict[tuple[str, str], list[State]]
Events = set[tuple[str, str, str, str, str, str]]


def plain(text: str) -> str:
    """Return a text without what was generated of names."""
    return NODE.sub("NODE", GENERATED.sub("-N-X", HASH.sub(r"\1-HASH", text)))


def masked(text: str) -> str:
    """Return a text without numbers and generated names."""
    return DIGITS.sub("N", plain(text))


def states(stream: Iterable[Mapping[str, Any]]) -> States:
    """Return, per object that is no pod, the distinct states in the order in which they first appeared."""
    out: States = {}
    for line in stream:
        kind = line.get("kind")
        if kind not in (*KUEUE, "Job.batch"):
            continue
        found = _state(str(kind), line["object"])
        listed = out.setdefault((str(kind), plain(line["object"]["metadata"]["name"])), [])
        if found not in listed:
            listed.append(found)
    return out


def _state(kind: str, obj: Mapping[str, Any]) -> State:
    status = obj.get("status") or {}
    conditions = tuple(
        (c["type"], c["status"], c["reason"], plain(c["message"])) for c in status.get("conditions") or []
    )
    finalizers = tuple(obj["metadata"].get("finalizers") or ())
    if kind == "Job.batch":
        template = obj["spec"]["template"]
        return (
            obj["spec"]["suspend"],
            tuple(sorted((obj["metadata"].get("annotations") or {}).items())),
            "nodeSelector" in template["spec"],
            conditions,
            "startTime" in status,
        )
    if kind == "Workload":
        rest = {k: v for k, v in status.items() if k not in ("conditions", "requeueState")}
        again = status.get("requeueState") or {}
        return (finalizers, conditions, again.get("count"), "requeueAt" in again, _line(_untimed(rest)))
    active = tuple(c[1:] for c in conditions)
    counts = {k: v for k, v in status.items() if k != "conditions"}
    return (active, obj["spec"]["stopPolicy"], finalizers, _line(counts))


def _untimed(status: dict[str, Any]) -> dict[str, Any]:
    return {k: "N" if k == "accumulatedPastExecutionTimeSeconds" else v for k, v in status.items()}


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def events(stream: Iterable[Mapping[str, Any]]) -> Events:
    """Return the distinct events: about what, type, reason, masked message, reporter."""
    out: Events = set()
    for line in stream:
        event = line["object"] if line.get("kind") == "Event" else None
        if event is None or (event.get("source") or {}).get("component") == "kubelet":
            continue
        about = event["involvedObject"]
        out.add(
            (
                about["kind"],
                masked(about["name"]),
                event["type"],
                event["reason"],
                masked(event["message"].removeprefix("(combined from similar events): ")),
                event["reportingComponent"],
            )
        )
    return out


def specs(stream: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Any]:
    """Return, per object of Kueue, what it was created with and what it came to be, without what is generated."""
    out: dict[tuple[str, str], Any] = {}
    for line in stream:
        if line.get("kind") not in KUEUE:
            continue
        obj = line["object"]
        owners = [
            (o["kind"], o["name"], o["controller"]) for o in obj["metadata"].get("ownerReferences") or []
        ]
        labels = sorted(obj["metadata"].get("labels") or {})
        found = (owners, labels, plain(_line(_known(obj["spec"]))))
        listed = out.setdefault((line["kind"], plain(obj["metadata"]["name"])), [])
        if found not in listed:
            listed.append(found)
    return out


def _known(spec: Any) -> Any:
    """Leave out of a pod template what the double's defaults have more or fewer of."""
    if not isinstance(spec, dict):
        return [_known(each) for each in spec] if isinstance(spec, list) else spec
    unlike = ("enableServiceLinks", "priority", "preemptionPolicy", "tolerations", "serviceAccountName",
              "serviceAccount")  # fmt: skip
    kept = {k: _known(v) for k, v in spec.items()}
    return {k: v for k, v in kept.items() if not ("containers" in spec and k in unlike)}


def pods(stream: Iterable[Mapping[str, Any]]) -> dict[str, list[State]]:
    """Return, per Job, the distinct sequences of states that its pods went through, with how many did."""
    each: dict[str, list[State]] = {}
    owner: dict[str, str] = {}
    for line in stream:
        if line.get("kind") != "Pod":
            continue
        obj = line["object"]
        uid = obj["metadata"]["uid"]
        owner[uid] = obj["metadata"]["ownerReferences"][0]["name"]
        found = (
            line["type"] == "DELETED",
            obj["status"].get("phase"),
            bool(obj["spec"].get("nodeName")),
            "deletionTimestamp" in obj["metadata"],
        )
        listed = each.setdefault(uid, [])
        if found not in listed:
            listed.append(found)
    out: dict[str, list[State]] = {}
    for uid, listed in each.items():
        out.setdefault(owner[uid], []).append(tuple(listed))
    return {job: sorted(found, key=repr) for job, found in out.items()}
