"""JobSets: what their Jobs, their PodGroups and their owners say is said of them."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Situation
from pytest_gpucluster.evidence.log import ingest
from tests import recordings

FOLDER = recordings.FOLDER / "diagnose"
LAST_POD = "jobset-kai-last-pod.json"
TRAIN_JOB = "trainjob-admitted-not-resumed.json"
Items = list[dict[str, Any]]


def _asked(
    name: str, tmp_path: Path, *changes: Callable[[Items], None], job: str = "/"
) -> tuple[Situation, ...]:
    listed = json.loads((FOLDER / name).read_text())
    for change in changes:
        change(listed["items"])
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed))
    kind, _, wanted = job.partition("/")
    return diagnose.subjects(diagnose.revive(ingest.read(path)), wanted, "", kind)


def _of(items: Items, kind: str) -> Items:
    return [one for one in items if one["kind"] == kind]


def _second_job(items: Items) -> None:
    """Let the set have a second Job, of two pods that have not begun to run."""
    (jobset,), (job,) = _of(items, "JobSet"), _of(items, "Job")
    pod = next(one for one in _of(items, "Pod") if one["status"]["phase"] == "Pending")
    second = copy.deepcopy(jobset["spec"]["replicatedJobs"][0])
    second |= {"name": "v", "template": {"spec": {"parallelism": 2, "completions": 2}}}
    jobset["spec"]["replicatedJobs"].append(second)
    other = copy.deepcopy(job)
    other["metadata"] |= {"name": "sweep-v-0", "uid": "job-v"}
    other["spec"] |= {"parallelism": 2, "completions": 2}
    other["status"] = {"active": 2}
    items.append(other)
    for index in range(2):
        more = copy.deepcopy(pod)
        more["metadata"] |= {"name": f"sweep-v-0-{index}-abcd", "uid": f"pod-v-{index}"}
        more["metadata"]["labels"] |= {
            "batch.kubernetes.io/job-completion-index": str(index),
            "jobset.sigs.k8s.io/job-global-index": "1",
        }
        more["metadata"]["ownerReferences"][0] |= {"name": "sweep-v-0", "uid": "job-v"}
        items.append(more)


def _group_of_its_own(items: Items) -> None:
    """Let the second Job have a PodGroup of its own, as KAI makes one per Job."""
    (group,) = _of(items, "PodGroup")
    own = copy.deepcopy(group)
    own["metadata"] |= {"name": "pg-sweep-v-0", "uid": "group-v"}
    own["spec"]["minMember"] = 2
    items.append(own)
    for pod in _of(items, "Pod"):
        if pod["metadata"]["ownerReferences"][0]["uid"] == "job-v":
            pod["metadata"]["annotations"]["pod-group-name"] = "pg-sweep-v-0"


def _group_of_three(items: Items) -> None:
    _of(items, "PodGroup")[0]["spec"]["minMember"] = 3


def _job_to_be_made(items: Items) -> None:
    """Let the set say that it has one more Job, which is not made yet."""
    _of(items, "JobSet")[0]["spec"]["replicatedJobs"][0]["replicas"] = 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([_second_job, _group_of_its_own], "minimum is 6 (parallelism) and 1 pod is left of 7 completions"),
        ([_second_job], "minimum is 6 and 3 pods are left of 9 completions"),
        ([_second_job, _group_of_three], ""),
        ([_job_to_be_made], ""),
    ],
)
def test_what_is_left_is_counted_per_pod_group(
    changes: list[Callable[[Items], None]], said: str, tmp_path: Path
):
    """Members of one PodGroup may be of several Jobs; that of a Job still to be made may get more."""
    (found,) = _asked(LAST_POD, tmp_path, *changes)
    suspects = diagnose.diagnose(found).suspects
    told = [one.cause.text for one in suspects if one.code == "minimum-above-rest"]
    assert len(told) == bool(said), suspects
    assert all(said in text for text in told)


def _only_the_job_is_heard(items: Items) -> None:
    """Let a ResourceQuota refuse all pods; the event is about the Job of the set."""
    items[:] = [one for one in items if one["kind"] in ("JobSet", "Job", "Node")]
    (job,) = _of(items, "Job")
    job["status"] = {}
    about = {"apiVersion": "batch/v1", "kind": "Job", **_place(job)}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": "e1",
            "namespace": "atlas",
            "uid": "e1",
            "creationTimestamp": "2026-10-05T08:00:03Z",
        },
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedCreate",
        "count": 9,
        "message": 'Error creating: pods "sweep-w-0-0-x" is forbidden: exceeded quota: team, requested: '
        "requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
        "firstTimestamp": "2026-10-05T08:00:03Z",
        "lastTimestamp": "2026-10-05T08:10:03Z",
        "source": {"component": "job-controller"},
    }
    items.append(event)


def _place(one: dict[str, Any]) -> dict[str, str]:
    return {key: one["metadata"][key] for key in ("name", "namespace", "uid")}


def test_events_about_the_jobs_of_a_set_are_heard(tmp_path: Path):
    """Pods are refused to the controller of Jobs, which says so of the Job, not of the set."""
    (found,) = _asked(LAST_POD, tmp_path, _only_the_job_is_heard)
    told = diagnose.diagnose(found)
    assert [one.code for one in told.suspects][:1] == ["quota"], diagnose.render(told)
    assert "ResourceQuota team" in diagnose.render(told)


@pytest.mark.parametrize("kind", ["JobSet", "Job"])
def test_an_unknown_condition_is_told(kind: str, tmp_path: Path):
    """What a set, or a Job of it, says in words that are not known is no good news."""

    def strange(items: Items) -> None:
        (one,) = _of(items, kind)
        one["status"]["conditions"] = [{"type": "Bewitched", "status": "True"}]

    (found,) = _asked(LAST_POD, tmp_path, strange)
    assert "Bewitched" in diagnose.render(diagnose.diagnose(found), full=True)
    assert not diagnose.diagnose(found).complete


def _wrapped(items: Items) -> None:
    """Let an AppWrapper own the TrainJob, and the queue be named there."""
    (job,), (workload,) = _of(items, "TrainJob"), _of(items, "Workload")
    version = "workload.codeflare.dev/v1beta2"
    owner = {
        "apiVersion": version,
        "kind": "AppWrapper",
        "name": "wrap",
        "uid": "wrap-uid",
        "controller": True,
    }
    top = copy.deepcopy(job)
    top |= {"apiVersion": version, "kind": "AppWrapper", "spec": {"suspend": True}}
    top["metadata"] |= {"name": "wrap", "uid": "wrap-uid"}
    job["metadata"]["ownerReferences"] = [owner]
    workload["metadata"]["ownerReferences"] = [owner]
    items.append(top)


@pytest.mark.parametrize("asked", ["/", "trainjob/yv7", "jobset/yv7"])
@pytest.mark.parametrize(
    ("changes", "title"), [([], "TrainJob/yv7 -n atlas"), ([_wrapped], "AppWrapper/wrap -n atlas")]
)
def test_a_set_without_pods_is_its_owners(
    asked: str, changes: list[Callable[[Items], None]], title: str, tmp_path: Path
):
    """Whoever in the chain is asked for, the job that is queued answers, and its own set is no other job."""
    (found,) = _asked(TRAIN_JOB, tmp_path, *changes, job=asked)
    assert found.title == title
    assert not found.others
    assert diagnose.diagnose(found).suspects[0].code == "admitted-not-started"


def _owned(items: Items) -> None:
    """Let a TrainJob, wrapped in its turn, own the set whose pods run."""
    (jobset,) = _of(items, "JobSet")
    version = "trainer.kubeflow.org/v1alpha1"
    place = {"name": "sweep", "namespace": "atlas", "creationTimestamp": "2026-10-05T07:59:59Z"}
    wrap = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": {}}
    above = {"apiVersion": wrap["apiVersion"], "kind": "AppWrapper", "name": "wrap", "uid": "u-wrap"}
    items.append({**wrap, "metadata": {**place, "name": "wrap", "uid": "u-wrap"}})
    metadata = {**place, "uid": "u-train", "ownerReferences": [above]}
    items.append({"apiVersion": version, "kind": "TrainJob", "metadata": metadata, "spec": {}})
    jobset["metadata"]["ownerReferences"] = [
        {"apiVersion": version, "kind": "TrainJob", "name": "sweep", "uid": "u-train", "controller": True}
    ]


@pytest.mark.parametrize("asked", ["/", "trainjob/sweep", "appwrapper/wrap", "jobset/sweep", "job/sweep-w-0"])
def test_a_set_with_pods_is_one_subject(asked: str, tmp_path: Path):
    """Neither its Jobs nor what made it are subjects beside it; each of them can be asked for."""
    (found,) = _asked(LAST_POD, tmp_path, _owned, job=asked)
    assert found.title == "JobSet/sweep -n atlas"
