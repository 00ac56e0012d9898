"""What of a stream is compared: per object the distinct states it went through, and the events about it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.comparison.masks import SEVERAL, UID, masked

COMPARED = ("Job.batch.volcano.sh", "PodGroup", "Pod", "Queue")
SPEC_KINDS = ("Pod", "PodGroup", "ConfigMap", "Service", "NetworkPolicy")

NOTHING = (("cpu", "0"), ("memory", "0"))

State = tuple[Any, ...]
States = dict[tuple[str, str], list[list[State]]]
Events = set[tuple[str, str, str, str, str]]


def name_of(obj: Mapping[str, Any]) -> str:
    """Return an object's name without uids."""
    return UID.sub("UID", obj["metadata"]["name"])


def states(stream: Iterable[Mapping[str, Any]]) -> States:
    """Return, per object, the distinct states in the order in which they first appeared.

    The pods of one task can stand for each other: they are listed together, without their index. A queue's
    state without any allocation is left out, since it depends on what ran before the recording and after.
    """
    each: dict[tuple[str, str], list[State]] = {}
    for line in stream:
        if line.get("kind") not in COMPARED:
            continue
        obj = line["object"]
        found = _state(line["kind"], obj)
        if line["kind"] == "Queue" and found[1] == NOTHING:
            continue
        listed = each.setdefault((line["kind"], name_of(obj)), [])
        if found not in listed:
            listed.append(found)
    out: States = {}
    for (kind, name), listed in each.items():
        out.setdefault((kind, masked(name) if kind == "Pod" else name), []).append(listed)
    return {key: sorted(found, key=repr) for key, found in out.items()}


def _state(kind: str, obj: Mapping[str, Any]) -> State:
    status = obj.get("status") or {}
    if kind == "Queue":
        allocated = tuple(sorted((status.get("allocated") or {}).items()))
        return (status.get("state"), allocated)
    if kind == "Job.batch.volcano.sh":
        phase = (status.get("state") or {}).get("phase")
        listed = tuple(c["status"] for c in status.get("conditions") or [])
        return (phase, listed, status.get("retryCount", 0))
    conditions = tuple(
        (c.get("type"), c.get("status"), c.get("reason")) for c in status.get("conditions") or []
    )
    if kind == "PodGroup":
        return (status.get("phase"), conditions)
    bound = bool(obj["spec"].get("nodeName"))
    return (status.get("phase"), bound, "deletionTimestamp" in obj["metadata"], conditions)


def events(stream: Iterable[Mapping[str, Any]]) -> Events:
    """Return the distinct events with numbers masked; what kubelets say is not the control plane's."""
    out: Events = set()
    for line in stream:
        if line.get("kind") != "Event" or line["object"].get("source", {}).get("component") == "kubelet":
            continue
        event = line["object"]
        about = event["involvedObject"]
        message = event["message"].removeprefix(SEVERAL)
        out.add(
            (
                about["kind"],
                masked(about["name"]),
                event.get("type", ""),
                event["reason"],
                masked(message),
            )
        )
    return out


def specs(stream: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Any]:
    """Return, per object, what was asked for when it was created, without what the API server adds."""
    out: dict[tuple[str, str], Any] = {}
    for line in stream:
        kind = line.get("kind")
        if line["type"] == "ADDED" and kind in SPEC_KINDS:
            out.setdefault((kind, name_of(line["object"])), _spec(kind, line["object"]))
    return out


def _spec(kind: str, obj: Mapping[str, Any]) -> Any:
    owners = [
        (o["kind"], o["name"], o.get("controller")) for o in obj["metadata"].get("ownerReferences") or []
    ]
    if kind == "ConfigMap":
        return (owners, obj["data"])
    spec = obj["spec"]
    if kind == "Service":
        return (
            owners,
            {k: spec.get(k) for k in ("selector", "clusterIP", "ports", "publishNotReadyAddresses")},
        )
    if kind != "Pod":
        return (owners, spec)
    meta = obj["metadata"]
    annotations = {k: UID.sub("UID", v) for k, v in (meta.get("annotations") or {}).items()}
    return (
        owners,
        meta.get("labels"),
        annotations,
        {k: spec.get(k) for k in ("hostname", "subdomain", "schedulerName", "restartPolicy")},
        sorted(_line(v) for v in spec.get("volumes") or [] if "projected" not in v),
        [_container(c) for c in spec["containers"]],
        [_container(c) for c in spec.get("initContainers") or []],
    )


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


def _container(container: Mapping[str, Any]) -> Any:
    mounts = [
        _line(m) for m in container.get("volumeMounts") or [] if not m["name"].startswith("kube-api-access")
    ]
    waits = container["name"] == "wait-for-master"
    return {
        "name": container["name"],
        "image": container["image"],
        "command": "a shell loop" if waits else container.get("command"),
        "env": sorted(_line(e) for e in container.get("env") or []),
        "ports": container.get("ports"),
        "resources": container.get("resources") or {},
        "mounts": sorted(mounts),
    }
