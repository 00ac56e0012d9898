"""TRN-004 to TRN-007 on recorded JobSets, and on what an attacker makes of them."""

import pytest

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import gangs, jobsets
from pytest_gpucluster.judge.trainer import failure_policy, stable_names, startup_order, success_policy
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.trainer_jobset import MUTANTS
from pytest_gpucluster.plain import names
from tests import recordings

ENDS, ORDER, NAMES = (recordings.embedded(name) for name in ("jobset-ends", "jobset-order", "jobset-names"))
ROWS = {
    "TRN-004": (success_policy.ends_the_set, ENDS),
    "TRN-005": (failure_policy.restarts_bounded, ENDS),
    "TRN-006": (startup_order.in_order, ORDER),
    "TRN-007": (stable_names.resolve, NAMES),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_recorded_sets_pass(row):
    """The finding tells of every set that it judged."""
    judge, evidence = ROWS[row]
    found = judge(evidence)
    assert found.verdict == "pass", found.observed
    for gang in gangs.gangs(evidence):
        assert gang.kind == names.JOBSET
        if row == "TRN-007":
            assert gang.name in found.observed


@pytest.mark.parametrize("row", ROWS)
def test_nothing_is_no_pass(row):
    """Evidence without JobSets decides nothing."""
    judge, _ = ROWS[row]
    assert judge(Evidence((), header={"given": {}}), {}).verdict == "inconclusive"


def test_a_declared_controller_that_is_absent_is_named():
    """Both ways of being absent fail, and the fix says what to install."""
    for mutant in ("jobset.not-served", "jobset.silent"):
        for judge, evidence in ROWS.values():
            found = judge(MUTANTS[mutant].act(evidence), evidence.given)
            assert (found.verdict, found.violation) == ("fail", True)
            assert "install JobSet" in found.causes[0].fix


def test_a_webhook_that_does_not_answer_is_named():
    """The answer of the API server tells it from a controller that is absent."""
    message = (
        'Internal error occurred: failed calling webhook "mjobset.kb.io": no endpoints available for service'
    )

    def down(data):
        data.update(code=500, status={"message": message})

    gone = MUTANTS["jobset.not-served"].act(ENDS)
    broken = base.responses(gone, lambda line: "JobSet/" in str(line.data.get("request")), down)
    found = success_policy.ends_the_set(broken, ENDS.given)
    assert found.verdict == "fail"
    assert "mjobset.kb.io" in found.causes[0].text


def test_two_controllers_are_told_from_a_restart():
    """A Job that is made twice in one attempt is no restart; in two attempts it is."""
    found = failure_policy.restarts_bounded(MUTANTS["jobset.made-twice"].act(ENDS), ENDS.given)
    assert found.verdict == "fail"
    assert "two controllers" in found.causes[0].text


def test_pods_of_a_set_are_members_of_one_gang():
    """Its Jobs are no gangs of their own, and places are told apart over all of them."""
    (gang,) = gangs.gangs(NAMES)
    assert (gang.kind, gang.size) == (names.JOBSET, 5)
    assert len({pod.slot for pod in gang.pods}) == 5
    assert {pod.task for pod in gang.pods} == {"leader", "worker"}
    assert len(jobsets.children(NAMES, gang)) == 3


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ([], "RestartJobSet"),
        ([{"action": "FailJobSet", "targetReplicatedJobs": ["second"]}], "RestartJobSet"),
        ([{"action": "FailJobSet", "targetReplicatedJobs": ["first"]}], "FailJobSet"),
        ([{"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}], "FailJobSet"),
        ([{"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}], "RestartJobSet"),
        ([{"action": "RestartJobSetAndIgnoreMaxRestarts"}, {"action": "FailJobSet"}],
         "RestartJobSetAndIgnoreMaxRestarts"),
    ],
)  # fmt: skip
def test_the_first_rule_that_fits_a_failed_job_decides(rules, wanted):
    """By target, reason and message, in the order of the rules."""
    gang = next(one for one in gangs.gangs(ENDS) if one.name.endswith("-bounded"))
    failed = [child for child in jobsets.children(ENDS, gang) if child.failed][:1]
    assert failure_policy.action({"rules": rules}, failed) == wanted


@pytest.mark.parametrize("row", ROWS)
def test_other_owners_make_no_members(row):
    """Jobs that another object owns are no Jobs of the set: without any, nothing passes."""
    judge, evidence = ROWS[row]

    def another(obj):
        for owner in obj["metadata"].get("ownerReferences") or []:
            owner["uid"] = "another"

    changed = base.each(evidence, lambda line: line.kind == names.BATCH_JOB, another)
    assert judge(changed, evidence.given).verdict != "pass"


def test_names_of_another_set_are_no_look_up_of_its_own():
    """A member that looked up five other names has not looked up its own set's."""

    def elsewhere(fact):
        fact["names"] = {
            name.replace("jobset-names-", "other-"): told for name, told in fact["names"].items()
        }

    changed = base.on("waited", elsewhere)(NAMES)
    assert stable_names.resolve(changed, NAMES.given).verdict == "inconclusive"
