"""Playing a recording of native gangs against the embedded cluster: the same objects, and kubelets as recorded."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.names import kind_key_of
from tests.embedded.volcano.kubelet import new_node
from tests.embedded.volcano.recorded_kubelet import RecordedKubelet
from tests.embedded.volcano.virtual_time import run_virtually, wall

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "kubernetes" / "v1.37.2"
FOLLOWED = ("Job.batch", "PodGroup.scheduling.k8s.io", "Workload.scheduling.k8s.io", "Pod", "Event")
GATES = {"GenericWorkload": True, "WorkloadWithJob": True}
APPLY_SECONDS = 0.015
"""Between two objects that kubectl creates."""

Stream = list[dict[str, Any]]


def recorded(name: str) -> Stream:
    """Return the lines of a recording, with kind keys."""
    with (RECORDED / name / "events.jsonl").open() as text:
        lines = [json.loads(line) for line in text]
    return [{**line, "kind": kind_key_of(line["object"])} if line.get("object") else line for line in lines]


def gang_of(pod: Mapping[str, Any]) -> str:
    """Return what names the gang of a pod without hashes: its Job, its label, else its own name."""
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("job-name") or labels.get("gang") or pod["metadata"]["name"])


def play(name: str, *, defects: tuple[str, ...] = (), gates: Mapping[str, bool] = GATES) -> Stream:
    """Replay a recording in virtual time and return what was seen."""
    return run_virtually(_play(name, defects, gates))


def _control_plane() -> Obj:
    node = new_node("lab-control-plane", gpus=0)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    return {**node, "spec": {"taints": [taint]}}


def _present(stream: Stream, applied: list[Obj]) -> list[Obj]:
    """Return the pods that were there and bound before anything was applied."""
    names = {doc["metadata"]["name"] for doc in applied}
    first = {
        line["object"]["metadata"]["name"]: line["object"] for line in reversed(stream) if line.get("object")
    }
    return [
        {"metadata": {"name": n, "namespace": "default"}, "spec": obj["spec"], "status": obj["status"]}
        for n, obj in first.items()
        if obj["kind"] == "Pod"
        and obj["spec"].get("nodeName")
        and n not in names
        and not obj["metadata"].get("labels")
    ]


async def _play(name: str, defects: tuple[str, ...], gates: Mapping[str, bool]) -> Stream:
    stream = recorded(name)
    with (RECORDED / name / "manifest.yaml").open() as text:
        applied = [doc for doc in yaml.safe_load_all(text) if doc]
    runtime = build(
        {"volcano": False, "scheduler_period": 1.0, "feature_gates": dict(gates), "defects": defects}
    )
    store = runtime.store
    store.clock = wall
    for node in (_control_plane(), new_node("lab-worker"), new_node("lab-worker2")):
        store.create("Node", node)
    runtime.spawn(RecordedKubelet(runtime, stream, alike=gang_of).run(), "recorded kubelets")
    for pod in _present(stream, applied):
        made = store.create("Pod", pod)
        store.update("Pod", {**made, "status": pod["status"]}, subresource="status")
    await asyncio.sleep(1)
    out: Stream = []
    watcher = asyncio.create_task(_watch(runtime, out))
    for line in stream:
        if line["type"] == "NOTE":
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(max(line["t"] - now, 0))
            await _act(runtime, line["text"], applied)
    await asyncio.sleep(max(stream[-1]["t"] + 1.0 - asyncio.get_running_loop().time(), 0))
    watcher.cancel()
    assert not runtime.crashed.is_set()
    await runtime.stop()
    return out


async def _act(runtime: Runtime, note: str, applied: list[Obj]) -> None:
    """Do what a note says that the driver did."""
    if note.startswith("kubectl apply "):
        for doc in applied:
            doc["metadata"]["namespace"] = "default"
            runtime.store.create(kind_key_of(doc), doc)
            await asyncio.sleep(APPLY_SECONDS)
        return
    deleted = re.match(r"kubectl delete pod (\S+)", note)
    assert deleted, note
    runtime.store.delete("Pod", "default", deleted[1])


async def _watch(runtime: Runtime, out: Stream) -> None:
    with runtime.store.subscribe(FOLLOWED) as changes:
        async for kind, key, obj in changes:
            at = asyncio.get_running_loop().time()
            out.append({"t": round(at, 3), "type": kind, "kind": key, "object": obj})
