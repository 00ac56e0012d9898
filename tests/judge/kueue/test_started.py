"""Quota that is held for nobody: jobs of any kind that are admitted and never resumed, and what is not one of them."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.requirement import Verdict
from tests import recordings

FILE = recordings.FOLDER / "diagnose" / "trainjob-admitted-not-resumed.json"
ROWS = ("KUE-001", "KUE-005")
Items = list[dict[str, Any]]


def _read(tmp_path: Any, change: Callable[[Items], None] | None = None) -> Evidence:
    listed = json.loads(FILE.read_text())
    items = copy.deepcopy(listed["items"])
    if change is not None:
        change(items)
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({**listed, "items": items}, indent=1))
    return ingest.read(path)


def _of(items: Items, kind: str) -> dict[str, Any]:
    return next(o for o in items if o["kind"] == kind)


def _resumed(items: Items) -> None:
    _of(items, "TrainJob")["spec"]["suspend"] = False


def _just_admitted(items: Items) -> None:
    items[:] = [o for o in items if o["kind"] != "Event"]


def _has_a_pod(items: Items) -> None:
    items.append({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "yv7-node-0-0-x", "namespace": "atlas", "uid": "p"},
        "spec": {"containers": []}, "status": {"phase": "Pending"},
    })  # fmt: skip


def _not_admitted(items: Items) -> None:
    workload = _of(items, "Workload")
    workload["status"] = {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending"}]}


def _as_jobset(items: Items) -> None:
    items[:] = [o for o in items if o["kind"] != "TrainJob"]
    jobset = _of(items, "JobSet")
    jobset["metadata"].pop("ownerReferences")
    reference = {
        "apiVersion": jobset["apiVersion"],
        "kind": "JobSet",
        "name": "yv7",
        "uid": jobset["metadata"]["uid"],
    }
    _of(items, "Workload")["metadata"]["ownerReferences"] = [reference]


def _evicted(items: Items) -> None:
    told = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "lastTransitionTime": "2026-10-05T08:00:10Z",
    }
    _of(items, "Workload")["status"]["conditions"].append(told)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("change", [None, _as_jobset], ids=["TrainJob", "JobSet"])
def test_an_admitted_job_that_is_never_resumed_fails(row: str, change: Any, tmp_path: Any):
    """Workload, job, what is held and what its controller said are named."""
    evidence = _read(tmp_path, change)
    finding = recordings.JUDGES[row](evidence, evidence.given)
    assert finding.verdict is Verdict.FAIL, finding.observed
    for word in ("trainjob-yv7-c1f20 is Admitted", "still suspended", "8 nvidia.com/gpu", "team-cq"):
        assert word in finding.observed


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("change", [_resumed, _just_admitted, _has_a_pod, _not_admitted])
def test_what_may_yet_start_does_not_fail(row: str, change: Any, tmp_path: Any):
    """A job that was resumed, has a pod, holds no quota, or was admitted a moment ago, is no violation; nor a pass."""
    evidence = _read(tmp_path, change)
    finding = recordings.JUDGES[row](evidence, evidence.given)
    assert finding.verdict is Verdict.INCONCLUSIVE, finding.observed


def test_an_eviction_that_keeps_its_quota_fails(tmp_path: Any):
    """Evicted is not called admitted and never started: it is quota that was not given back."""
    evidence = _read(tmp_path, _evicted)
    finding = recordings.JUDGES["KUE-005"](evidence, evidence.given)
    assert finding.verdict is Verdict.FAIL
    assert "is Evicted since" in finding.observed
