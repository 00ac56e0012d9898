"""What a queue, and those above it, may give: too small, full, promised to others, or more than they deserve."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose import queues
from pytest_gpucluster.diagnose.detect.suspecting import POSSIBLE, fault, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import wording
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.requirement import Cause


@dataclasses.dataclass(frozen=True)
class Refused:
    """A refusal for want of room: at which stage, what was seen, where that stands, and the scheduler's own words."""

    stage: Stage
    text: str
    keys: tuple[str, ...]
    words: str = ""


def amount(value: Fraction) -> str:
    """Return an amount as people write it; what has millions of units is bytes."""
    for unit in ("Ti", "Gi", "Mi"):
        size = quantities.parse_quantity(f"1{unit}")
        if value >= size and value % size == 0:
            return f"{value // size}{unit}"
    gib = 2**30
    return quantities.format_quantity(value) if value < gib else f"{float(value / gib):.1f}Gi"


def over_capability(s: Situation, resource: str, said: Refused) -> Suspect | None:
    """Return that the gang is larger than its queue, or one above it, may ever be."""
    asked = s.wanted.get(resource, Fraction(0))
    for level in queues.levels(s):
        limit = level.limit(resource)
        if limit is not None and asked > limit:
            cause = Cause(
                f"{s.who} asks for {amount(asked)} {resource}, but {level.title} may have {amount(limit)}",
                f"{s.fewer}, raise spec.capability of the queue, or use another queue",
            )
            return refusal(
                "over-capability", said.stage, cause, said.text, where=(s.title, f"Queue/{level.name}"),
                evidence=said.keys, rows=("REF-002",), look=_look_at(level.name), forever=True,
            )  # fmt: skip
    return None


def queue_full(s: Situation, resource: str, said: Refused) -> Suspect | None:
    """Return that what is in use leaves too little of what its queue, or one above it, may have."""
    asked = s.wanted.get(resource, Fraction(0))
    for level in queues.levels(s):
        limit, used = level.limit(resource), level.used(resource)
        if limit is None or not asked or used + asked <= limit:
            continue
        holders = _users(s, level)
        above = f", above its queue {s.queue_name}," if level.name != s.queue_name else ""
        cause = Cause(
            f"queue {level.name}{above} may have {amount(limit)} {resource}, {amount(used)} are in use, and "
            f"{s.who} asks for {amount(asked)}"
            + (f"; in use by {wording.listed(holders, 4)}" if holders else ""),
            "wait for the jobs in the queue, raise its spec.capability, or use another queue",
        )
        return refusal(
            "queue-full", said.stage, cause, said.text, evidence=said.keys, rows=("REF-002",),
            look=_look_at(level.name),
        )  # fmt: skip
    return None


def over_deserved(s: Situation, said: Refused) -> Suspect | None:
    """Return that the gang would bring a queue above what it deserves, where nodes have room for it."""
    for level in queues.levels(s):
        for resource, asked in s.wanted.items():
            deserved, used = level.deserved(resource), level.used(resource)
            if deserved is None or not asked or used + asked <= deserved:
                continue
            cause = Cause(
                f"nodes have room, and {level.title} deserves {amount(deserved)} {resource}: {amount(used)} are "
                f"in use, and {s.who} asks for {amount(asked)}; resources above spec.deserved may not be given",
                "check whether the scheduler's configuration has the plugin capacity (proportion does not look at "
                "spec.deserved); raise spec.deserved of the queue, wait for the jobs in it, or use another queue",
            )
            return refusal(
                "over-deserved", said.stage, cause, said.text, POSSIBLE, evidence=said.keys,
                where=(s.title, f"Queue/{level.name}"), rows=("REF-002",), look=_look_at(level.name),
            )  # fmt: skip
    return None


def _users(s: Situation, level: queues.Level) -> list[str]:
    """Return the gangs that hold places of a queue, or of one below it."""
    return [g.title for g in s.others if g.queue in level.below and any(p.bound is not None for p in g.pods)]


def _look_at(queue: str) -> tuple[str, ...]:
    return (f"kubectl get queues.scheduling.volcano.sh {queue} -o yaml",)


def reserved(gang: Gang, resource: str) -> Fraction:
    """Return what an enqueued gang asks for of a resource, and thereby keeps from others."""
    return fields.quantity(fields.sub(gang.groups[-1].last, "spec", "minResources").get(resource, 0))


def reserving(s: Situation, resource: str = "") -> list[Gang]:
    """Return gangs that were let in (Inqueue) and hold no place: they reserve what they asked for, most first."""
    found = []
    for gang in s.others:
        group = gang.groups[-1] if gang.groups else None
        if group is None or group.native or group.deleted is not None or not group.phases:
            continue
        placed = sum(p.bound is not None and p.deleted is None for p in gang.pods)
        waits = s.now - group.phases[-1][0] > s.patience
        if group.phases[-1][1] == "Inqueue" and placed < gang.minimum and waits:
            found.append(gang)
    if resource:
        found = [gang for gang in found if reserved(gang, resource)]
    return sorted(found, key=lambda gang: -reserved(gang, resource))


def queue_over(s: Situation, named: Sequence[str]) -> tuple[queues.Level, str, list[Gang]] | None:
    """Return (queue, resource, enqueued gangs) where a queue has promised more of a resource than it may give.

    The scheduler counts what runs, what is enqueued and what is asked for, also of what the gang needs none of.
    """
    for level in queues.levels(s):
        for resource in named or [str(r) for r in fields.sub(level.spec, "capability")]:
            limit = level.limit(resource)
            mine = [g for g in reserving(s, resource) if g.queue in level.below]
            if limit is None or not mine:
                continue
            asked = s.wanted.get(resource, Fraction(0))
            if level.used(resource) + sum(reserved(g, resource) for g in mine) + asked > limit:
                return level, resource, mine
    return None


def promised(s: Situation, over: tuple[queues.Level, str, list[Gang]], said: Refused) -> Suspect:
    """Return that an enqueued gang of the same queue, or of one beside it, has taken what may still be given."""
    level, resource, mine = over
    limit = amount(level.limit(resource) or Fraction(0))
    used = level.used(resource)
    kept = sum((reserved(g, resource) for g in mine), Fraction(0))
    asked = s.wanted.get(resource, Fraction(0))
    users = _users(s, level)
    by = f" ({wording.listed(users, 3)})" if users else ""
    own = f"{amount(asked)} asked for by this gang" if asked else "this gang asks for none"
    cause = Cause(
        f"queue {level.name} may have {limit} {resource}, and {amount(used + kept + asked)} of {limit} are "
        f"promised: {amount(used)} in use{by}, {amount(kept)} reserved by "
        f"{wording.listed([g.title for g in mine], 3)}, which is enqueued but cannot be placed; {own}",
        f"delete or shrink {mine[0].name} (its owner), or raise spec.capability of the queue: until then the "
        "queue accepts no gang of any size",
    )
    return fault(
        "blocked-by-enqueued", said.stage, cause, said.text, evidence=(*said.keys, mine[0].groups[-1].key),
        rows=("REF-007",), where=tuple(g.title for g in mine[:4]),
        look=_look_at(level.name),
    )  # fmt: skip
