"""A training queue that is held: two rows are pending promotion, which is neither green nor excused."""

from datetime import timedelta

import pytest

from pytest_gpucluster.acceptance import text

from .toy import ago, attempt, decide, profile_of, run, wants

HELD = {"conformance_queue": "conformance"}
ROWS = ("INV-005", "GANG-001")


def profile():
    """Return a profile whose queue is held."""
    return profile_of(**HELD)


def night(name="night", *, queue="not_applicable", gang="pass", at=None, held=True):
    """Return a run of both rows, while the queue was held or when it was open."""
    at = at or ago(hours=1)
    rows = attempt("INV-005", queue, at=at), attempt("GANG-001", gang, at=at)
    return run(name, *rows, profile=HELD if held else {"conformance_queue": None})


def test_what_only_an_open_queue_shows_is_pending():
    """The gate is open, both rows are listed with their reason, and no purpose is called shown."""
    made = decide([night()], wants(*ROWS), profile=profile())
    assert made.open
    assert dict(made.pending) == {
        "INV-005": "default is held: promote judges it when it is open",
        "GANG-001": "it passed in conformance; in default, which is held, promote runs it",
    }
    assert not made.excused
    assert made.purposes["inventory"] == "1 row pending promotion"
    assert made.as_dict()["pending"] == dict(made.pending)
    told = "\n".join(text.lines(made))
    assert "pending     INV-005: default is held" in told
    assert "gate        open, until" in told
    assert "pending promotion: it passed in conformance" in text.markdown(made)


def test_beside_rows_that_passed_the_purpose_says_so():
    """Yes, but for what is pending."""
    both = run(
        "night", attempt("INV-005", "not_applicable"), attempt("INV-001"), attempt("GANG-001"), profile=HELD
    )
    made = decide([both], wants("INV-001", *ROWS), profile=profile())
    assert made.purposes["inventory"] == "yes, but for 1 row pending promotion"


@pytest.mark.parametrize(
    ("found", "closes"),
    [
        (night(queue="fail"), {"INV-005"}),
        (night(gang="fail"), {"GANG-001"}),
        (night(gang="inconclusive"), {"GANG-001"}),
        (night(at=ago(days=8)), {"GANG-001"}),
    ],
)
def test_what_failed_or_is_too_old_is_not_pending(found, closes):
    """A quota that does not fit, a gang that did not run even elsewhere, a run of last week."""
    made = decide([found], wants(*ROWS, age=timedelta(days=7)), profile=profile())
    assert {each.what for each in made.closers} == closes


def test_after_a_trial_nothing_is_pending():
    """It ran in the open queue; that it says another conformance_queue is no change of the profile."""
    trial = night("trial", queue="pass", held=False, at=ago(minutes=5))
    made = decide([night(), trial], wants(*ROWS), profile=profile())
    assert made.open
    assert not made.ignored
    assert not made.pending


def test_an_older_trial_does_not_stand_for_the_queue_of_today():
    """The newest attempt decides: what passed before may have been another queue."""
    trial = night("trial", queue="pass", held=False, at=ago(days=2))
    made = decide([trial, night()], wants(*ROWS), profile=profile())
    assert {*made.pending} == {*ROWS}


def test_a_queue_that_is_not_held_has_nothing_pending():
    """A run in another queue says nothing of it: both rows close the gate."""
    made = decide([night()], wants(*ROWS), profile=profile_of(conformance_queue=None))
    assert not made.pending
    assert {each.what for each in made.closers} == {*ROWS}


def test_what_passed_elsewhere_says_nothing_of_a_queue_that_is_not_held_any_more():
    """No promotion would run the gang in it: it is not decided. A failure stays one."""
    made = decide([night()], wants("GANG-001"))
    assert not made.open
    assert [each.why for each in made.closers] == [
        "undecided: inconclusive: it passed in the queue conformance; nothing ran in default"
    ]
    assert decide([night(), night("before", at=ago(hours=2), held=False)], wants("GANG-001")).open
    assert decide([night(gang="fail")], wants("GANG-001")).rows["GANG-001"].state == "fail"
