"""Properties that hold for any evidence: nothing makes a judge raise, and cutting never turns a fail into a pass."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.gang.all_or_nothing import gang_gate_reached
from pytest_gpucluster.judge.inventory.presuppositions import scheduler_answers
from pytest_gpucluster.judge.refusal.over_large import control_ran
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves, ranks_wired
from pytest_gpucluster.mutants import MUTANTS
from pytest_gpucluster.requirement import Verdict
from tests import amount, recordings
from tests.defects import matrix

NAMES = [
    "a-gang-fits", "b1-over-capacity-by-one-gpu", "b7b-shortfall-filler-same-queue-fragment",
    "c3-two-gangs-without-gang-plugin-run1", "d-refusals", "e6-pytorch-wrong-worker-name",
    "f1-podfailed-restartjob-maxretry", "f2-podevicted-restartjob", "f4-abort-resume", "f5-ttl", "f7-minsuccess",
    "b5-per-task-minimum", "f10-node-lost-below-min", "f11-finished-member-deleted",
    "r3-real-kubelet-evicted-and-failed-policies",
    "h1-default-scheduler-over-capacity", "h5-vcjob-fragmented-under-default-scheduler",
    "l1-scheduler-not-running", "native-two-jobs-without-policy", "r1-real-kubelet-pytorch-gang",
]  # fmt: skip

PRESUPPOSED = (
    gang_gate_reached, presuppositions.pods_ran, master_name_resolves,
    scheduler_answers, control_ran, ranks_wired,
    presuppositions.members_made,
    presuppositions.eviction_permitted, presuppositions.commands_permitted,
)  # fmt: skip

SLOW = amount.examples(60, suppress_health_check=[HealthCheck.too_slow])


def _ask_all(lines: list[dict[str, Any]], told: dict[str, Any]) -> dict[str, Verdict]:
    evidence = recordings.evidence_of(lines)
    for state in PRESUPPOSED:
        assert state(evidence, told).held in (True, False, None)
    return {row: judge(evidence, told).verdict for row, judge in recordings.JUDGES.items()}


@SLOW
@given(name=st.sampled_from(NAMES), data=st.data())
def test_no_subset_makes_a_judge_raise(name: str, data: st.DataObject):
    """Whatever lines are missing, every judge and every presupposition answers."""
    lines = recordings.raw(name)
    keep = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    _ask_all([line for line, kept in zip(lines, keep, strict=True) if kept], {})


@SLOW
@given(name=st.sampled_from(NAMES), data=st.data())
def test_no_order_makes_a_judge_raise(name: str, data: st.DataObject):
    """Whatever order lines come in, and at whatever time, every judge answers."""
    lines = [dict(line) for line in recordings.raw(name)]
    for line in lines:
        line["t"] = data.draw(st.floats(0, 20))
    _ask_all(lines, {"subject": data.draw(st.sampled_from(["gang", "left", "fits"]))})


@SLOW
@given(name=st.sampled_from([n for n in NAMES if n.startswith(("c3", "h", "native"))]), data=st.data())
def test_no_truncation_turns_a_fail_into_a_pass(name: str, data: st.DataObject):
    """A row that fails on a whole stream never passes on a part of it that lacks its end or its start."""
    lines = recordings.raw(name)
    start = data.draw(st.integers(0, len(lines) // 4))
    stop = data.draw(st.integers(start + 1, len(lines)))
    whole, part = _ask_all(lines, {}), _ask_all(lines[start:stop], {})
    for row, verdict in whole.items():
        if verdict is Verdict.FAIL:
            assert part[row] is not Verdict.PASS, row


@SLOW
@given(
    text=st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda s: st.lists(s) | st.dictionaries(st.text(max_size=6), s),
        max_leaves=8,
    )
)
def test_no_told_thing_makes_a_judge_raise(text: Any):
    """Whatever `given` holds, and whatever a payload prints, every judge answers."""
    told = dict.fromkeys(
        ("roles", "subject", "cases", "members", "window", "period", "budgets", "attested"), text
    )
    word = {
        "t": 5.0,
        "type": "LOG",
        "pod": "p",
        "uid": "u",
        "line": f"GPUCONF1 {json.dumps({'event': 'rank', 'rank': text})}",
    }
    told["attested"] = text if isinstance(text, list) else []
    _ask_all([*recordings.raw("a-gang-fits"), word], told)


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_of_every_stream_is_judged(name: str):
    """No mutant of a recorded stream makes a judge raise; judges are pure, so what a mutant leaves is judged once.

    All mutants, or every second one, and the others on the next stream.
    """
    evidence = recordings.stream(name)
    chosen = [*MUTANTS.values()] if amount.all_of_it() else [*MUTANTS.values()][NAMES.index(name) % 2 :: 2]
    mutants = [mutant.act(evidence) for mutant in chosen]
    for changed in [evidence, *(each for each in mutants if not matrix.untouched(evidence, each))]:
        for judge in recordings.JUDGES.values():
            assert judge(changed, {}).required


def test_nothing_at_all_is_inconclusive():
    """Without a single line every judge says that nothing was seen."""
    verdicts = _ask_all([], {})
    assert set(verdicts.values()) == {Verdict.INCONCLUSIVE}
