"""Situations from public trouble reports get the verdict that is right, and the diagnosis names what it must."""

import pytest

from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves, no_interception
from pytest_gpucluster.requirement import Verdict
from tests import recordings

NOT_JUDGED = {
    ("plg-launcher-works-at-the-third-try", "PLG-008"): "its job is an MPIJob, whose launcher we do not read"
}
"""Decisions of cases that this suite does not make yet -> why: the row is undecided there, never wrong."""
ROWS = [
    (case_id, row, verdict)
    for case_id, case in recordings.public_cases().items()
    for row, verdict in case["expected"]["rows"].items()
    if row in recordings.JUDGES and (case_id, row) not in NOT_JUDGED
]

NAMED = {
    "gang-two-jobs-hold-half-each": "GANG-004",
    "gang-unknown-because-never-complete": "GANG-002",
    "gang-unknown-because-one-left": "GANG-001",
    "gang-every-pod-its-own-group": "GANG-002",
    "gang-pending-pods-say-schedulable": "REF-001",
    "ref-refused-because-old-pods-outlive-a-broken-gpu": "GANG-001",
    "life-failed-job-keeps-a-worker-running": "LIFE-004",
    "life-restart-in-place-never-fails": "LIFE-007",
    "ref-resourcequota-counts-waiting-pods": "REF-002",
    "life-completing-lasts-as-long-as-the-grace": "LIFE-001",
    "plg-launcher-works-at-the-third-try": "PLG-003",
    "plg-mesh-sidecar-eats-the-rendezvous": "PLG-011",
    "rdzv-rank-zero-lives-elsewhere": "RDZV-001",
    "kue-quota-is-twice-the-hardware": "INV-005",
    "kue-evicted-and-still-holding": "KUE-005",
    "kue-admitted-but-never-started": "KUE-001",
    "dp-running-without-the-gpu-it-asked-for": "HLT-004",
}


PRESUPPOSED = {
    "RDZV-001": master_name_resolves,
    "RDZV-004": no_interception,
    "GANG-003": presuppositions.members_made,
    "KUE-001": shared.quota_within_capacity,
}
"""Row -> what it presupposes and a case may show to be false."""


@pytest.mark.parametrize(("case_id", "row", "verdict"), ROWS)
def test_the_verdict_is_right(case_id: str, row: str, verdict: str):
    """Each row of a case is decided as the case says."""
    evidence = recordings.public_evidence(recordings.public_cases()[case_id])
    finding = recordings.JUDGES[row](evidence, evidence.given)
    found = finding.verdict
    if row in PRESUPPOSED and not finding.violation:
        state = PRESUPPOSED[row](evidence, evidence.given)
        found = Verdict.ENVIRONMENT if state.held is False else found
    assert found == verdict, finding.observed


@pytest.mark.parametrize(("case_id", "row"), sorted(NOT_JUDGED))
def test_what_is_not_judged_is_undecided(case_id: str, row: str):
    """A row that cannot read the case says so."""
    evidence = recordings.public_evidence(recordings.public_cases()[case_id])
    assert recordings.JUDGES[row](evidence, evidence.given).verdict == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("case_id", "row"), sorted(NAMED.items()))
def test_the_diagnosis_names_and_spares(case_id: str, row: str):
    """The finding contains what must be named and accuses nobody who must be spared."""
    case = recordings.public_cases()[case_id]
    evidence = recordings.public_evidence(case)
    finding = recordings.JUDGES[row](evidence, evidence.given)
    told = " ".join([finding.observed, *finding.where, *(cause.text + cause.fix for cause in finding.causes)])
    for name in case["expected"].get("must_name", ()):
        assert name in told, told
    for spared in case["expected"].get("must_not_blame", ()):
        assert spared not in told


def test_a_name_unknown_at_the_start_is_named_as_the_prerequisite_that_failed():
    """Nobody hosts the store because the name did not resolve: the presupposition says where and when."""
    evidence = recordings.public_evidence(recordings.public_cases()["rdzv-nobody-hosts-the-store"])
    state = master_name_resolves(evidence, {})
    assert state.held is False
    assert "cls-main-0" in state.observed
    assert "hosts the store" in state.observed
