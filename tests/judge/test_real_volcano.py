"""What real Volcano showed that judges read wrongly: each kind with the verdict that is right."""

import dataclasses

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import read
from pytest_gpucluster.mutants import base
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.defects import matrix

ROWS = {row.id: row for row in matrix.rows()}


@pytest.mark.parametrize("spread", [0.25, 5.0, 60.0])
def test_how_long_a_gang_may_take_to_be_bound_does_not_excuse_what_preemption_leaves(spread):
    """A bind spread as long as the window, as `discover` suggests, leaves the violation one."""
    act = mutants.MUTANTS["refusal.take-below-minimum"].act
    evidence = act(matrix.evidence("priorities"))
    given = {**evidence.given, "spread": spread, "bind_spread": spread}
    assert decisions.decide(ROWS["REF-006"], evidence, given).verdict is Verdict.FAIL


def test_who_was_refused_at_enqueue_was_not_passed_over():
    """Priority chooses among those in the queue; who never got past enqueue shows nothing, though another was bound."""
    evidence = read(recordings.FOLDER / "kind" / "v1.37.2" / "priorities-refused-at-enqueue.jsonl")
    finding = ROWS["LIFE-013"].judge(evidence, evidence.given)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "priorities-late was refused at enqueue by volcano (queue resource quota" in finding.observed


def test_who_was_there_when_the_lower_one_was_let_in_was_passed_over():
    """The same, had the gang of high priority been there a whole period before: then priority was not looked at."""
    evidence = read(recordings.FOLDER / "kind" / "v1.37.2" / "priorities-refused-at-enqueue.jsonl")
    late = base.with_lines(
        evidence,
        (
            dataclasses.replace(line, t=line.t - 1.0)
            if line.kind == "PodGroup" and line.name.startswith("priorities-late") and line.type == "ADDED"
            else line
            for line in evidence.lines
        ),
    )
    assert ROWS["LIFE-013"].judge(late, evidence.given).verdict is Verdict.FAIL


@pytest.mark.parametrize("code", [400, 403, 500])
def test_a_create_that_was_refused_is_said(code):
    """Where no member was made, the answer to the create call is what there is to say."""
    message = "can only submit job to queue with state `Open`, queue `default` status is `Closing`"
    lines = [
        {
            "t": 0.2, "type": "RESPONSE", "request": "create Job.batch.volcano.sh/healthy", "code": code,
            "status": {"message": message},
        },
        {"t": 0.3, "type": "NOTE", "note": "end"},
    ]  # fmt: skip
    evidence = recordings.evidence_of(lines, header={"given": {"subject": "healthy"}})
    finding = decisions.decide(ROWS["GANG-001"], evidence)
    assert finding.verdict is not Verdict.PASS
    assert f"answered {code}" in finding.observed
    assert "Closing" in finding.observed
