"""GANG-011: fields that send members of a gang to another scheduler."""

from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.judge.gang import job_faults, scheduler_name
from tests import recordings

JOB = "Job.batch.volcano.sh"


def _own() -> Any:
    return recordings.embedded("misnamed")


def test_own_scenario_names_both_fields():
    """The template in one Job, the Job itself in the other; what went to the other scheduler; how to mend it."""
    evidence = _own()
    finding = scheduler_name.field_named_control(evidence, evidence.given)
    assert finding.verdict == "pass"
    assert (
        "spec.tasks[1].template.spec.schedulerName of Job misnamed-in-template (task worker)"
        in finding.observed
    )
    assert "spec.schedulerName of Job misnamed-on-job names default-scheduler" in finding.observed
    assert "default-scheduler places misnamed-on-job-worker-0 one by one" in finding.observed
    assert [cause.fix.split()[0] for cause in finding.causes] == ["remove", "set"]


def test_a_whole_job_under_the_default_scheduler_is_named_too():
    """Where every pod went wrong the field is named all the same, but two schedulers it is not."""
    evidence = recordings.stream("h5-vcjob-fragmented-under-default-scheduler")
    fields = {
        fault.field: fault.value for fault in job_faults.scheduler_names(evidence, {"scheduler": "volcano"})
    }
    assert set(fields.values()) == {"default-scheduler"}
    assert scheduler_name.field_named_control(evidence, {}).verdict == "inconclusive"


@pytest.mark.parametrize(
    "folder", [f for f in recordings.folders() if not f.name.startswith("h")], ids=lambda folder: folder.name
)
def test_no_recorded_job_is_accused(folder: Any):
    """Every other recorded Job names one scheduler, and its pods went there."""
    assert job_faults.scheduler_names(recordings.stream(folder.name), {}) == ()


def _written(**spec: Any) -> Any:
    """Return an evidence with one Job, whose tasks are given as name -> schedulerName of the template or ""."""
    tasks = [
        {"name": name, "replicas": 1, "template": {"spec": {"schedulerName": at} if at else {}}}
        for name, at in spec.pop("tasks").items()
    ]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j", "uid": "u"},
        "spec": {**spec, "tasks": tasks},
    }  # fmt: skip
    return recordings.evidence_of([{"t": 0.0, "type": "ADDED", "object": job}])


ON_JOB, FIRST, SECOND = (
    "spec.schedulerName", "spec.tasks[0].template.spec.schedulerName", "spec.tasks[1].template.spec.schedulerName",
)  # fmt: skip
WRITTEN = [
    ({"schedulerName": "volcano", "tasks": {"a": "", "b": ""}}, {}, []),
    ({"schedulerName": "volcano", "tasks": {"a": "volcano", "b": "volcano"}}, {}, []),
    ({"schedulerName": "volcano", "tasks": {"a": "default-scheduler", "b": ""}}, {}, [FIRST]),
    ({"schedulerName": "volcano", "tasks": {"a": "", "b": "other"}}, {}, [SECOND]),
    ({"schedulerName": "default-scheduler", "tasks": {"a": "volcano", "b": ""}}, {}, [ON_JOB]),
    (
        {"schedulerName": "default-scheduler", "tasks": {"a": "volcano", "b": "default-scheduler"}},
        {},
        [ON_JOB, SECOND],
    ),
    ({"tasks": {"a": "volcano", "b": ""}}, {}, [ON_JOB]),
    ({"tasks": {"a": "volcano", "b": "volcano"}}, {}, []),
    ({"schedulerName": "gangs", "tasks": {"a": "", "b": "default-scheduler"}}, {}, [SECOND]),
    ({"schedulerName": "volcano", "tasks": {"a": ""}}, {"scheduler": "gangs"}, [ON_JOB]),
]


@pytest.mark.parametrize(("spec", "told", "fields"), WRITTEN)
def test_the_field_is_found_in_the_job_alone(spec: dict[str, Any], told: dict[str, Any], fields: list[str]):
    """No pod is needed: what is written decides, by the declared scheduler or by the one that is not the default."""
    found = job_faults.scheduler_names(_written(**spec), told)
    assert [fault.field for fault in found] == fields
    assert all(fault.cause.fix and fault.job == "j" for fault in found)


def test_pods_that_somebody_renamed_are_told():
    """The Job and its templates agree and the pods do not: a webhook between them is the cause."""
    evidence = mutants.MUTANTS["gang.pods-renamed"].act(_own())
    (first, second) = job_faults.scheduler_names(evidence, evidence.given)
    assert (first.field, second.field) == ("Pod spec.schedulerName", "Pod spec.schedulerName")
    assert "misnamed-in-template-worker-0" in first.observed
    assert "webhooks" in first.cause.fix
    finding = scheduler_name.field_named_control(evidence, evidence.given)
    assert finding.verdict == "fail"
    assert "but spec.tasks[1].template.spec.schedulerName is at fault" in finding.observed


def test_a_mismatch_that_is_not_there_shows_nothing():
    """An admission that makes the names equal leaves nothing to diagnose."""
    evidence = mutants.MUTANTS["gang.schedulers-agree"].act(_own())
    assert job_faults.scheduler_names(evidence, evidence.given) == ()
    finding = scheduler_name.field_named_control(evidence, evidence.given)
    assert finding.verdict == "inconclusive"
    assert "does not show the failure" in finding.observed


def test_a_recording_is_read_as_it_is():
    """Without being told of cases, the first Job with two schedulers is diagnosed; a missing case is named."""
    evidence = _own()
    assert scheduler_name.field_named_control(evidence, {}).verdict == "pass"
    finding = scheduler_name.field_named_control(evidence, {"cases": {"elsewhere": ON_JOB}})
    assert finding.verdict == "inconclusive"
    assert "the Job elsewhere is not in the evidence" in finding.observed
    assert scheduler_name.field_named_control(recordings.evidence_of([]), {}).verdict == "inconclusive"
