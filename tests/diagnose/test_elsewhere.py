"""Every kind of trouble again on devices of other vendors and in jobs of other APIs: none gets a stranger's advice."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster import diagnose
from tests.diagnose import kinds_met, kinds_said, kinds_started, running
from tests.diagnose.planting import GPU, Dump

KINDS: dict[str, tuple[Any, ...]] = {
    **kinds_started.KINDS,
    **kinds_said.KINDS,
    **kinds_met.KINDS,
    **running.MODES,
}
PLANTS: dict[str, Callable[[], Dump]] = {name: row[0] for name, row in KINDS.items()}

NVIDIA = re.compile(r"nvidia\S*|\bxid\b|\bCUDA\b|\bNVLink\b|\bMIG\b|DCGM", re.IGNORECASE)
VOLCANO = re.compile(
    r"volcano|\bvc-\S+|vcctl|vcjob|RestartJob|AbortJob|PodFailed|maxRetry|svc plugin|spec\.plugins|minAvailable|"
    r"`svc|task template|pytorch plugin|MASTER_PORT|mpi plugin",
    re.IGNORECASE,
)
DEVICES = ["amd.com/gpu", "habana.ai/gaudi", "google.com/tpu"]
SPEAK = {"no GPU seen"}
"""Kinds whose own log names a vendor where nothing else does."""
MAKERS = {
    "Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "TrainJob": "trainer.kubeflow.org/v1alpha1",
}  # fmt: skip


def _text(dump: Dump) -> str:
    return diagnose.render(dump.diagnose(), full=True)


def _planted(dump: Dump) -> str:
    objects = json.dumps(dump.objects).replace('\\"', '"')
    return (objects + " ".join(log.text for log in dump.logs)).lower()


def _strange(text: str, words: re.Pattern[str], dump: Dump) -> list[str]:
    """Return the words of a stranger in a text that are not quoted from what was planted."""
    there = _planted(dump)
    return [hit.group(0) for hit in words.finditer(text) if hit.group(0).lower() not in there]


def _on(resource: str, dump: Dump) -> Dump:
    dump.objects = json.loads(json.dumps(dump.objects).replace(GPU, resource))
    return dump


def _of(kind: str, dump: Dump) -> Dump:
    """Let the pods be made by something that is not Volcano, as its objects show."""
    dump.drop("Job", "PodGroup", "Queue")
    dump.objects = [o for o in dump.objects if "volcano" not in json.dumps(o.get("apiVersion"))]
    owner = {"apiVersion": MAKERS[kind], "kind": kind, "name": "run", "uid": "run-uid", "controller": True}
    for obj in dump.objects:
        metadata = obj["metadata"]
        if obj["kind"] == "Pod":
            metadata |= {"ownerReferences": [owner]}
            obj["spec"]["schedulerName"] = "default-scheduler"
        for part in ("labels", "annotations"):
            kept = {k: v for k, v in (metadata.get(part) or {}).items() if "volcano" not in f"{k}{v}"}
            metadata[part] = {k: v for k, v in kept.items() if not k.startswith("scheduling.k8s.io/group")}
        if obj["kind"] == "Event":
            obj["source"] = {"component": "default-scheduler"}
    if kind == "Job":
        made = {"name": "run", "namespace": dump.pods[0]["metadata"]["namespace"] if dump.pods else "ml"}
        spec = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
        status = {"active": 4}
        made |= {"uid": "run-uid", "creationTimestamp": dump.ago(600)}
        dump.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": spec, "status": status})
    return dump


@pytest.mark.parametrize("resource", DEVICES)
@pytest.mark.parametrize("kind", sorted(PLANTS.keys() - SPEAK))
def test_other_devices_get_no_advice_for_nvidias(kind: str, resource: str):
    """What is said of a device is said in words of its vendor, or in none."""
    dump = _on(resource, PLANTS[kind]())
    text = _text(dump)
    assert not _strange(text, NVIDIA, dump), text


@pytest.mark.parametrize("maker", sorted(MAKERS))
@pytest.mark.parametrize("kind", sorted(PLANTS))
def test_other_jobs_get_no_advice_for_volcanos(kind: str, maker: str):
    """What is said of a job is said in words of what made it, or in none."""
    dump = PLANTS[kind]()
    if not dump.pods:
        pytest.skip("without its Job nothing is left to diagnose")
    dump = _of(maker, dump)
    text = _text(dump)
    assert not _strange(text, VOLCANO, dump), text
