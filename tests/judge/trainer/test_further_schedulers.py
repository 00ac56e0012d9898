"""TRN-003: each further scheduler by itself, right and wrong."""

import dataclasses

import pytest

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge.trainer import further_schedulers, jobset_cases
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.trainer_jobset import MUTANTS
from pytest_gpucluster.report import decisions
from tests import recordings
from tests.defects import matrix

FURTHER = recordings.embedded("further")


def test_native_gangs_hold_on_the_embedded_cluster():
    """The finding names the scheduler and what held; its numbers say whose they are."""
    found = further_schedulers.further_hold(FURTHER, FURTHER.given)
    assert found.verdict == "pass"
    assert found.observed.startswith("native: ")
    for word in further_schedulers.JUDGES:
        assert f"{word} holds" in found.observed
    assert {number.name.partition(":")[0] for number in found.numbers} == {
        "native",
        "jobset-native",
        "jobset-volcano",
    }


def test_nothing_tried_is_not_decided():
    """A profile without further schedulers has no such evidence; evidence without gangs decides nothing."""
    empty = Evidence((), header={"given": {}})
    assert further_schedulers.further_hold(empty, {}).verdict == "inconclusive"


def test_two_schedulers_are_judged_apart():
    """Of two schedulers of which one holds, the other one is named, and what held of the first is told."""
    start, end = FURTHER.lines[0].t, FURTHER.end
    shift = end - start + 1.0

    def renamed(line):
        data = {**line.data}
        if data.get("note") == "tries":
            data["scheduler"] = "kueue"
        return dataclasses.replace(line, t=line.t + shift, data=data)

    # The second scheduler's gangs come after the first's: the same lines, but none of them ever has a pod bound.
    again = [renamed(line) for line in FURTHER.lines if line.kind not in ("Pod", "Node")]
    roles = dict(FURTHER.given["roles"])
    roles |= {role.replace("native:", "kueue:"): who for role, who in roles.items()}
    lines = [dataclasses.replace(line, index=n) for n, line in enumerate([*FURTHER.lines, *again])]
    both = Evidence(lines, header=FURTHER.header, spans=FURTHER.spans)
    found = further_schedulers.further_hold(both, {**FURTHER.given, "roles": roles})
    assert found.verdict == "inconclusive"
    assert found.observed.startswith("kueue, ")
    assert "native: two gangs for the room of one holds" in found.observed


@pytest.mark.parametrize(
    ("stream", "roles", "verdict"),
    [
        ("native-two-job-gangs-room-for-one", ("left", "right"), "pass"),
        ("native-two-jobs-without-policy", ("left", "right"), "inconclusive"),
    ],
)
def test_runs_whole_on_recorded_gangs(stream, roles, verdict):
    """Of two gangs the first that was whole must have run whole; half started jobs never were."""
    evidence = recordings.stream(stream)
    given = {"roles": {role: [{"kind": "Job.batch", "name": role, "uid": ""}] for role in roles}}
    assert further_schedulers.runs(evidence, given).verdict == verdict


WAYS = tuple(FURTHER.given["schedulers"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lost", ["note", "roles"])
def test_a_way_to_write_gangs_that_was_not_tried_is_no_pass(way, lost):
    """Neither its note nor its roles may be missing; what others left behind is not taken for its gangs."""
    given = {**FURTHER.given, "roles": dict(FURTHER.given["roles"])}
    evidence = FURTHER
    if lost == "note":
        evidence = base.without(
            FURTHER, lambda line: line.data.get("note") == "tries" and line.data["scheduler"] == way
        )
    else:
        given["roles"] = {role: who for role, who in given["roles"].items() if role.partition(":")[0] != way}
    found = further_schedulers.further_hold(evidence, given)
    assert found.verdict == "inconclusive", found.observed
    assert f"no gang of {way} was tried" in found.observed


def test_a_controller_that_makes_no_pods_is_not_the_scheduler():
    """Of JobSets of which nobody made anything, the cause is JobSet's controller, whoever was to place them."""
    found = further_schedulers.further_hold(MUTANTS["jobset.silent"].act(FURTHER), FURTHER.given)
    assert found.verdict == "fail"
    assert found.causes == (jobset_cases.SILENT,)


@pytest.mark.parametrize("way", ["jobset-native", "jobset-volcano"])
def test_members_of_a_set_that_name_another_scheduler_rest_nothing(way):
    """A JobSet's template says who is to place its pods, like that of a Job."""
    row = next(one for one in matrix.rows() if one.id == "TRN-003")
    changed = base.each(
        FURTHER,
        lambda line: line.kind == "Pod" and f"further-{way}-" in line.name and "blocker" not in line.name,
        lambda obj: obj["spec"].update(schedulerName="another"),
    )
    assert decisions.decide(row, changed).verdict == "inconclusive"
