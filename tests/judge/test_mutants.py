"""Mutants of streams of real components. All mutants over a run of ours, and who flips whom: tests/defects."""

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from tests import recordings

B6, G1 = "b6-inqueue-gang-blocks-others", "g1-queue-capability"
B1, B3, C2 = (
    "b1-over-capacity-by-one-gpu", "b3-room-for-n-minus-one-then-room", "c2-two-gangs-gang-gate-three-nodes-equal",
)  # fmt: skip

FLIPS = [
    # mutant, stream ("healthy": the pytorch gang with logs), row, verdict it turns to
    ("gang.bind-one-early", B3, "GANG-002", "fail"),
    ("gang.bind-one-early", C2, "GANG-004", "fail"),
    ("gang.bind-one-early", "b2-fragmentation", "REF-001", "fail"),
    ("gang.never-bound", B3, "GANG-002", "inconclusive"),
    ("gang.short-min-member", "healthy", "GANG-001", "fail"),
    ("gang.binds-apart", "a-gang-fits", "GANG-001", "fail"),
    ("gang.drop-a-barrier-line", "healthy", "GANG-001", "inconclusive"),
    ("gang.barrier-of-fewer", "healthy", "GANG-001", "fail"),
    ("watch.drop-refusals", B3, "GANG-002", "inconclusive"),
    ("watch.drop-refusals", C2, "GANG-004", "inconclusive"),
    ("watch.drop-refusals", B1, "REF-001", "inconclusive"),
    ("watch.cut", B3, "GANG-002", "inconclusive"),
    ("watch.cut", C2, "GANG-004", "inconclusive"),
    ("watch.cut", B1, "REF-001", "inconclusive"),
    ("refusal.forget-control", B1, "REF-001", "inconclusive"),
    ("refusal.accept-duplicate-task", "d-refusals", "REF-003", "fail"),
    ("refusal.by-permission", "d-refusals", "REF-003", "inconclusive"),
    ("refusal.by-permission", "d-refusals", "REF-004", "inconclusive"),
    ("queue.accept-unknown", "d-refusals", "REF-004", "fail"),
    ("queue.accept-closed", "d-refusals", "REF-004", "fail"),
    ("queue.capability-overrun", G1, "REF-002", "fail"),
    ("refusal.blames-cluster", G1, "REF-002", "inconclusive"),
    ("watch.drop-refusals", G1, "REF-002", "inconclusive"),
    ("watch.cut", G1, "REF-002", "inconclusive"),
    ("refusal.forget-control", G1, "REF-002", "inconclusive"),
    ("refusal.not-blocked", B6, "REF-007", "inconclusive"),
    ("watch.cut", B6, "REF-007", "inconclusive"),
    ("inventory.api-not-served", "healthy", "INV-001", "fail"),
    ("inventory.unfilled-dry-run", "healthy", "INV-001", "fail"),
    ("inventory.no-phase", "healthy", "INV-001", "fail"),
    ("inventory.no-podgroup", "healthy", "INV-001", "fail"),
    ("plugins.move-rank", "healthy", "PLG-001", "fail"),
    ("plugins.move-rank", "e2-pytorch", "PLG-001", "fail"),
    ("plugins.drop-env", "healthy", "PLG-001", "inconclusive"),
    ("plugins.wrong-address", "healthy", "PLG-003", "fail"),
    ("plugins.unresolved", "healthy", "PLG-003", "fail"),
    ("plugins.no-service", "healthy", "PLG-003", "fail"),
    ("plugins.inject-unasked", "e4-pytorch-wrong-task-name", "PLG-005", "inconclusive"),
    ("plugins.drop-index-label", "e2-pytorch", "PLG-007", "fail"),
    ("lifecycle.no-completion", "healthy", "LIFE-001", "fail"),
    ("lifecycle.no-completion", "a-gang-fits", "LIFE-001", "fail"),
    ("lifecycle.end-with-master", "f6-no-complete-policy-lingers", "LIFE-002", "inconclusive"),
    ("lifecycle.only-the-lost-returns", "f2-podevicted-restartjob", "LIFE-003", "fail"),
    ("lifecycle.only-the-lost-returns", "r2-real-kubelet-podevicted-restartjob", "LIFE-003", "fail"),
    ("lifecycle.restarted-twice", "f2-podevicted-restartjob", "LIFE-003", "fail"),
    ("lifecycle.one-attempt-too-many", "f1-podfailed-restartjob-maxretry", "LIFE-004", "fail"),
    ("lifecycle.failed-leaves-a-worker", "f1-podfailed-restartjob-maxretry", "LIFE-004", "fail"),
    ("lifecycle.failed-leaves-a-worker", "r4-real-kubelet-podfailed-maxretry", "LIFE-004", "fail"),
    ("lifecycle.never-removed", "f5-ttl", "LIFE-005", "fail"),
    ("lifecycle.pods-outlive-their-job", "f5-ttl", "LIFE-005", "fail"),
    ("lifecycle.failure-ignored", "f9-podfailed-abort", "LIFE-007", "fail"),
    ("lifecycle.failure-ignored", "f8-exitcode-terminate", "LIFE-007", "fail"),
    ("lifecycle.another-action", "f9-podfailed-abort", "LIFE-007", "fail"),
    ("lifecycle.undocumented-phase", "r1-real-kubelet-pytorch-gang", "LIFE-008", "fail"),
    ("lifecycle.stays-suspended", "f4-abort-resume", "LIFE-009", "fail"),
    ("lifecycle.resume-is-free", "f4-abort-resume", "LIFE-009", "fail"),
    ("scheduler.default", "h6-volcano-without-gang-plugin", "GANG-008", "pass"),
    ("rendezvous.drop-a-rank", "healthy", "RDZV-001", "inconclusive"),
    ("rendezvous.rank-twice", "healthy", "RDZV-001", "fail"),
    ("rendezvous.wrong-sum", "healthy", "RDZV-001", "fail"),
    ("rendezvous.two-worlds", "healthy", "RDZV-001", "fail"),
]


def _evidence(name: str) -> Evidence:
    return recordings.healthy() if name == "healthy" else recordings.stream(name)


@pytest.mark.parametrize("row", ["INV-001", "GANG-001", "PLG-001", "PLG-003", "LIFE-001", "RDZV-001"])
def test_the_healthy_gang_passes(row: str):
    """A gang with all its logs passes every row that shares the healthy scenario."""
    evidence = recordings.healthy()
    finding = recordings.JUDGES[row](evidence, evidence.given)
    assert finding.verdict == "pass", finding.observed


@pytest.mark.parametrize(("mutant", "name", "row", "verdict"), FLIPS)
def test_a_mutant_flips_its_row(mutant: str, name: str, row: str, verdict: str):
    """What is planted is found: the row leaves its verdict for exactly the expected one."""
    before, act = _evidence(name), mutants.MUTANTS[mutant].act
    given = before.given
    was = recordings.JUDGES[row](before, given)
    now = recordings.JUDGES[row](act(before), given)
    assert was.verdict != now.verdict
    assert now.verdict == verdict, now.observed


@pytest.mark.parametrize("mutant", sorted(mutants.MUTANTS))
def test_a_mutant_leaves_the_original_alone(mutant: str):
    """Mutants are pure: the evidence that they are given stays as it was."""
    evidence = recordings.healthy()
    before = [(line.t, line.type, repr(line.object), repr(line.data)) for line in evidence.lines]
    mutants.MUTANTS[mutant].act(evidence)
    assert before == [(line.t, line.type, repr(line.object), repr(line.data)) for line in evidence.lines]


def test_room_that_is_not_taken_fails_when_the_driver_waited_in_vain():
    """A held gang that stays unbound after room was made, until the driver's wait expired, is a fail."""
    base = mutants.MUTANTS["gang.never-bound"].act(recordings.stream(B3))
    lines = [*base.lines]
    notes = [
        {"t": 8.7, "type": "NOTE", "note": "room-made", "role": "blocker", "kind": "Pod", "name": "blocker"},
        {"t": 13.0, "type": "NOTE", "note": "timed-out", "what": "all members are bound", "seconds": 4},
    ]
    made = recordings.evidence_of(notes).lines
    evidence = mutants.with_lines(base, [*lines, *made])
    finding = recordings.JUDGES["GANG-002"](evidence, {"subject": "gang"})
    assert finding.verdict == "fail"
    assert "it was never bound" in finding.observed
