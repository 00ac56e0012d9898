"""Judges of elastic jobs: neighbours are told apart, and each has its own cause and fix."""

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.judge.elastic import (
    client,
    floor,
    growth,
    inert,
    presuppositions,
    resume,
    shrink,
    storm,
)
from pytest_gpucluster.mutants import base
from tests import recordings

TRAINING, ENDS = "elastic-training", "elastic-ends"


def found(judge, scenario, mutant="", **told):
    """Return what a judge finds on a recording, changed by a mutant and told something else of the profile."""
    evidence = recordings.embedded(scenario)
    if mutant:
        evidence = mutants.MUTANTS[f"elastic.{mutant}"].act(evidence)
    return judge(evidence, {**evidence.given, "elastic": {**evidence.given["elastic"], **told}})


@pytest.mark.parametrize(
    ("judge", "scenario", "mutant", "verdict", "text"),
    [
        (shrink.goes_on, TRAINING, "reforms-late", "fail", "the bound is 40 s"),
        (shrink.goes_on, TRAINING, "survivors-end", "fail", "that were left ended"),
        (shrink.goes_on, TRAINING, "ghost", "fail", "with the rank of the lost pod"),
        (shrink.goes_on, TRAINING, "newcomer-at-once", "inconclusive", "was not tried"),
        (shrink.goes_on, TRAINING, "no-step", "inconclusive", "took no step"),
        (growth.grows, TRAINING, "grows-late", "fail", "the bound is 40 s"),
        (growth.grows, TRAINING, "not-taken-in", "inconclusive", "did not take it in"),
        (floor.stalls_bounded, TRAINING, "trains-below", "fail", "a world of 1 trains"),
        (floor.stalls_bounded, TRAINING, "waits-long", "fail", "waited longer than"),
        (floor.stalls_bounded, TRAINING, "gives-up-with-0", "fail", "ended with 0"),
        (floor.stalls_bounded, TRAINING, "gives-up-silently", "fail", "does not say"),
        (storm.bounded, ENDS, "started-too-often", "fail", "allowed are 3"),
        (storm.bounded, ENDS, "neighbour-reforms", "fail", "at the same store, formed anew"),
        (inert.ends_with_its_host, ENDS, "goes-on-without-host", "fail", "a world of 1 went on"),
        (resume.continues, TRAINING, "begins-anew", "fail", "began anew at step 1"),
        (resume.continues, TRAINING, "volume-apart", "fail", "checkpoints of different steps"),
        (resume.continues, TRAINING, "loss-differs", "fail", "that of unbroken training"),
        (client.in_the_image, TRAINING, "client-missing", "fail", "No module named 'etcd'"),
    ],
)
def test_each_neighbour_has_its_own_words(judge, scenario, mutant, verdict, text):
    """Verdict and text of one departure."""
    finding = found(judge, scenario, mutant)
    assert (str(finding.verdict), text in finding.observed) == (verdict, True), finding.observed


def test_causes_are_told_apart():
    """Neighbours of one verdict have different first causes."""
    firsts = {
        mutant: found(shrink.goes_on, TRAINING, mutant).causes[0]
        for mutant in ("reforms-late", "survivors-end", "ghost")
    }
    assert len(set(firsts.values())) == len(firsts)
    apart = [
        found(resume.continues, TRAINING, m).causes[0]
        for m in ("begins-anew", "volume-apart", "loss-differs")
    ]
    assert len(set(apart)) == len(apart)
    assert firsts["ghost"] is shrink.GHOST


def test_without_a_bound_a_late_world_is_measured_and_not_judged():
    """Nothing is declared of how fast it must be: slow is a figure, no violation."""
    finding = found(shrink.goes_on, TRAINING, "reforms-late", reform=None)
    assert str(finding.verdict) == "pass"
    first = next(number for number in finding.numbers if number.name == "time until its first step")
    assert first.bound is None
    assert first.value is not None
    assert first.value > 60


def test_a_world_that_does_not_form_in_the_declared_time_fails_and_before_it_is_undecided():
    """The same silence, watched for longer than the bound and for less."""
    late = {
        bound: str(found(growth.grows, TRAINING, "not-taken-in", reform=bound).verdict)
        for bound in (1.0, 900.0)
    }
    assert late == {1.0: "fail", 900.0: "inconclusive"}


def test_what_elasticity_saved_stands_beside_what_a_job_of_fixed_size_loses():
    """Both figures say how they came about; the fixed one counts until its worker could be placed again."""
    numbers = {number.name: number for number in found(shrink.goes_on, TRAINING).numbers}
    lost, fixed = numbers["steps lost"], numbers["steps that a job of fixed size loses"]
    assert lost.value is not None
    assert fixed.value is not None
    assert 0 < lost.value < fixed.value
    assert fixed.origin.startswith("computed")


@pytest.mark.parametrize(
    ("kind", "error", "cause"),
    [
        ("no-v2", "etcd 3.6.4 answered 404 to /v2/keys", presuppositions.NO_V2),
        ("garbage", "it answered b'SSH-' to the greeting of TCPStore", presuppositions.OTHER),
        ("unreachable", "[Errno 111] Connection refused", presuppositions.UNREACHABLE),
        ("unresolved", "[Errno -2] Name or service not known", presuppositions.UNRESOLVED),
    ],
)
def test_a_store_that_does_not_answer_is_the_prerequisite_that_failed(kind, error, cause):
    """Each with what was found, and its own fix."""
    told = {"ok": False, "kind": kind, "error": error}
    evidence = base.on("elastic-endpoint", lambda word: word.update(told))(recordings.embedded(TRAINING))
    state = presuppositions.store_answers(evidence, evidence.given)
    assert (state.held, state.causes) == (False, (cause,))
    assert error in state.observed


def test_one_worker_that_asked_too_early_is_no_fault_of_the_store():
    """The others were answered."""
    told = {"ok": False, "kind": "unreachable", "error": "refused"}
    evidence = base.on("elastic-endpoint", lambda w: w.update(told), alone=True)(
        recordings.embedded(TRAINING)
    )
    assert presuppositions.store_answers(evidence, evidence.given).held is True
