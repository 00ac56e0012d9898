"""PodGroups of KAI and of the coscheduling plugin, on constructed streams only: never taken for Volcano's."""

import pytest

from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs, schedulers
from pytest_gpucluster.plain import names

OTHERS = [
    ("scheduling.run.ai/v2alpha2", "kai-scheduler", {"pod-group-name": "pg-train"}),
    (
        "scheduling.x-k8s.io/v1alpha1",
        "scheduler-plugins-scheduler",
        {"scheduling.x-k8s.io/pod-group": "pg-train"},
    ),
]


def _line(index, kind, obj):
    obj["metadata"] |= {"namespace": "a", "uid": f"{kind}-{obj['metadata']['name']}"}
    return Line(index=index, t=float(index), type="ADDED", kind=kind, object=obj, data={})


def _stream(api_version, scheduler, labels):
    """Return a batch Job of two pods with a PodGroup of another scheduler."""
    group = {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": "pg-train"},
        "spec": {"minMember": 2},
    }
    job = {"metadata": {"name": "train"}, "spec": {"parallelism": 2, "completions": 2}}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": "Job.batch-train",
        "controller": True,
    }
    pods = [
        {
            "metadata": {"name": f"train-{n}", "labels": labels, "ownerReferences": [owner]},
            "spec": {"schedulerName": scheduler},
            "status": {"phase": "Pending"},
        }
        for n in range(2)
    ]
    kinds = [(names.kind_key_of(group), group), (names.BATCH_JOB, job), *(("Pod", pod) for pod in pods)]
    return Evidence([_line(index, kind, obj) for index, (kind, obj) in enumerate(kinds)])


@pytest.mark.parametrize(("api_version", "scheduler", "labels"), OTHERS)
def test_a_group_of_another_scheduler_is_no_group_of_volcano(api_version, scheduler, labels):
    """It is recorded under its own key, it is no gang by itself, and its pods are not read as Volcano's."""
    evidence = _stream(api_version, scheduler, labels)
    assert not evidence.of_kind(names.POD_GROUP)
    (gang,) = gangs.gangs(evidence)
    assert (gang.kind, gang.groups, gang.size) == (names.BATCH_JOB, (), 2)
    read = schedulers.placing(gang.scheduler, native_gang=False, volcano_group=bool(gang.groups))
    assert (read.name, read.whole) == (scheduler, False)
