"""A pause that the rendezvous was told to make is no fault: bounds come from declared time-outs, never a fixed one.

The public report `ela-below-minimum-ends-by-timeout` is one of the kind: a world between its minimum and its maximum
waits for last_call_timeout, workers below the minimum end after join_timeout with an error, and a Job that ends so is
right.
"""

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.judge.elastic import floor, growth, shrink
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.elastic_jobs import job_named
from tests import recordings

REPORT = {"last_call_timeout": 60, "join_timeout": 600}
"""What the report's agents were told."""
REFORMED, ENDED = 364.0 - 300.0, 1512.0 - 900.0
"""Seconds from the loss of a worker to the first step of the smaller world, and to the end of the workers below the
minimum."""


def losses(evidence):
    """Return when workers were lost, the first and the last time."""
    changes = [one.t for one in job_named(evidence, "-training").changes if one.what == elastic.LOST]
    return changes[0], changes[-1]


def lasting(number, seconds):
    """Return the recording in which what followed a loss (0 the first, -1 the last) came so many seconds later."""
    evidence = recordings.embedded("elastic-training")
    return base.later(evidence, losses(evidence)[number] + 0.5, seconds)


def found(judge, evidence, **declared):
    """Return what a judge finds if these time-outs are declared."""
    told = {**evidence.given["elastic"], "reform": None, **declared}
    return judge(evidence, {**evidence.given, "elastic": told})


def waited():
    """Return the seconds from the last loss of the recording to the end of its last worker."""
    finding = found(floor.stalls_bounded, lasting(-1, 0.0))
    (number,) = finding.numbers
    return number.value


def test_the_pauses_of_the_report_are_those_that_it_declares():
    """Re-formed a little after last_call_timeout, ended a little after join_timeout: both pass and tell the seconds."""
    smaller = found(shrink.goes_on, lasting(0, REFORMED), **REPORT)
    took = next(one for one in smaller.numbers if one.name == "time until its first step")
    assert (str(smaller.verdict), took.bound) == ("pass", None), smaller.observed
    assert took.value is not None
    assert took.value >= REFORMED

    below = found(floor.stalls_bounded, lasting(-1, ENDED - waited()), **REPORT)
    assert str(below.verdict) == "pass", below.observed
    assert f"the last gave up {ENDED:.1f} s after the loss (join_timeout 600 s)" in below.observed


@pytest.mark.parametrize("join", [60, 120, 600, 3600])
@pytest.mark.parametrize(
    ("part", "verdict"),
    [(0.9, "pass"), (1.0, "pass"), (1.4, "pass"), (1.7, "fail"), (3.0, "fail")],
)
def test_whoever_waits_below_the_minimum_is_measured_by_what_was_declared(join, part, verdict):
    """The same seconds are right with one time-out and too long with another."""
    finding = found(floor.stalls_bounded, lasting(-1, part * join - waited()), join_timeout=join)
    assert str(finding.verdict) == verdict, finding.observed
    if verdict == "fail":
        assert finding.causes == (floor.NO_BOUND,)


@pytest.mark.parametrize("mutant", ["gives-up-with-0", "gives-up-silently", "trains-below"])
def test_a_long_time_out_excuses_nothing_else(mutant):
    """An end with 0, without a word, or a world that is too small is a fault however long the wait may be."""
    evidence = mutants.MUTANTS[f"elastic.{mutant}"].act(lasting(-1, 500.0))
    assert str(found(floor.stalls_bounded, evidence, join_timeout=600).verdict) == "fail"


def test_whoever_still_waits_when_the_evidence_ends_is_not_decided():
    """A run that is cut off within the declared wait has shown no end."""
    evidence = lasting(-1, 0.0)
    end = losses(evidence)[1] + 5.0
    cut = base.with_lines(evidence, [line for line in evidence.lines if line.t <= end])
    assert str(found(floor.stalls_bounded, cut, join_timeout=600).verdict) == "inconclusive"


@pytest.mark.parametrize(("judge", "number"), [(shrink.goes_on, 0), (growth.grows, 0)])
def test_without_a_declared_bound_no_length_of_a_pause_is_a_hang(judge, number):
    """Ten minutes are a figure, not a fault, if nobody declared how fast it must be."""
    assert str(found(judge, lasting(number, 600.0)).verdict) == "pass"
