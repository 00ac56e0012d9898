"""Workload kinds over every scheduler: what the object carries, what must be beside it, what cannot be written."""

import dataclasses

import pytest

from pytest_gpucluster.plain import names, workload_kinds
from pytest_gpucluster.workload import GangSpec, Role, WorkloadError, dialect_for, has_ended, members_of
from pytest_gpucluster.workload.overlay import apply_overlay, pod_templates
from tests.workload.test_dialect import QUESTIONS

KINDS = tuple(kind for kind in workload_kinds.NAMES if kind != workload_kinds.JOB)
COMBINATIONS = [(kind, scheduler) for kind in KINDS for scheduler in workload_kinds.SCHEDULERS[kind]]
SPEC = GangSpec("smoke", roles=(Role("worker", 4, ("sleep", "1")),), resources={"x/y": 2}, image="python")


@pytest.mark.parametrize(("kind", "scheduler"), COMBINATIONS)
def test_each_combination_answers_every_question(kind, scheduler):
    """A question that a combination leaves unanswered is told here, and not in the middle of a run."""
    spoken = dialect_for(scheduler, "team-a", kind)
    assert [question for question in QUESTIONS if not hasattr(spoken, question)] == []
    assert (spoken.name, spoken.workload) == (scheduler, kind)
    assert spoken.kind in spoken.kinds
    assert spoken.answers_on in spoken.kinds
    assert len(set(spoken.kinds)) == len(spoken.kinds)


@pytest.mark.parametrize(("kind", "scheduler"), COMBINATIONS)
def test_each_member_asks_the_scheduler_for_the_gang(kind, scheduler):
    """The gang of an object of another API is what its scheduler places whole: a queue's label or a PodGroup."""
    spoken = dialect_for(scheduler, "team-a", kind)
    manifest, beside = spoken.write(SPEC), spoken.before(SPEC)
    asking = dialect_for(scheduler, "team-a").asking(SPEC)
    assert manifest["metadata"].get("labels", {}) == dict(asking.labels)
    assert [names.kind_key_of(one) for one in beside] == list(spoken.companions)
    pods = list(pod_templates(manifest))
    assert pods
    for metadata, pod in pods:
        assert pod["schedulerName"] == spoken.scheduler
        assert metadata.get("annotations", {}) == dict(asking.annotations)
        assert {field: pod[field] for field in asking.pod} == dict(asking.pod)
    assert members_of(spoken.kind, manifest) == SPEC.members
    assert not has_ended(spoken.kind, manifest)


def test_the_queue_of_a_combination_is_that_of_its_scheduler():
    """Scenarios replace the queue of a dialect; the object must then name the new one."""
    spoken = dataclasses.replace(dialect_for("volcano", "old", "jobset"), queue="new")
    (group,) = spoken.before(SPEC)
    assert group["spec"]["queue"] == "new"


def test_a_jobset_has_one_replicated_job_per_role_and_the_one_that_ends_it_as_target():
    """Roles that differ need no pods of ours; the master's end is the end of the set."""
    roles = (Role("master", 1, ("x",), ends_job=True), Role("worker", 3, ("x",)))
    spec = GangSpec("smoke", roles=roles, plugins={"svc": ()}, subdomain="net", time_to_live=5)
    body = dialect_for("native", workload="jobset").write(spec)["spec"]
    assert [(one["name"], one["template"]["spec"]["parallelism"]) for one in body["replicatedJobs"]] == [
        ("master", 1),
        ("worker", 3),
    ]
    assert body["successPolicy"] == {"operator": "Any", "targetReplicatedJobs": ["master"]}
    assert body["network"]["subdomain"] == "net"
    assert body["ttlSecondsAfterFinished"] == 5
    assert "subdomain" not in body["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("scheduler", "kind", "said"),
    [
        ("volcano", "jobsets", "no workload kind 'jobsets'; did you mean 'jobset'"),
        ("lsf", "jobset", "no way to write a gang for scheduler 'lsf'"),
        ("kueue", "jobset", "no way to write a gang as jobset for scheduler 'kueue'"),
    ],
)
def test_what_does_not_exist_is_said_with_what_does(scheduler, kind, said):
    """A workload kind or a combination that nobody wrote is one clear line."""
    with pytest.raises(WorkloadError, match=said):
        dialect_for(scheduler, workload=kind)


def test_what_a_jobset_cannot_express_is_said():
    """Plugins of Volcano, minimums where the scheduler knows none."""
    plugged = GangSpec("a", roles=(Role("w", 2, ("x",)),), plugins={"pytorch": ()})
    with pytest.raises(WorkloadError, match="no job plugins"):
        dialect_for("volcano", workload="jobset").write(plugged)
    least = GangSpec("a", roles=(Role("w", 2, ("x",)),), min_available=1)
    with pytest.raises(WorkloadError, match="no minimum below all members"):
        dialect_for("default-scheduler", workload="jobset").write(least)


def test_the_overlay_reaches_every_template_of_an_object_made_of_jobs():
    """Tolerations and secrets of a site are on the pods of a JobSet too."""
    manifest = dialect_for("native", workload="jobset").write(SPEC)
    laid = apply_overlay(manifest, {"spec": {"tolerations": [{"key": "gpu"}]}})
    assert [pod["tolerations"] for _, pod in pod_templates(laid)] == [[{"key": "gpu"}]]
