"""Judges of priority, preemption and fair share, on recorded streams and on changes of them."""

import copy

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.scheduling import evictions, queue_shares
from pytest_gpucluster.judge.inventory import scheduler_actions
from pytest_gpucluster.judge.lifecycle import priority
from pytest_gpucluster.judge.refusal import fair_share, preemption
from tests.recordings import FOLDER, embedded, evidence_of, stream

G3, G4, G5 = "g3-priority-order", "g4-preempt-action", "g5-preempt-elastic-victim"


def lines_of(name):
    """Return the lines of a stream as JSON objects that may be changed."""
    return [copy.deepcopy(o) for o in ingest.lines_of(stream(name)) if o["type"] not in ("HEADER", "SPAN")]


def changed(name, change):
    """Return a stream in which every watched object was changed in place."""
    lines = lines_of(name)
    for line in lines:
        if "object" in line:
            change(line["kind"], line["object"])
    return evidence_of(lines)


def with_minimum(number):
    """Return the elastic victim of g5 with another minimum."""

    def change(kind, obj):
        if kind == "Job.batch.volcano.sh" and obj["metadata"]["name"] == "victim":
            obj["spec"]["minAvailable"] = number
        elif kind == "PodGroup" and obj["metadata"]["name"].startswith("victim"):
            obj["spec"]["minMember"] = number

    return changed(G5, change)


def with_priorities(name, **values):
    """Return a stream in which the pods of Jobs have other priorities."""

    def change(kind, obj):
        if kind == "Pod":
            job = obj["metadata"]["labels"].get("volcano.sh/job-name")
            obj["spec"]["priority"] = values.get(job, obj["spec"].get("priority"))

    return changed(name, change)


def verdict(judge, evidence, given=None):
    """Return the verdict in words."""
    return str(judge(evidence, evidence.given if given is None else given).verdict)


# -- REF-006 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minimum", "wanted"), [(1, "pass"), (2, "pass"), (3, "fail"), (4, "fail")])
def test_what_is_left_decides(minimum, wanted):
    """Two of four were taken: enough where two must stay, too many where three must."""
    finding = preemption.whole_or_surplus(with_minimum(minimum), {})
    assert str(finding.verdict) == wanted
    assert finding.violation == (wanted == "fail")
    if wanted == "fail":
        assert "enablePreemptable" in finding.causes[0].text + finding.causes[0].fix
        assert finding.numbers[0].bound == minimum


@pytest.mark.parametrize(("order", "wanted"), [("early", "fail"), ("late", "pass")])
def test_a_gang_plugin_that_is_not_listened_to_halves_gangs(order, wanted):
    """Real Volcano with gang before conformance, which then decides alone, and with gang as the last of the two."""
    evidence = read(FOLDER / "kind" / "v1.37.2" / f"priorities-gang-{order}.jsonl")
    finding = preemption.whole_or_surplus(evidence, evidence.given)
    assert str(finding.verdict) == wanted
    if wanted == "fail":
        assert preemption.FORGOTTEN in finding.causes
        assert (finding.numbers[0].value, finding.numbers[0].bound) == (2, 3)


def test_a_gang_that_is_taken_whole_is_not_halved():
    """Where every member goes, one after the other, none is left behind."""
    lines = lines_of(G5)
    gone = {
        o["object"]["metadata"]["name"] for o in lines if o.get("kind") == "Pod" and o["type"] == "DELETED"
    }
    first = min(o["t"] for o in lines if o.get("kind") == "Pod" and o["type"] == "DELETED")
    kept = []
    for line in lines:
        name = line.get("object", {}).get("metadata", {}).get("name", "")
        if line.get("kind") != "Pod" or not name.startswith("victim") or name in gone or line["t"] < first:
            kept.append(line)
            continue
    for name in ("victim-worker-0", "victim-worker-2"):
        last = next(
            o for o in reversed(kept) if o.get("kind") == "Pod" and o["object"]["metadata"]["name"] == name
        )
        for at, kind in ((0.1, "MODIFIED"), (0.3, "DELETED")):
            obj = copy.deepcopy(last["object"])
            obj["metadata"]["deletionTimestamp"] = "2026-11-27T23:24:14Z"
            kept.append({**last, "t": first + at, "type": kind, "object": obj})
    evidence = evidence_of([line for line in kept if line["t"] < first + 1.2])
    for line in kept:
        if line.get("kind") == "Job.batch.volcano.sh" and line["object"]["metadata"]["name"] == "victim":
            line["object"]["spec"]["minAvailable"] = 4
    assert verdict(preemption.whole_or_surplus, evidence, {}) == "pass"


def test_nobody_taken_is_not_a_pass():
    """g4: the urgent gang is refused at enqueue; the finding says so and what to do."""
    for judge in (preemption.whole_or_surplus, priority.makes_room):
        finding = judge(stream(G4), {})
        assert str(finding.verdict) == "inconclusive"
        assert "refused at enqueue" in finding.observed
        assert finding.causes == (preemption.REFUSED_BEFORE,)


def test_a_gap_in_the_watch_leaves_it_open():
    """What pods did while nobody watched cannot be called kept."""
    cut = mutants.MUTANTS["watch.cut"].act
    assert verdict(preemption.whole_or_surplus, cut(stream(G5)), {}) == "inconclusive"


def test_our_own_run_must_have_tempted():
    """On our own evidence a pass needs a gang that waited in vain for what the victim needs."""
    evidence = embedded("priorities")
    assert verdict(preemption.whole_or_surplus, evidence) == "pass"
    (tempted,) = evidence.given["roles"]["tempted"]
    without = mutants.without(evidence, lambda line: tempted["name"] in line.name)
    assert verdict(preemption.whole_or_surplus, without) == "inconclusive"


# -- LIFE-013 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, "pass"),
        ({"high1": 10, "low2": 1000}, "fail"),
        ({"high1": 10, "low1": 10, "low2": 10}, "inconclusive"),
    ],
)
def test_who_is_placed_first_decides(values, wanted):
    """g3: high1 came later and was placed first."""
    assert verdict(priority.orders_the_queue, with_priorities(G3, **values), {}) == wanted


def test_a_larger_gang_of_priority_may_have_to_wait():
    """That a smaller gang is let in before a larger one of higher priority is no violation."""
    evidence = with_priorities(G3, high1=10, low2=1000)

    def grow(line):
        return line.kind == "Pod" and line.name.startswith("low2")

    def change(obj):
        for part in obj["spec"]["containers"][0]["resources"].values():
            part["nvidia.com/gpu"] = "8"

    assert verdict(priority.orders_the_queue, mutants.each(evidence, grow, change), {}) == "inconclusive"


# -- LIFE-014 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "wanted"), [({}, "pass"), ({"victim": 1000}, "fail"), ({"victim": 5000}, "fail")]
)
def test_only_lower_priorities_give_way(values, wanted):
    """g5: victim (10) gives way to urgent (1000); it must not where it is of the same priority or a higher one."""
    assert verdict(priority.makes_room, with_priorities(G5, **values), {}) == wanted


def test_nothing_taken_is_a_fail_where_there_was_something():
    """An urgent gang that waits at the gang gate while a lower one has members to spare."""
    evidence = embedded("priorities")
    urgent = evidence.given["roles"]["urgent"][0]["name"]
    spared = mutants.MUTANTS["refusal.take-nobody"].act(evidence)
    stop = max(line.t for line in evidence.of_kind("Pod") if line.name.startswith(urgent))

    def unbind(obj):
        obj["spec"].pop("nodeName", None)
        conditions = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none"}
        ]
        obj["status"] = {"phase": "Pending", "conditions": conditions}

    waits = mutants.each(spared, lambda line: line.kind == "Pod" and line.name.startswith(urgent), unbind)
    short = Evidence([line for line in waits.lines if line.t <= stop], header=waits.header, spans=waits.spans)
    finding = priority.makes_room(short, {**short.given, "window": 0.3})
    assert str(finding.verdict) == "fail"
    assert finding.causes == (priority.NOT_TAKEN,)


# -- REF-009 -----------------------------------------------------------------------------------------------------------


def test_shares_and_what_was_given_back():
    """Our own run: three quarters as far as whole gangs go, and the time until it was given back."""
    evidence = embedded("fair-share")
    finding = fair_share.shares_by_weight(evidence, evidence.given)
    assert str(finding.verdict) == "pass"
    names = [number.name for number in finding.numbers]
    assert names[-1] == "given back after"
    assert all(number.bound is not None for number in finding.numbers[:-1])


def test_a_contest_that_is_cut_short_is_not_decided():
    """Before the window is over nothing is said."""
    evidence = embedded("fair-share")
    begin = next(note.t for note in evidence.notes("window-begin"))
    head = Evidence(
        [line for line in evidence.lines if line.t <= begin + 0.05],
        header=evidence.header,
        spans=evidence.spans,
    )
    finding = fair_share.shares_by_weight(head, {**head.given, "window": 30.0})
    assert str(finding.verdict) == "inconclusive"


def test_queues_of_one_weight_show_nothing():
    """c2 with two queues: weights are equal, and nobody borrowed."""
    assert (
        verdict(fair_share.shares_by_weight, stream("c2-two-gangs-gang-gate-two-queues"), {})
        == "inconclusive"
    )
    (one, other) = queue_shares.tenants(stream("c2-two-gangs-gang-gate-two-queues"))
    assert (one.weight, other.weight) == (1, 1)


# -- what the rows stand on --------------------------------------------------------------------------------------------


def configured(text, code=200):
    """Return evidence that has read a configuration of the scheduler."""
    answer = (
        {"object": {"data": {"volcano-scheduler.conf": text}}}
        if code == 200
        else {"status": {"message": "no"}}
    )
    line = {
        "t": 0.0,
        "type": "RESPONSE",
        "case": "read:scheduler-config",
        "request": "get",
        "code": code,
        **answer,
    }
    return evidence_of([line])


@pytest.mark.parametrize(
    ("text", "code", "preempt", "reclaim"),
    [
        ('actions: "enqueue, allocate, backfill"\n', 200, False, False),
        ('actions: "enqueue, allocate, preempt, backfill"\n', 200, True, False),
        ('actions: "enqueue, allocate, reclaim"\n', 200, False, True),
        ("", 403, None, None),
    ],
)
def test_the_action_is_presupposed(text, code, preempt, reclaim):
    """Missing in the configuration: not so; not readable: not known; never assumed."""
    evidence = configured(text, code)
    found = scheduler_actions.preempt_configured(evidence, {})
    assert found.held is preempt
    assert scheduler_actions.reclaim_configured(evidence, {}).held is reclaim
    if preempt is False:
        assert "add preempt to `actions`" in found.causes[0].fix


def test_an_action_that_acted_is_configured():
    """Who was taken says which action took."""
    assert scheduler_actions.preempt_configured(stream(G5), {}).held is True
    assert scheduler_actions.reclaim_configured(stream(G5), {}).held is None
    assert {one.why for one in evictions.taken(stream(G5))} == {"preempt"}
