"""Recorded streams and made-up evidence that tests of evidence and judges share."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence import EVERY_KIND, Evidence, Span, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.scheduling.gangs import gangs
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import REGISTRY
from tests import documents

FOLDER = Path(__file__).parent.parent / "fixtures" / "recorded"
VOLCANO = FOLDER / "volcano" / "v1.14.4"
NATIVE = FOLDER / "kubernetes" / "v1.37.2"
KUEUE = FOLDER / "kueue" / "v0.17.0"
KUBELET = FOLDER / "kubelet"

load_suites()
JUDGES = {row.id: row.judge for row in REGISTRY}


def folders() -> list[Path]:
    """Return the folder of every recorded stream."""
    return [path for base in (VOLCANO, NATIVE) for path in sorted(base.iterdir()) if path.is_dir()]


def folder_of(name: str) -> Path:
    """Return the folder of a recorded stream."""
    return next((base / name for base in (VOLCANO, KUEUE) if (base / name).is_dir()), NATIVE / name)


@functools.cache
def stream(name: str) -> Evidence:
    """Return a recorded stream by its scenario's name."""
    return read(folder_of(name) / "events.jsonl")


@functools.cache
def embedded(scenario: str) -> Evidence:
    """Return the evidence of a passing run of a scenario on the embedded cluster."""
    return read(FOLDER / "embedded" / f"{scenario}.jsonl")


def raw(name: str) -> list[dict[str, Any]]:
    """Return the lines of a recorded stream as JSON objects."""
    return [json.loads(line) for line in (folder_of(name) / "events.jsonl").read_text().splitlines()]


def evidence_of(
    lines: list[dict[str, Any]],
    *,
    header: Mapping[str, Any] | None = None,
    spans: tuple[Span, ...] | None = None,
) -> Evidence:
    """Return evidence of JSON objects, watched without a gap unless spans are given."""
    ordered = sorted(lines, key=lambda line: line.get("t", 0.0))
    made = [ingest.make_line(float(o.get("t", 0.0)), o["type"], o, i) for i, o in enumerate(ordered)]
    end = made[-1].t if made else 0.0
    watched = (Span(EVERY_KIND, 0.0, end, "test"),) if spans is None else spans
    return Evidence(made, header=header, spans=watched)


def added(name: str, more: list[dict[str, Any]], *, header: Mapping[str, Any] | None = None) -> Evidence:
    """Return a recorded stream with more lines in it."""
    base = [o for o in ingest.lines_of(stream(name)) if o["type"] not in ("HEADER", "SPAN")]
    return evidence_of([*base, *more], header=header)


def word(t: float, pod: Any, event: str, **told: Any) -> dict[str, Any]:
    """Return a LOG line with one fact of a payload."""
    text = json.dumps({"run": "r", "attempt": 0, "event": event, "pod": pod.name, **told})
    container = pod.last["spec"]["containers"][0]["name"]
    return {
        "t": t,
        "type": "LOG",
        "pod": pod.name,
        "uid": pod.uid,
        "container": container,
        "line": f"GPUCONF1 {text}",
    }


@functools.cache
def healthy() -> Evidence:
    """Return the recorded pytorch gang on real kubelets with what a payload of ours would have printed.

    The log lines, the dry-run answer and the ranks are made up; the watch lines are the recorded ones.
    """
    (torch,) = gangs(stream("r1-real-kubelet-pytorch-gang"))
    pods = sorted(torch.pods, key=lambda pod: pod.name)
    master = pods[0]
    more: list[dict[str, Any]] = []
    for rank, pod in enumerate(pods):
        env = {
            "MASTER_ADDR": "torch-master-0.torch",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "4",
            "RANK": str(rank),
        }
        names = [p.name for p in pods]
        more += [
            word(7.0, pod, "env", env=env, pid=1),
            word(
                7.5,
                pod,
                "resolved",
                name="torch-master-0.torch",
                addresses=[master.ip],
                tries=rank + 1,
                ok=True,
            ),
            word(8.0, pod, "barrier", world=4, rank=rank, members=names, ok=True),
            word(8.5, pod, "rank", rank=rank, world=4, local_rank=0, group_rank=rank, host=pod.name),
            word(9.0, pod, "sum", rank=rank, world=4, local_rank=0, expected=10.0, got=10.0, backend="gloo"),
        ]
    spec = {"schedulerName": "volcano", "minAvailable": 1, "tasks": [{"name": "default0", "replicas": 1}]}
    for kind in ("Job.batch.volcano.sh", "PodGroup"):
        more.append(
            {"t": 0.1, "type": "RESPONSE", "case": f"api:{kind}", "code": 200, "request": f"look up {kind}"}
        )
    answer = {"t": 0.2, "type": "RESPONSE", "case": "dry-run", "code": 201, "request": "create Job/probe"}
    more.append({**answer, "dry_run": True, "object": {"spec": spec}})
    subject = {"t": 0.75, "type": "NOTE", "note": "submitted", "role": "subject", "kind": torch.kind}
    more.append({**subject, "name": torch.name, "uid": torch.uid})
    given = {"scheduler": "volcano", "members": 4, "min_member": 4}
    return added("r1-real-kubelet-pytorch-gang", more, header={"scenario": "healthy", "given": given})


@functools.cache
def public_cases() -> dict[str, dict[str, Any]]:
    """Return the cases made after public trouble reports, by id."""
    cases = documents.read(FOLDER / "public" / "cases.yaml")
    return {case["id"]: case for case in cases}


def public_evidence(case: dict[str, Any]) -> Evidence:
    """Turn a public case into evidence.

    A state at the end is attested for the whole window, and the control that rule 3 of the catalogue asks for is
    taken to have passed.
    """
    given = dict(case.get("given") or {})
    source = case["input"]
    window = float(given.get("window_s", 60))
    lines: list[dict[str, Any]] = []
    if source["kind"] == "watch":
        lines += [{**event} for event in source["events"]]
    elif source["kind"] == "objects":
        given["attested"] = ["control"]
        # What is known of the time: when the Job came to its end, and when all this was seen.
        since = float(source.get("job_failed_at_s", 0.0))
        window = float(source.get("seen_at_s", source.get("now_s", window)))
        lines += [{"t": since, "type": "ADDED", "object": obj} for obj in source["objects"]]
    uids = {
        o["object"]["metadata"]["name"]: o["object"]["metadata"].get("uid", "")
        for o in lines
        if o["object"].get("kind") == "Pod"
    }
    for line in source.get("lines", ()):
        lines.append({"type": "LOG", "uid": "", **line})
    for n, rank in enumerate(source.get("ranks", ())):
        facts = {"rank": rank["RANK"], "world": rank["WORLD_SIZE"], "host": rank["pod"]}
        total = {"expected": source["allreduce"]["sum"], "got": source["allreduce"]["sum"]}
        for event, told in (("rank", facts), ("sum", {**facts, **total})):
            text = f"GPUCONF1 {json.dumps({'event': event, **told})}"
            lines.append({"t": float(n), "type": "LOG", "pod": rank["pod"], "uid": rank["pod"], "line": text})
    for name, address in (source.get("lookups") or {}).items():
        for pod, uid in uids.items():
            told = {"event": "resolved", "name": name, "addresses": [address], "tries": 1, "ok": True}
            text = f"GPUCONF1 {json.dumps(told)}"
            lines.append({"t": 1.0, "type": "LOG", "pod": pod, "uid": uid, "line": text})
    for n, state in enumerate(source.get("endpoints_ready", ())):
        ends = [{"hostname": name, "conditions": {"ready": True}} for name in state["ready"]]
        body = {"kind": "EndpointSlice", "metadata": {"name": "ends", "uid": "ends"}, "endpoints": ends}
        lines.append({"t": float(state["t"]), "type": "MODIFIED" if n else "ADDED", "object": body})
    for probe in source.get("tcp_probe", ()):
        told = {
            "event": "connected",
            "to": probe["to"],
            "ok": probe["result"] == "open",
            "error": probe["result"],
        }
        pod, text = probe["from"], f"GPUCONF1 {json.dumps(told)}"
        lines.append({"t": 1.0, "type": "LOG", "pod": pod, "uid": uids.get(pod, pod), "line": text})
    for pod, seen in (source.get("in_container") or {}).items():
        ids = [each for each in (seen.get("env") or {}).get("NVIDIA_VISIBLE_DEVICES", "").split(",") if each]
        files = [{"path": path, "opens": True} for path in seen.get("dev") or ()]
        told = {
            "event": "access",
            "told": ids,
            "files": files,
            "driver": {"library": "", "why": "not called"},
        }
        text = f"GPUCONF1 {json.dumps(told)}"
        line = {
            "t": 1.0,
            "type": "LOG",
            "pod": pod,
            "uid": uids.get(pod, pod),
            "container": "main",
            "line": text,
        }
        lines.append(line)
    for place, said in (source.get("logs") or {}).items():
        pod, _, container = place.partition("/")
        lines += [
            {
                "t": 1.0,
                "type": "LOG",
                "pod": pod,
                "uid": uids.get(pod, pod),
                "container": container,
                "line": line,
            }
            for line in said
        ]
    last = max((float(o.get("t", 0.0)) for o in lines), default=0.0)
    lines.append({"t": max(window, last), "type": "NOTE", "note": "end"})
    return evidence_of(lines, header={"given": given})
