"""Queues and waiting gangs: what the judges make of evidence that lacks a part, or tells another story."""

import dataclasses

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence.scheduling import gangs
from tests import recordings

OVER, SHUT, BLOCKS, NOBODY = "over-capability", "closed-queue", "enqueued-blocks", "unserved"


def judged(row, evidence):
    """Return the finding of a row on evidence of a scenario of ours."""
    return recordings.JUDGES[row](evidence, evidence.given)


def without_gang(evidence, role):
    """Return an evidence in which the gangs of a role never were."""
    gone = [gang for gang in gangs.gangs(evidence) if gang.name.endswith(role)]
    uids = {gang.uid for gang in gone} | {pod.uid for gang in gone for pod in gang.pods}
    uids |= {group.uid for gang in gone for group in gang.groups}
    return mutants.without(evidence, lambda line: line.uid in uids)


@pytest.mark.parametrize(
    ("row", "scenario", "role", "text"),
    [
        ("REF-005", OVER, "neighbour", "no fitting Job was seen to start in another queue meanwhile"),
        ("REF-005", OVER, "-control", "no fitting Job was seen to start in its own queue meanwhile"),
        ("REF-002", OVER, "-control", "no fitting control was tried"),
        ("REF-004", SHUT, "-control", "no fitting Job was seen to run on the queue while it was open"),
        ("REF-007", BLOCKS, "-blocked", "no other gang was tried meanwhile"),
        ("REF-008", NOBODY, "-control", "no control was placed that shows whether the gang scheduler runs"),
    ],
)
def test_a_row_without_its_other_half_is_inconclusive(row, scenario, role, text):
    """A refusal alone, without what must run beside it, decides nothing."""
    finding = judged(row, without_gang(recordings.embedded(scenario), role))
    assert finding.verdict == "inconclusive"
    assert text in finding.observed


def test_a_queue_that_was_open_did_not_refuse_because_it_was_closed():
    """The state of the queue at the time of the answer is looked at, not only the answer."""

    def stay_open(obj):
        if (obj.get("status") or {}).get("state") in {"Closing", "Closed"}:
            obj["status"]["state"] = "Open"

    changed = mutants.each(recordings.embedded(SHUT), lambda line: line.kind == "Queue", stay_open)
    finding = judged("REF-004", changed)
    assert finding.verdict == "inconclusive"
    assert "was Open when its Job was refused" in finding.observed


def test_a_gang_that_asks_for_more_than_the_cluster_tells_nothing_of_the_queue():
    """Where the cluster is too small as well, either limit may have refused it."""
    base = recordings.embedded(OVER)
    finding = recordings.JUDGES["REF-002"](base, {**base.given, "total": 10})
    assert finding.verdict == "inconclusive"
    assert "it is not known which of the two refused it" in finding.observed


def test_a_held_capability_is_a_number_with_its_origin():
    """What was asked for and what the queue may have stand in the finding."""
    number = judged("REF-002", recordings.embedded(OVER)).numbers[-1]
    assert (number.name, number.value, number.bound) == ("asked for", 12.0, 8.0)
    assert number.origin == "capability of the queue"


@pytest.mark.parametrize("row", ["REF-001", "REF-002"])
def test_what_stands_under_limits_alone_counts_against_the_capability(row):
    """Volcano leaves it out of minResources; the gang asks for it all the same."""

    def only_limits(obj):
        least = obj["spec"]["minResources"]
        obj["spec"]["minResources"] = {key: value for key, value in least.items() if "slots" not in key}

    base = recordings.embedded(OVER)
    changed = mutants.each(base, lambda line: line.kind.startswith("PodGroup"), only_limits)
    before, after = judged(row, base), judged(row, changed)
    assert (after.verdict, after.observed, after.numbers) == (before.verdict, before.observed, before.numbers)
    if row == "REF-001":
        assert after.verdict == "inconclusive"
        assert "that is the queue's limit, not the cluster's" in after.observed


def test_a_block_names_cause_and_fix_and_what_is_reserved():
    """The control says why (overcommit) and what to do."""
    finding = judged("REF-007", recordings.embedded(BLOCKS))
    assert finding.verdict == "pass"
    assert "overcommit" in finding.causes[0].text
    assert "delete the gang" in finding.causes[0].fix
    assert any(
        name.startswith("slots.") and amount == "15" for name, amount in finding.facts["reserved"].items()
    )


def test_a_gang_that_starts_beside_the_enqueued_one_is_not_blocked():
    """A scheduler without overcommit does not show the failure: inconclusive, never a violation."""
    base = recordings.embedded(BLOCKS)
    blocked = next(gang for gang in gangs.gangs(base) if gang.name.endswith("-blocked"))
    uids = {pod.uid for pod in blocked.pods}
    early = mutants.MUTANTS["refusal.not-blocked"].act(base)
    holder = next(gang for gang in gangs.gangs(base) if gang.name.endswith("-enqueued"))
    back = (blocked.whole or 0.0) - (holder.generations[-1].made or 0.0) - 0.05
    moved = [dataclasses.replace(line, t=line.t - back) if line.uid in uids else line for line in early.lines]
    finding = judged("REF-007", mutants.with_lines(early, moved))
    assert finding.verdict == "inconclusive"
    assert not finding.violation
    assert "does not block" in finding.observed


def test_a_scheduler_that_was_seen_and_then_falls_silent_is_told_from_a_name_that_nobody_serves():
    """The cause of pods without a word depends on whether a scheduler of that name was ever seen."""
    base = recordings.embedded(NOBODY)
    subject = next(gang for gang in gangs.gangs(base) if gang.name.endswith("-subject"))
    assert "schedulerName 'gpucluster-nobody'" in judged("REF-008", base).causes[0].text
    uids = {pod.uid for pod in subject.pods}
    served = mutants.each(
        base, lambda line: line.uid in uids, lambda obj: obj["spec"].update(schedulerName="volcano")
    )
    finding = judged("REF-008", served)
    assert finding.verdict == "pass"
    assert "it stopped or hangs" in finding.causes[0].text
