"""The gang rows where Kueue is the declared scheduler: its gate is the suspended Job, what is scarce is quota."""

import dataclasses

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.evidence.scheduling import gangs, gates
from pytest_gpucluster.judge.gang import all_or_nothing, runs_whole, two_gangs
from pytest_gpucluster.judge.gang.all_or_nothing import gang_gate_reached
from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.judge.refusal import over_large
from pytest_gpucluster.mutants import base
from tests import recordings

KUEUE = recordings.FOLDER / "kueue" / "v0.17.0"


def stream(name):
    """Return a recorded stream of Kueue."""
    return read(KUEUE / name / "events.jsonl")


@pytest.mark.parametrize(
    ("name", "judge", "verdict", "told"),
    [
        ("k1-admitted", runs_whole.runs_whole, "pass", "4 of 4 were Running at once"),
        ("k1b-not-suspended-by-user", runs_whole.runs_whole, "pass", "4 of 4 members bound"),
        ("k2-over-quota-never-fits", over_large.over_large_refused, "pass", "refused at quota by kueue"),
        # A refusal without a fitting control on the same queue decides nothing.
        ("k2b-unknown-local-queue", over_large.over_large_refused, "inconclusive", "no fitting control"),
        ("k2b-unknown-local-queue", runs_whole.runs_whole, "inconclusive", "held at quota by kueue"),
        # All of the quota was taken: no part of the second would have fitted, so no gang rule was needed.
        (
            "k3-two-jobs-room-for-one",
            two_gangs.two_gangs,
            "inconclusive",
            "left held nothing for 4.3 s at the gang gate",
        ),
        ("k3-two-jobs-room-for-one", all_or_nothing.all_or_nothing, "inconclusive", "weak evidence"),
        ("k5-quota-above-capacity", all_or_nothing.all_or_nothing, "fail", "16 of 17 members bound"),
        ("k5-quota-above-capacity", over_large.over_large_refused, "fail", "holds places"),
        ("k9-without-admission", all_or_nothing.all_or_nothing, "fail", "16 of 17 members bound"),
    ],
)
def test_recorded_streams_are_judged_by_the_gang_rows(name, judge, verdict, told):
    """Quota is whole or not at all; where it exceeds capacity, or nothing enforces it, gangs are half placed."""
    found = judge(stream(name), {})
    assert found.verdict == verdict, found.observed
    assert told in found.observed
    if verdict == "fail":
        assert "quota" in found.causes[0].text
        assert "schedulerName" not in found.causes[0].fix


def scarce(*, free=15):
    """Return two recorded Jobs for the quota of one, with the note that a part of the second would have fitted."""
    return recordings.evidence_of(
        [
            {**line.data, "t": line.t, "type": line.type, "kind": line.kind, "object": line.object}
            if line.kind
            else {**line.data, "t": line.t, "type": line.type}
            for line in stream("k3-two-jobs-room-for-one").lines
        ]
        + [
            {
                "t": 0.0,
                "type": "NOTE",
                "note": "scarce",
                "resource": "nvidia.com/gpu",
                "total": 16,
                "free": free,
            }
        ]
    )


def test_a_suspended_job_is_held_at_its_gate():
    """The span begins with Kueue's refusal and ends with the quota; no pod exists in it."""
    evidence = scarce()
    (held,) = base.all_held(evidence)
    assert (held[0].name, held[2].gate, held[2].bound_after) == ("left", "quota", True)
    assert min(pod.created for pod in held[0].pods) >= held[2].end
    assert gang_gate_reached(evidence, {}).held is True
    assert all_or_nothing.all_or_nothing(evidence, {}).verdict == "pass"
    assert two_gangs.two_gangs(evidence, {}).verdict == "pass"


def test_a_pod_of_a_refused_job_is_half_placement():
    """One member bound while quota was refused: the row fails, whatever the Workload says."""
    evidence = scarce()
    ((left, gen, held),) = base.all_held(evidence)
    pod = gen.members[0]
    early = dataclasses.replace(
        base.edited(evidence.history(pod.uid)[0], lambda obj: obj["spec"].update(nodeName="gpu-0")),
        t=held.start + 0.2,
    )
    spoiled = base.with_lines(evidence, (*evidence.lines, early))
    assert all_or_nothing.all_or_nothing(spoiled, {}).verdict == "fail"
    assert left.queue


def test_a_refusal_that_is_seen_before_its_job_counts():
    """The watches of two kinds are not in step: on a busy machine the Job's first line comes later."""
    evidence = scarce()
    (held,) = base.all_held(evidence)
    uid, said = held[0].uid, held[2].start
    late = base.with_lines(
        evidence,
        (
            dataclasses.replace(line, t=max(line.t, said + 0.02)) if line.uid == uid else line
            for line in evidence.lines
        ),
    )
    assert all_or_nothing.all_or_nothing(late, {}).verdict == "pass"


def test_quota_that_was_never_refused_was_not_scarce():
    """An admitted Job was held at no gate, whatever its pods waited for."""
    for found in gangs.gangs(stream("k5-quota-above-capacity")):
        reading = gates.read(stream("k5-quota-above-capacity"), found, found.generations[-1])
        assert reading.scheduler.name == "kueue"
        assert reading.held is None


ANSWERED = {
    "t": 0.0,
    "type": "RESPONSE",
    "code": 201,
    "dry_run": True,
    "case": "dry-run",
    "request": "create Job",
}


@pytest.mark.parametrize(
    ("suspend", "code", "verdict", "told"),
    [
        (True, 201, "pass", "said within"),
        (False, 201, "fail", "came back unsuspended"),
        (True, 500, "fail", "was refused: HTTP 500"),
    ],
)
def test_the_parts_of_kueue_answer(suspend, code, verdict, told):
    """INV-001: the API, admission that suspends, a Workload that says whether there is quota."""
    body = {"spec": {"suspend": suspend}}
    answer = {
        **ANSWERED,
        "code": code,
        **({"object": body} if code < 400 else {"status": {"message": "down"}}),
    }
    lines = [
        {**line.data, "t": line.t, "type": line.type, "kind": line.kind, "object": line.object}
        for line in stream("k1-admitted").lines
        if line.kind
    ]
    found = scheduler_parts.scheduler_answers(
        recordings.evidence_of([*lines, answer]), {"scheduler": "kueue"}
    )
    assert found.verdict == verdict, found.observed
    assert told in found.observed
