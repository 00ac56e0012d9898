"""Judges on evidence of a scenario of ours: roles, windows, budgets and expired waits."""

from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.judge import presuppositions, subjects
from pytest_gpucluster.judge.gang.all_or_nothing import gang_gate_reached
from pytest_gpucluster.judge.inventory.presuppositions import scheduler_answers
from pytest_gpucluster.judge.refusal.over_large import control_ran
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves, ranks_wired
from tests import recordings

B1 = "b1-over-capacity-by-one-gpu"


def _note(t: float, word: str, **fields: Any) -> dict[str, Any]:
    return {"t": t, "type": "NOTE", "note": word, **fields}


def _submitted(name: str, **roles: str) -> list[dict[str, Any]]:
    uids = {gang.name: gang.uid for gang in gangs.gangs(recordings.stream(name))}
    return [
        _note(
            0.5,
            "submitted",
            role=role.replace("_", "-"),
            kind="Job.batch.volcano.sh",
            name=job,
            uid=uids[job],
        )
        for role, job in roles.items()
    ]


def test_roles_come_from_given_notes_or_labels():
    """Who plays which role is read from `given` first, then from the notes of submission."""
    noted = recordings.added(B1, _submitted(B1, subject="toobig", control="control"))
    assert {role: members[0][1] for role, members in subjects.roles(noted, {}).items()} == {
        "subject": "toobig",
        "control": "control",
    }
    told = {"roles": {"subject": [{"kind": "Job.batch.volcano.sh", "name": "other"}]}}
    assert subjects.roles(noted, told) == {"subject": (("Job.batch.volcano.sh", "other", ""),)}
    assert subjects.roles(noted, {"subject": "x"}) == {"subject": (("", "x", ""),)}


def test_what_is_told_of_the_subject_is_not_asked_of_the_control():
    """A control smaller than the subject is whole when its own members are bound."""
    evidence = recordings.added(B1, _submitted(B1, subject="toobig", control="control"))
    finding = recordings.JUDGES["REF-001"](evidence, {"members": 17, "min_member": 17})
    assert finding.verdict == "pass", finding.observed


def test_half_placed_when_a_window_of_scarcity_ends_is_a_violation():
    """Where our own scarcity lasts as long as the window, a bind in it needs no tolerance for slow binds."""
    name = "h6-volcano-without-gang-plugin"
    told = {"subject": "nogang", "period": 0.05, "window": 0.5, "spread": 60.0}
    bare = recordings.added(name, [])
    assert recordings.JUDGES["GANG-002"](bare, told).verdict == "inconclusive"
    window = [_note(2.0, "window-begin", window="scarce"), _note(4.0, "window-end", window="scarce")]
    finding = recordings.JUDGES["GANG-002"](recordings.added(name, window), told)
    assert finding.verdict == "fail"
    assert finding.violation


def test_a_noted_window_counts_from_its_begin():
    """A window that was watched to its end suffices, also where the reason came a moment after its begin."""
    name = "b3-room-for-n-minus-one-then-room"
    window = [_note(2.0, "window-begin", window="scarce"), _note(8.7, "window-end", window="scarce")]
    told = {"subject": "gang", "window": 6.7}
    assert recordings.JUDGES["GANG-002"](recordings.added(name, []), told).verdict == "inconclusive"
    assert recordings.JUDGES["GANG-002"](recordings.added(name, window), told).verdict == "pass"


def test_slots_left_free_show_that_a_part_would_fit():
    """Where the scheduler does not say who would fit, our own note of scarcity does."""
    name = "c2-two-gangs-gang-gate-run0"
    scarce = [_note(0.5, "scarce", resource="nvidia.com/gpu", total=24, free=8)]
    assert (
        recordings.JUDGES["GANG-002"](recordings.added(name, scarce), {"subject": "right"}).verdict == "pass"
    )


def test_a_longer_window_is_asked_for():
    """A profile that lengthens the window makes a shorter stay inconclusive."""
    evidence = recordings.stream("c2-two-gangs-gang-gate-two-nodes")
    finding = recordings.JUDGES["GANG-004"](evidence, {"window": 10.0})
    assert finding.verdict == "inconclusive"
    assert "shorter than the window of 10.00 s" in finding.observed


def test_an_expired_wait_is_a_bound_that_was_missed():
    """A PodGroup without a phase fails as soon as the driver's own budget for it is over."""
    lines = [o for o in recordings.raw("l1-scheduler-not-running") if o["t"] < 7]
    short = recordings.evidence_of([*lines, _note(7.0, "end")])
    assert recordings.JUDGES["INV-001"](short, {}).verdict == "inconclusive"
    waited = [*lines, _note(6.9, "timed-out", what="a PodGroup gets a phase", seconds=2), _note(7.0, "end")]
    assert recordings.JUDGES["INV-001"](recordings.evidence_of(waited), {}).verdict == "fail"


def test_a_gang_that_was_waited_for_in_vain_fails():
    """A subject that fits by design and was never bound until the wait expired is a fail that names the gate."""
    name = "b2-fragmentation"
    evidence = recordings.added(name, [_note(29.0, "timed-out", what="all members are bound", seconds=20)])
    finding = recordings.JUDGES["GANG-001"](evidence, {"subject": "frag"})
    assert finding.verdict == "fail"
    assert "held at placement by volcano" in finding.observed


def test_a_refused_subject_is_named():
    """Where the create call of the subject was refused, the finding says so instead of `no gang`."""
    refused = [_note(0.1, "refused", role="subject", kind="Job.batch.volcano.sh", name="x", code=403)]
    finding = recordings.JUDGES["GANG-002"](recordings.evidence_of(refused), {})
    assert "x was refused, HTTP 403" in finding.observed


def test_controls_must_all_be_shown():
    """With roles, each of the three miswired Jobs has to be there."""
    name = "e4-pytorch-wrong-task-name"
    evidence = recordings.added(name, _submitted(name, wrong_master="nomatch"))
    finding = recordings.JUDGES["PLG-005"](evidence, {})
    assert finding.verdict == "inconclusive"
    assert "no-plugin" in finding.observed


def test_a_world_that_was_given_up_fails():
    """Ranks that never spoke, although the driver saw the launchers give up, are a fail and not a silence."""
    silent = mutants.MUTANTS["rendezvous.drop-a-rank"].act(recordings.healthy())
    assert recordings.JUDGES["RDZV-001"](silent, silent.given).verdict == "inconclusive"
    note = _note(10.0, "aborted", what="the world has ended", why="torchrun gave up after its restarts")
    gone = mutants.with_lines(silent, [*silent.lines, *recordings.evidence_of([note]).lines])
    finding = recordings.JUDGES["RDZV-001"](gone, gone.given)
    assert finding.verdict == "fail"
    assert "gave up" in finding.observed


def test_a_restarted_rank_counts_once():
    """A launcher that restarts its workers prints their ranks again: the last word of each process counts."""
    base = recordings.healthy()
    (torch,) = gangs.gangs(base)
    pods = sorted(torch.pods, key=lambda pod: pod.name)
    early = [
        recordings.word(6.9, pod, "rank", rank=3 - rank, world=4, local_rank=0)
        for rank, pod in enumerate(pods)
    ]
    evidence = mutants.with_lines(base, [*base.lines, *recordings.evidence_of(early).lines])
    assert recordings.JUDGES["RDZV-001"](evidence, evidence.given).verdict == "pass"


def test_both_forms_must_form_a_world():
    """With roles, the documented and the robust gang are both judged."""
    base = recordings.healthy()
    told = {"roles": {"documented": [{"name": "torch"}], "robust": [{"name": "absent"}]}}
    finding = recordings.JUDGES["RDZV-001"](base, told)
    assert finding.verdict == "inconclusive"
    assert "robust" in finding.observed


STATES = [
    ("b3-room-for-n-minus-one-then-room", gang_gate_reached, True),
    ("b7-shortfall-filler-same-queue", gang_gate_reached, None),
    ("a-gang-fits", gang_gate_reached, None),
    ("r1-real-kubelet-pytorch-gang", presuppositions.pods_ran, True),
    ("r6-real-kubelet-topology-affinity-error", presuppositions.pods_ran, False),
    ("b2-fragmentation", presuppositions.pods_ran, None),
    ("a-gang-fits", scheduler_answers, True),
    ("l1-scheduler-not-running", scheduler_answers, False),
    (B1, control_ran, True),
    ("b2-fragmentation", control_ran, False),
    ("r5-real-kubelet-over-capacity", control_ran, None),
    ("e2-pytorch", ranks_wired, True),
    ("e6-pytorch-wrong-worker-name", ranks_wired, False),
    ("e1-env-svc-ssh", ranks_wired, None),
]


@pytest.mark.parametrize(("name", "state", "held"), STATES)
def test_presuppositions(name: str, state: Any, held: bool | None):
    """What a row presupposes is seen to hold, seen not to hold, or not seen."""
    found = state(recordings.stream(name), {})
    assert found.held is held, found.observed
    assert found.observed


def test_what_the_api_server_failed_to_answer_is_said_where_no_pod_was_made():
    """A webhook that cannot be reached (as of Kueue right after its installation) refuses what it must see."""
    why = 'Internal error occurred: failed calling webhook "mjob.kb.io": dial tcp: connection refused'
    refused = {
        "t": 1.0,
        "type": "RESPONSE",
        "request": "create Job.batch/healthy",
        "code": 500,
        "status": {"message": why},
    }
    found = presuppositions.pods_ran(recordings.evidence_of([refused]), {})
    assert found.held is None
    assert found.observed.startswith(
        "none of 0 pods was seen to run: create Job.batch/healthy was answered 500: Internal"
    )
    assert "mjob.kb.io" in found.observed


def test_a_name_that_did_not_resolve_is_a_prerequisite_that_failed():
    """The look-ups of the payload decide whether the master's name resolves."""
    good = recordings.healthy()
    bad = mutants.MUTANTS["plugins.unresolved"].act(good)
    assert master_name_resolves(good, good.given).held is True
    assert master_name_resolves(bad, bad.given).held is False
