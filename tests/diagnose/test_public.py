"""Situations from public trouble reports: who is to blame comes first, what must be named is, who must be spared is."""

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Diagnosis, State
from pytest_gpucluster.report import suites
from tests import recordings
from tests.diagnose import cases

FIRST: dict[str, tuple[str, State, str]] = {
    "gang-two-jobs-hold-half-each": ("sweep-a", State.TROUBLE, "half-placed"),
    "gang-unknown-because-never-complete": ("cv-train", State.TROUBLE, "half-placed"),
    "gang-unknown-because-one-left": ("ring-test", State.HEALTHY, ""),
    "gang-every-pod-its-own-group": ("ddp-b", State.TROUBLE, "scattered"),
    "gang-pending-pods-say-schedulable": ("wide", State.REFUSED, "no-room"),
    "ref-refused-because-old-pods-outlive-a-broken-gpu": ("two", State.TROUBLE, "miscounted"),
    "ref-resourcequota-counts-waiting-pods": ("grid", State.TROUBLE, "quota"),
    "plg-launcher-works-at-the-third-try": ("", State.HEALTHY, ""),
    "plg-mesh-sidecar-eats-the-rendezvous": ("", State.TROUBLE, "mesh"),
    "life-failed-job-keeps-a-worker-running": ("trial", State.TROUBLE, "left-running"),
    "life-restart-in-place-never-fails": ("hvd", State.TROUBLE, "restart-in-place"),
    "life-completing-lasts-as-long-as-the-grace": ("etl", State.HEALTHY, ""),
    "ela-below-minimum-ends-by-timeout": ("", State.TROUBLE, "rendezvous-timeout"),
    "rdzv-nobody-hosts-the-store": ("", State.TROUBLE, "nobody-hosts"),
    "rdzv-rank-zero-lives-elsewhere": ("", State.STARTING, ""),
    "kue-evicted-and-still-holding": ("pre", State.TROUBLE, "evicted-and-holding"),
    "kue-admitted-but-never-started": ("eval", State.TROUBLE, "admitted-not-started"),
}
"""Case -> the job to diagnose ("": pods without one), how it is, and the code of the likeliest cause."""

MEASURED = {"ela-below-minimum-ends-by-timeout"}
"""Cases whose names are figures that the judges of their rows measure, from more than a diagnosis collects."""


def of(case_id: str) -> Diagnosis:
    """Return the diagnosis of a public case."""
    name = FIRST[case_id][0]
    (found,) = diagnose.subjects(cases.public(cases.all_public()[case_id]), name)
    return diagnose.diagnose(found, {row.id: row.decide for row in suites.load_suites()})


@pytest.mark.parametrize("case_id", sorted(FIRST))
def test_the_likeliest_cause_comes_first(case_id: str):
    """The first suspect is what the case is about; a case without a fault has none."""
    _, state, code = FIRST[case_id]
    found = of(case_id)
    text = diagnose.render(found, full=True)
    assert found.state is state, text
    assert (found.suspects[0].code if found.suspects else "") == code, text


@pytest.mark.parametrize("case_id", sorted(FIRST))
def test_it_names_and_it_spares(case_id: str):
    """What must be named is in the text, and nobody is accused who must be spared."""
    expected = cases.all_public()[case_id]["expected"]
    text = " ".join(diagnose.render(of(case_id)).split())
    for name in expected["must_name"] if case_id not in MEASURED else ():
        assert name in text, text
    for spared in expected.get("must_not_blame", ()):
        assert spared not in text, text


@pytest.mark.parametrize("case_id", sorted(FIRST))
def test_the_rows_are_those_of_the_case(case_id: str):
    """What the judges say in a diagnosis is what the case demands; a judge that says nothing is not shown."""
    rows = of(case_id).rows
    expected = cases.all_public()[case_id]["expected"]["rows"]
    for row, verdict in expected.items():
        if row in rows:
            assert rows[row]["verdict"] == verdict, rows[row]["observed"]
        elif verdict == "fail" and case_id in recordings.public_cases():
            assert row not in recordings.JUDGES, f"{row} should fail and says nothing"


@pytest.mark.parametrize("case_id", sorted(FIRST))
def test_no_cause_of_a_case_without_fault_is_called_a_fault(case_id: str):
    """Where nothing is at fault, nothing is accused."""
    case = cases.all_public()[case_id]
    if case["truth"]["class"] != "no_fault" or case_id in MEASURED:
        return
    assert all(one.kind is not diagnose.Kind.FAULT for one in of(case_id).suspects)
