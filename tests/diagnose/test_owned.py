"""Jobs of operators, of Kueue and of other schedulers' PodGroups: other numbers and words of the handed situations."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Diagnosis
from pytest_gpucluster.evidence.log import ingest
from tests import recordings

FOLDER = recordings.FOLDER / "diagnose"
Items = list[dict[str, Any]]


def _of(name: str, change: Callable[[Items], None], tmp_path: Path) -> Diagnosis:
    listed = json.loads((FOLDER / name).read_text())
    items = copy.deepcopy(listed["items"])
    change(items)
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({**listed, "items": items}, indent=1))
    (found, *_) = diagnose.subjects(diagnose.revive(ingest.read(path)))
    return diagnose.diagnose(found)


def _kind(items: Items, kind: str) -> dict[str, Any]:
    return next(o for o in items if o["kind"] == kind)


def _jobset_alone(items: Items) -> None:
    items[:] = [o for o in items if o["kind"] not in ("TrainJob", "Event")]
    jobset = _kind(items, "JobSet")
    jobset["metadata"].pop("ownerReferences")
    reference = {
        "apiVersion": jobset["apiVersion"],
        "kind": "JobSet",
        "name": "yv7",
        "uid": jobset["metadata"]["uid"],
    }
    _kind(items, "Workload")["metadata"]["ownerReferences"] = [reference]


def _evicted(items: Items) -> None:
    told = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "lastTransitionTime": "2026-10-05T08:00:10Z",
    }
    _kind(items, "Workload")["status"]["conditions"].append(told)


def _queue_inactive(items: Items) -> None:
    said = "ClusterQueue team-cq is inactive"
    told = {"type": "QuotaReserved", "status": "False", "reason": "Inadmissible", "message": said}
    _kind(items, "Workload")["status"] = {"conditions": [told]}


def _no_quota(items: Items) -> None:
    said = (
        "couldn't assign flavors to pod set node: insufficient unused quota for nvidia.com/gpu, 4 more needed"
    )
    told = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": said}
    _kind(items, "Workload")["status"] = {"conditions": [told]}


def _unknown_to_kueue(items: Items) -> None:
    items[:] = [o for o in items if o["kind"] != "Workload"]


@pytest.mark.parametrize(
    ("change", "state", "code", "words"),
    [
        (
            _jobset_alone,
            "trouble",
            "admitted-not-started",
            ["JobSet yv7 is still suspended", "jobsets.jobset.x-k8s.io"],
        ),
        (_evicted, "trouble", "evicted-and-holding", ["is Evicted (Preempted)", "8 nvidia.com/gpu"]),
        (_queue_inactive, "trouble", "quota-refused", ["ClusterQueue team-cq is inactive"]),
        (_no_quota, "refused", "quota-refused", ["insufficient unused quota", "4 more needed"]),
        (_unknown_to_kueue, "trouble", "no-workload", ["team-lq", "evidence has no Workload"]),
    ],
)
def test_a_job_behind_kueue(change: Any, state: str, code: str, words: list[str], tmp_path: Path):
    """Who holds quota for nobody, who waits for it as it should, and whom Kueue does not know, is told apart."""
    found = _of("trainjob-admitted-not-resumed.json", change, tmp_path)
    text = " ".join(diagnose.render(found).split())
    assert found.state.value == state, text
    assert found.suspects[0].code == code, text
    for word in words:
        assert word in text, text


def _waiting(items: Items) -> dict[str, Any]:
    return next(o for o in items if o["kind"] == "Pod" and o["status"]["phase"] == "Pending")


def _other_words(items: Items) -> None:
    said = "gang needs at least 6 pods, only 1 of them is there"
    _waiting(items)["status"]["conditions"][0]["message"] = said


def _no_words(items: Items) -> None:
    _waiting(items)["status"]["conditions"][0]["message"] = ""


def _small_minimum(items: Items) -> None:
    _kind(items, "PodGroup")["spec"]["minMember"] = 1


@pytest.mark.parametrize(
    ("change", "code", "sure"),
    [
        (_other_words, "minimum-above-rest", True),
        (_no_words, "minimum-above-rest", False),
        (_small_minimum, "rest-waits", False),
    ],
)
def test_a_minimum_above_what_is_left(change: Any, code: str, sure: bool, tmp_path: Path):
    """Sure where the scheduler says the numbers, likely where only objects do, not said where enough is left."""
    found = _of("jobset-kai-last-pod.json", change, tmp_path)
    text = " ".join(diagnose.render(found).split())
    assert found.state.value == "trouble", text
    assert found.suspects[0].code == code, text
    assert (found.suspects[0].certainty is diagnose.Certainty.SURE) is sure, text
    assert "olcano" not in text, text
