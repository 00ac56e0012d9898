"""Evidence for diagnoses: recorded streams at a moment, as a stream and as a snapshot, and public cases in full."""

import functools
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose.history import when
from pytest_gpucluster.evidence import EVERY_KIND, Evidence, Span
from pytest_gpucluster.evidence.log import ingest
from tests import documents, recordings


def at(name: str, t: float) -> Evidence:
    """Return a recorded stream up to a moment, as somebody who watches sees it."""
    whole = recordings.stream(name)
    lines = [line for line in whole.lines if line.t <= t]
    lines.append(ingest.make_line(t, "NOTE", {"note": "end"}, len(lines)))
    return Evidence(lines, header=whole.header, spans=[Span(EVERY_KIND, 0.0, t, "recording")])


def objects_at(name: str, t: float) -> tuple[list[Mapping[str, Any]], datetime | None]:
    """Return what `kubectl get` would have shown at a moment of a recorded stream, and the time of day."""
    newest: dict[str, Mapping[str, Any]] = {}
    now: datetime | None = None
    for line in recordings.stream(name).lines:
        if line.t > t:
            break
        if line.type == "DELETED":
            newest.pop(line.uid, None)
        elif line.kind:
            newest[line.uid] = line.object
        made = when(line.object.get("metadata", {}).get("creationTimestamp")) if line.kind else None
        if now is None and line.type == "ADDED" and line.t > 0.2 and made is not None:
            now = made + timedelta(seconds=t - line.t)
    return list(newest.values()), now


def snapshot(name: str, t: float) -> Evidence:
    """Return a recorded stream at a moment, as somebody who looks once sees it."""
    objects, now = objects_at(name, t)
    return diagnose.unfold(objects, now=now)


@functools.cache
def all_public() -> dict[str, dict[str, Any]]:
    """Return the public cases that judges have, and those that only a diagnosis can read yet, by id."""
    more = documents.read(recordings.FOLDER / "public" / "diagnosis.yaml")
    return {case["id"]: case for case in more} | recordings.public_cases()


def public(case: dict[str, Any]) -> Evidence:
    """Return a public case with all that was seen beside the objects: logs, endpoints."""
    base = recordings.public_evidence(case)
    source = case["input"]
    lines = [o for o in ingest.lines_of(base) if o["type"] not in ("HEADER", "SPAN")]
    ends = {line.name: line.t for line in base.of_kind("Pod")}
    known = {json.dumps(o.get("line")) for o in lines if o["type"] == "LOG"}
    for who, said in (source.get("logs") or {}).items():
        pod, _, container = str(who).partition("/")
        uid = next((line.uid for line in base.of_kind("Pod") if line.name == pod), "")
        for text in said if isinstance(said, list) else ():
            if json.dumps(text) not in known:
                t = ends.get(pod, base.end)
                lines.append(
                    {"t": t, "type": "LOG", "pod": pod, "uid": uid, "container": container, "line": text}
                )
    for one in source.get("endpoints_ready") or ():
        ready = [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "name": name}} for name in one["ready"]]
        obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "job", "uid": "endpoints"}}
        lines.append({"t": one["t"], "type": "ADDED", "object": {**obj, "subsets": [{"addresses": ready}]}})
    return recordings.evidence_of(lines, header={"given": base.given})
