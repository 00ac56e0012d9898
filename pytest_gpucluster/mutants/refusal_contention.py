"""Departures in how gangs compete: by priority within a queue, by weight between queues."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import evictions, queue_shares
from pytest_gpucluster.evidence.scheduling.gangs import Gang, gangs
from pytest_gpucluster.mutants import base


def take_below_minimum(evidence: Evidence) -> Evidence:
    """Let the gang that was preempted lose more of its members, until it has one fewer than it needs."""
    seen = [one for one in evictions.taken(evidence) if one.why == evictions.PREEMPT]
    if not seen:
        return evidence
    last, gen = seen[-1], seen[-1].generation
    when = last.t + 0.05
    staying = [pod for pod in evictions.staying(gen, when) if pod.uid != last.pod.uid]
    more = {pod.uid for pod in staying[max(gen.minimum - 1, 0) :]}

    def go(obj: dict[str, Any]) -> None:
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        obj.setdefault("status", {}).setdefault("conditions", []).append(condition)

    kept = [line for line in evidence.lines if line.uid not in more or line.t <= when]
    final: dict[str, Line] = {line.uid: line for line in kept if line.uid in more}
    for line in final.values():
        kept.append(dataclasses.replace(base.edited(line, go), t=when, type="MODIFIED"))
        kept.append(dataclasses.replace(base.edited(line, go), t=when + 0.01, type="DELETED"))
    return base.with_lines(evidence, kept)


def take_nobody(evidence: Evidence) -> Evidence:
    """Take away every sign that a scheduler evicted somebody."""

    def spare(obj: dict[str, Any]) -> None:
        status = obj.get("status", {})
        found = status.get("conditions") or []
        status["conditions"] = [c for c in found if c.get("type") != "DisruptionTarget"]

    quiet = base.without(evidence, lambda line: line.kind == "Event" and line.object.get("reason") == "Evict")
    return base.each(quiet, _marked, spare)


def _marked(line: Line) -> bool:
    found = line.object.get("status", {}).get("conditions") or [] if line.kind == "Pod" else []
    return any(condition.get("type") == "DisruptionTarget" for condition in found)


def _unbound(evidence: Evidence, pods: list[PodStory]) -> Evidence:
    uids = {pod.uid for pod in pods}

    def unbind(obj: dict[str, Any]) -> None:
        obj.get("spec", {}).pop("nodeName", None)
        obj["status"] = {"phase": "Pending"}

    return base.each(evidence, lambda line: line.uid in uids, unbind)


def give_nothing_back(evidence: Evidence) -> Evidence:
    """Leave the gangs of the queue of the largest weight without a place."""
    found = queue_shares.tenants(evidence)
    if len({tenant.weight for tenant in found}) < 2:
        return evidence
    due = max(found, key=lambda tenant: tenant.weight)
    return _unbound(evidence, [pod for gang in due.gangs for pod in gang.pods])


def equal_weights(evidence: Evidence) -> Evidence:
    """Give all queues the same weight."""

    def weigh(obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {})["weight"] = 1

    heavy = {tenant.name for tenant in queue_shares.tenants(evidence) if tenant.weight > 1}
    return base.each(evidence, lambda line: line.kind == "Queue" and line.name in heavy, weigh)


def _high(evidence: Evidence) -> list[Gang]:
    """Return the gangs of priority, where there are others too, in order of appearance."""
    ranks = [(gang, evictions.priority(evidence, gang) or 0) for gang in gangs(evidence)]
    top = max((rank for _, rank in ranks), default=0)
    return [gang for gang, rank in ranks if rank == top] if len({rank for _, rank in ranks}) > 1 else []


def high_never_placed(evidence: Evidence) -> Evidence:
    """Leave the first gang of priority, which waited for room beside another, without a place."""
    return _unbound(evidence, [pod for gang in _high(evidence)[:1] for pod in gang.pods])


def taken_in_vain(evidence: Evidence) -> Evidence:
    """Leave all later gangs of priority, for which others gave way, without a place."""
    return _unbound(evidence, [pod for gang in _high(evidence)[1:] for pod in gang.pods])


def priorities_reversed(evidence: Evidence) -> Evidence:
    """Turn the priorities of all pods round: what was the highest is the lowest."""
    ranks = {evictions.priority(evidence, gang) or 0 for gang in gangs(evidence)}
    if len(ranks) < 2:
        return evidence
    both = max(ranks) + min(ranks)

    def turn(obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {})["priority"] = both - int(obj["spec"].get("priority") or 0)

    uids = {pod.uid for gang in gangs(evidence) for pod in gang.pods}
    return base.each(evidence, lambda line: line.uid in uids, turn)


MUTANTS: base.Table = {
    "refusal.take-below-minimum": base.Mutant(
        "the gang that gives up members also loses members that it needs",
        take_below_minimum,
        {"REF-006": "fail"},
    ),
    "refusal.take-nobody": base.Mutant(
        "nothing shows that anything was evicted",
        take_nobody,
        {"REF-006": "inconclusive", "REF-009": "inconclusive", "LIFE-014": "inconclusive"},
    ),
    "refusal.give-nothing-back": base.Mutant(
        "the queue with more weight gets nothing", give_nothing_back, {"REF-009": "fail"}
    ),
    "refusal.equal-weights": base.Mutant(
        "the queues have the same weight", equal_weights, {"REF-009": "inconclusive"}
    ),
    "lifecycle.high-never-placed": base.Mutant(
        "the waiting gang of higher priority is not placed", high_never_placed, {"LIFE-013": "inconclusive"}
    ),
    "lifecycle.taken-in-vain": base.Mutant(
        "the gang for which others were evicted is not placed", taken_in_vain, {"LIFE-014": "inconclusive"}
    ),
    "lifecycle.priorities-reversed": base.Mutant(
        "the lowest priority becomes the highest",
        priorities_reversed,
        {"LIFE-013": "fail", "LIFE-014": "fail"},
    ),
}
