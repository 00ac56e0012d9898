"""Rows on what kubectl printed in a namespace where other Jobs had run before: nobody says which Job is meant."""

import json

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import read
from tests import recordings

MADE, STARTED, ENDED = "2026-11-28T11:00:00Z", "2026-11-28T11:00:05Z", "2026-11-28T11:29:08Z"
VOLCANO = "batch.volcano.sh/v1alpha1"


def job_of_earlier(phase="Completed", api=VOLCANO):
    """Return a Job of four members that is over, as a watch tells it first."""
    template = {"spec": {"containers": [{"name": "main", "image": "x"}], "schedulerName": "volcano"}}
    spec = {
        "minAvailable": 4,
        "schedulerName": "volcano",
        "tasks": [{"name": "w", "replicas": 4, "template": template}],
    }
    status = {"state": {"phase": phase, "lastTransitionTime": ENDED}, "succeeded": 1}
    if api != VOLCANO:
        spec = {"parallelism": 4, "completions": 4, "template": template}
        status = {"conditions": [{"type": phase, "status": "True", "lastTransitionTime": ENDED}]}
    meta = {"name": "old", "namespace": "ml", "uid": "old", "creationTimestamp": MADE, "resourceVersion": "5"}
    return {"apiVersion": api, "kind": "Job", "metadata": meta, "spec": spec, "status": status}


def pod_of_earlier(index, *, ended=ENDED, api=VOLCANO):
    """Return a member that is left of it; kubelets of some versions do not tell when its container ended."""
    owner = {"apiVersion": api, "kind": "Job", "name": "old", "uid": "old", "controller": True}
    labels = (
        {"volcano.sh/job-name": "old", "volcano.sh/task-spec": "w"} if api == VOLCANO else {"job-name": "old"}
    )
    meta = {"name": f"old-w-{index}", "namespace": "ml", "uid": f"old-{index}", "creationTimestamp": MADE,
            "resourceVersion": str(10 + index), "labels": labels, "ownerReferences": [owner]}  # fmt: skip
    limits = {"limits": {"nvidia.com/gpu": "4"}}
    spec = {
        "nodeName": "gpu-0",
        "schedulerName": "volcano",
        "containers": [{"name": "m", "resources": limits}],
    }
    status = {"phase": "Succeeded", "startTime": STARTED}
    if ended:
        state = {"terminated": {"exitCode": 0, "startedAt": STARTED, "finishedAt": ended}}
        status["containerStatuses"] = [{"name": "m", "restartCount": 0, "state": state}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def printed(folder, stream, earlier):
    """Return evidence as kubectl prints it, a file a kind, of a stream whose objects do not bear our labels."""

    def plain(obj):
        labels = obj["metadata"].get("labels") or {}
        obj["metadata"]["labels"] = {key: value for key, value in labels.items() if "gpucluster" not in key}

    files: dict[str, list] = {}
    for obj in earlier:
        files.setdefault(obj["apiVersion"] + obj["kind"], []).append({"type": "ADDED", "object": obj})
    for line in mutants.each(stream, lambda line: bool(line.kind), plain).lines:
        if line.kind and line.kind != "Event":
            told = {"type": line.type, "object": line.object}
            files.setdefault(line.object["apiVersion"] + line.object["kind"], []).append(told)
    paths = []
    for number, told in enumerate(files.values()):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text("\n".join(json.dumps(one, indent=1) for one in told))
    return read(paths)


LEFT = {
    "one": [job_of_earlier(), pod_of_earlier(0)],
    "one-without-end": [job_of_earlier(), pod_of_earlier(0, ended="")],
    "three": [job_of_earlier(), *map(pod_of_earlier, range(3))],
    "none": [job_of_earlier()],
    "terminated": [job_of_earlier("Terminated"), pod_of_earlier(0)],
    "failed": [job_of_earlier("Failed"), pod_of_earlier(0)],
    "completing": [job_of_earlier("Completing"), pod_of_earlier(0)],
    "batch": [job_of_earlier("Complete", "batch/v1"), pod_of_earlier(0, api="batch/v1")],
    "batch-failed": [job_of_earlier("Failed", "batch/v1"), pod_of_earlier(0, api="batch/v1")],
    "pod-alone": [pod_of_earlier(0)],
}
"""What is left of a Job of earlier."""


@pytest.mark.parametrize("left", sorted(LEFT))
def test_a_job_of_earlier_does_not_speak_for_the_one_that_is_meant(tmp_path, left):
    """How it was placed was not seen; the finding is about the Job that was watched, and is what it was without."""
    evidence = printed(tmp_path, recordings.embedded("over-large"), LEFT[left])
    for row in ("GANG-001", "GANG-002", "GANG-004", "REF-001"):
        finding = recordings.JUDGES[row](evidence, evidence.given)
        assert not finding.violation, f"{row}: {finding.observed}"
        assert "old" not in finding.observed.replace("told", ""), f"{row}: {finding.observed}"


def test_a_job_that_still_runs_in_part_is_judged(tmp_path):
    """The same members of a Job that is not over are a gang of which three are missing."""
    runs = job_of_earlier("Running")
    pod = pod_of_earlier(0)
    pod["status"] = {"phase": "Running", "startTime": STARTED}
    evidence = printed(tmp_path, recordings.embedded("over-large"), [runs, pod])
    finding = recordings.JUDGES["GANG-002"](evidence, evidence.given)
    assert finding.violation
    assert "old had 1 of 4 members bound" in finding.observed
