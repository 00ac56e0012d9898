"""INV-001 where native gangs are declared: each part that is absent is named with its feature gate."""

import pytest

from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.plain import names
from tests import recordings

STREAM = "native-job-gang-fits"
GIVEN = {"scheduler": "native"}
KEPT = {"schedulingGroup": {"podGroupName": "probe"}}
ASKED = {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 1}}}}


def answer(case, *, code=201, spec=None):
    """Return an answer of the API server."""
    told = {"object": {"spec": spec}} if code < 400 else {"status": {"message": "no"}}
    return {"t": 0.0, "type": "RESPONSE", "request": f"ask {case}", "case": case, "code": code, **told}


def lines(*, api=200, pod=KEPT, job=ASKED, without=(), change=None):
    """Return a recorded Job gang with the answers that the probe gets; parts may be taken away or changed."""
    found = []
    for line in recordings.stream(STREAM).lines:
        if line.kind and line.kind not in without:
            obj = change(line.kind, dict(line.object)) if change else line.object
            found.append({"t": line.t, "type": line.type, "kind": line.kind, "object": obj})
    api_kind = f"api:{names.NATIVE_POD_GROUP}"
    return [
        *found,
        answer(api_kind, code=api, spec={}),
        answer("dry-run", spec=pod),
        answer("dry-run-job", spec=job),
    ]


def basic(kind, obj):
    """Give a PodGroup the basic policy: what the Job controller makes for a Job that asks for no gang."""
    return {**obj, "spec": {"schedulingPolicy": {"basic": {}}}} if kind == names.NATIVE_POD_GROUP else obj


def silent(kind, obj):
    """Take a PodGroup's status away: no scheduler looked at it."""
    return {**obj, "status": {}} if kind == names.NATIVE_POD_GROUP else obj


@pytest.mark.parametrize(
    ("more", "verdict", "told", "fix"),
    [
        ({}, "pass", "PodGroupInitiallyScheduled=True", ""),
        ({"api": 404}, "fail", "is not served (HTTP 404)", "--runtime-config=scheduling.k8s.io/v1beta1=true"),
        (
            {"pod": {"containers": []}},
            "fail",
            "came back without spec.schedulingGroup",
            "GenericWorkload=true",
        ),
        ({"job": {"parallelism": 1}}, "fail", "came back without spec.scheduling", "WorkloadWithJob=true"),
        ({"without": (names.NATIVE_POD_GROUP,)}, "fail", "no PodGroup for", "WorkloadWithJob=true"),
        ({"change": basic}, "fail", "has the basic policy", "spec.schedulingPolicy"),
        ({"change": silent}, "fail", "had no condition for", "GenericWorkload=true"),
    ],
)
def test_each_part_is_named(more, verdict, told, fix):
    """The finding says what came back wrong and which gate to switch on."""
    evidence = recordings.evidence_of(lines(**more))
    found = scheduler_parts.scheduler_answers(evidence, GIVEN)
    assert found.verdict == verdict, found.observed
    assert told in found.observed
    assert fix in "".join(cause.fix for cause in found.causes)


def test_a_scheduler_that_never_answers_fails():
    """After a wait that ended in vain, silence counts: an unanswered PodGroup is a scheduler without the feature."""
    end = recordings.stream(STREAM).end
    note = {
        "t": end,
        "type": "NOTE",
        "note": "timed-out",
        "what": "the scheduler says what it thinks",
        "seconds": 5,
    }
    found = scheduler_parts.scheduler_answers(recordings.evidence_of([*lines(change=silent), note]), GIVEN)
    assert found.verdict == "fail"
    assert "GenericWorkload" in found.causes[0].text


def test_a_job_whose_pods_come_without_a_group_fails():
    """The Job controller makes pods after their PodGroup: members in none were made without."""

    def alone(kind, obj):
        if kind != "Pod":
            return obj
        return {**obj, "spec": {key: value for key, value in obj["spec"].items() if key != "schedulingGroup"}}

    evidence = recordings.evidence_of(lines(without=(names.NATIVE_POD_GROUP,), change=alone))
    found = scheduler_parts.scheduler_answers(evidence, GIVEN)
    assert found.verdict == "fail"
    assert "WorkloadWithJob" in found.causes[0].fix
