"""What a judge is told (`given`) and what it takes for granted where it is told nothing."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling import gangs, half_placement, schedulers
from pytest_gpucluster.judge import vendors
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Finding

Given = Mapping[str, Any]


class Judge(Protocol):
    """A judge: a pure function of evidence, and of what is known beside it."""

    def __call__(self, evidence: Evidence, given: Given | None = None) -> Finding:
        """Return the finding; without `given` the judge goes by what the evidence's own header says."""


def judge(decide: Callable[[Evidence, Given], Finding]) -> Judge:
    """Let a judge be called on evidence alone; `given` is then what the evidence's own header says."""

    @functools.wraps(decide)
    def judged(evidence: Evidence, given: Given | None = None) -> Finding:
        terms = evidence.given if given is None else given
        return vendors.worded(decide(evidence, terms), str(terms.get("gpu_resource") or ""))

    return judged


DEFAULT_PERIOD = 1.0
"""Seconds between two sessions of Volcano's scheduler as shipped (`--schedule-period`)."""

WINDOW_PERIODS = 3
"""A window lasts at least so many scheduler periods (catalogue, rule 1)."""

HALF_PERIODS = 2
"""A gang bound in part for longer than so many periods is half placed: binds of one session are asynchronous."""

SILENT = 5.0
"""Seconds after which a PodGroup without a phase means that no scheduler looks at it (Volcano v1.14.4, recorded)."""

EPSILON = 1e-3
"""Seconds by which a timer may fire early."""

OBJECT_CLOCK_GRAIN = 1.0
"""Seconds by which a difference of two whole-second time stamps may exceed the true one."""


@dataclasses.dataclass(frozen=True)
class Terms:
    """The terms of a judgement, in seconds where they are times.

    Attributes:
        period: scheduler period.
        window: how long something must be seen to hold.
        tolerance: how long a gang may be bound in part without being half placed.
        scheduler: the declared gang scheduler, "" where none is declared.
        arranged: the evidence is of a scenario of ours, which names roles; else it is a recording, read as it is.
        grain: what a difference of two times may be too large by, because of the clock.
        silent: how long a PodGroup without a phase may be called "not yet seen by the scheduler".
    """

    period: float
    window: float
    tolerance: float
    scheduler: str
    arranged: bool
    grain: float
    silent: float


def seconds(given: Given, *keys: str) -> float | None:
    """Return the first of several keys of `given`, or of its `budgets`, that holds a positive number."""
    for key in keys:
        for place in (given, fields.sub(given, "budgets")):
            value: object = place.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(value)
    return None


PLACED_WITHIN = 60.0
"""Seconds in which a gang that fits is placed where no budget is given; recorded of real Volcano: 0.7 to 3 s."""

LATE = 0.5
"""Seconds by which a line may be received later than what it tells, on a busy machine."""


def placed_within(given: Given, *budgets: str) -> float:
    """Return the seconds in which a gang must be placed: the sum of these budgets (`bind` alone where none is named).

    A wait of the driver ends then, so that what comes later came too late also where nobody waited.
    """
    found = [value for name in budgets or ("bind",) if (value := seconds(given, name)) is not None]
    return sum(found) + LATE if found else PLACED_WITHIN


def count(given: Given, key: str) -> int | None:
    """Return a positive whole number of `given`, None where there is none."""
    value = fields.number(given, key)
    return value if value is not None and value > 0 else None


def of(evidence: Evidence, given: Given) -> Terms:
    """Return the terms: what is given, else the defaults above."""
    period = seconds(given, "period", "scheduler_period") or DEFAULT_PERIOD
    spread = seconds(given, "spread", "bind_spread") or 0.0
    grain = OBJECT_CLOCK_GRAIN if evidence.clock == "object" else 0.0
    return Terms(
        period=period,
        window=max(seconds(given, "window") or 0.0, WINDOW_PERIODS * period) + grain,
        tolerance=max(HALF_PERIODS * period, spread) + grain,
        scheduler=str(given.get("scheduler") or ""),
        arranged=bool(roles(evidence, given)),
        grain=grain,
        silent=(seconds(given, "enqueue") or SILENT) + grain,
    )


Member = tuple[str, str, str]
"""(kind key, name, uid) of something that plays a role; parts may be empty."""

ROLE_KEYS = (
    "subject", "control", "blocker", "contrast", "left", "right", "loser", "winner", "no-plugin", "wrong-master",
    "wrong-worker", "documented", "robust", "enqueued", "blocked", "neighbour", "held", "unanswered", "endpoint",
    "subdomain", "stalled", "over-quota", "unlabelled", "unknown-queue", "training", "storm", "inert", "ssh", "mpi",
    "unplugged",
    "any-of", "all-of", "bounded", "recovers", "fails-at-once", "in-order", "after-ready", "after-complete", "across",
)  # fmt: skip


def roles(evidence: Evidence, given: Given) -> dict[str, tuple[Member, ...]]:
    """Return who plays which role: from `given`, else from the notes of submission, else from labels.

    `given["roles"]` maps a role to a list of {kind, name, uid}; a role may also stand in `given` itself, as such a
    list, one such mapping, or a name.
    """
    found: dict[str, list[Member]] = {}
    stated = fields.sub(given, "roles")
    for role in (*stated, *ROLE_KEYS):
        for member in _members(stated.get(role) if role in stated else given.get(role)):
            found.setdefault(str(role), []).append(member)
    if not found:
        for note in evidence.notes("submitted"):
            played = note.data.get("role")
            if played:
                found.setdefault(str(played), []).append(_member(note.data))
    if not found:
        for gang in gangs.gangs(evidence):
            label = fields.sub(gang.job.last if gang.job else {}, "metadata", "labels").get(names.LABEL_ROLE)
            if label:
                found.setdefault(str(label), []).append((gang.kind, gang.name, gang.uid))
    return {role: tuple(dict.fromkeys(members)) for role, members in found.items()}


def _members(value: object) -> list[Member]:
    if isinstance(value, str) and value:
        return [("", value, "")]
    if isinstance(value, Mapping):
        return [_member(value)]
    if isinstance(value, Sequence):
        return [member for one in value for member in _members(one)]
    return []


def _member(data: Mapping[str, Any]) -> Member:
    return str(data.get("kind") or ""), str(data.get("name") or ""), str(data.get("uid") or "")


def plays(gang: gangs.Gang, members: Iterable[Member]) -> bool:
    """Report whether a gang is one of these: by uid, else by name and kind."""
    for kind, name, uid in members:
        if uid and gang.uid == uid:
            return True
        if name and gang.name == name and (not kind or kind == gang.kind) and (not uid or not gang.uid):
            return True
    return False


def cast(evidence: Evidence, given: Given, *wanted: str) -> tuple[gangs.Gang, ...] | None:
    """Return the gangs that play one of these roles; None where no role is known at all."""
    known = roles(evidence, given)
    members = [member for role in wanted for member in known.get(role, ())]
    if not known or (not members and not any(role in ROLE_KEYS for role in known)):
        return None
    told = set(wanted) - {"control", "blocker", "neighbour", "enqueued", "blocked"}
    found = [gang for gang in gangs.gangs(evidence) if plays(gang, members)]
    return tuple(adjust(gang, given) if told else gang for gang in found)


def first(evidence: Evidence, given: Given, *wanted: str) -> gangs.Gang | None:
    """Return the first gang that plays one of these roles; None where there is none, or no role is known."""
    named = cast(evidence, given, *wanted)
    return named[0] if named else None


def uids(gang: gangs.Gang | None) -> frozenset[str] | None:
    """Return the uids of a gang's pods; None, which stands for all pods, where there is no gang."""
    return None if gang is None else frozenset(pod.uid for pod in gang.pods)


def everyone(evidence: Evidence) -> tuple[gangs.Gang, ...]:
    """Return all gangs of the evidence."""
    return gangs.gangs(evidence)


def placed(evidence: Evidence) -> tuple[gangs.Gang, ...]:
    """Return the gangs that may show how gangs are placed: all but those that were over when they were first seen.

    All of them where none is left, so that a judge can say what it saw.
    """
    every = gangs.gangs(evidence)
    return tuple(gang for gang in every if not half_placement.was_over(gang)) or every


def adjust(gang: gangs.Gang, given: Given) -> gangs.Gang:
    """Return a gang with the minimum and size that `given` declares, where it does."""
    minimum, size = count(given, "min_member"), count(given, "members")
    if minimum is None or minimum == gang.minimum:
        return gang if size is None else dataclasses.replace(gang, size=size)
    generations = tuple(dataclasses.replace(gen, minimum=minimum) for gen in gang.generations)
    return dataclasses.replace(gang, generations=generations, size=size or max(gang.size, minimum))


def gave_up(evidence: Evidence, start: float, end: float) -> bool:
    """Report whether a wait of the driver expired between two times: its budget is then the bound that was missed."""
    return any(start <= note.t <= end for note in evidence.notes("timed-out"))


def silent(evidence: Evidence, given: Given, start: float, end: float) -> bool:
    """Report whether something that did not happen between two times counts as not happening at all."""
    return end - start > of(evidence, given).silent or gave_up(evidence, start, end)


def windows(evidence: Evidence) -> tuple[tuple[float, float], ...]:
    """Return the windows that the driver noted, as (begin, end); one without an end lasts to the evidence's end."""
    found: list[tuple[float, float]] = []
    begin: float | None = None
    for note in evidence.notes():
        word = note.data.get("note")
        if word == "window-begin":
            begin = note.t
        elif word == "window-end" and begin is not None:
            found.append((begin, note.t))
            begin = None
    return tuple(found)


def nothing(evidence: Evidence, what: str = "gang") -> str:
    """Return why nothing can be judged: a create call that was refused, if there was one."""
    for note in evidence.notes("refused"):
        return f"no {what}: {note.data.get('kind')}/{note.data.get('name')} was refused, HTTP {note.data.get('code')}"
    return f"no {what} in the evidence"


def timed_out(evidence: Evidence, after: float = 0.0, before: float = math.inf) -> tuple[str, str] | None:
    """Return (what a wait of the driver waited for in vain, key of its note) between two times."""
    for note in evidence.notes("timed-out"):
        if after <= note.t <= before:
            return f"{note.data.get('what') or 'a wait'} after {note.data.get('seconds', '?')} s", note.key
    return None


def currency(evidence: Evidence, given: Given, gang: gangs.Gang | None = None) -> str | None:
    """Return what was scarce: slots, gpu or quota; None where it cannot be told."""
    stated = given.get("currency")
    if stated:
        return str(stated)
    resource = str(given.get("resource") or "")
    asked = [resource] if resource else []
    some: Iterable[PodStory] = gang.pods[:1] if gang is not None and gang.pods else pods(evidence)[:1]
    for pod in some:
        asked += fields.scarce_resources(pod.last)
    for one in asked:
        if one.startswith(names.SLOT_PREFIX):
            return "slots"
        if one.endswith("/gpu"):
            return "gpu"
    return None


def gang_scheduler(gang: gangs.Gang) -> bool:
    """Report whether the pods of a gang are placed by something that can place gangs whole."""
    group = gang.groups[-1] if gang.groups else None
    return schedulers.placing(
        gang.scheduler,
        native_gang=bool(group and group.native and group.minimum),
        volcano_group=bool(group and not group.native),
    ).whole


def of_the_row(evidence: Evidence, given: Given) -> tuple[gangs.Gang, ...]:
    """Return the gangs that a row is about, without those that are there to block or to compare."""
    named = cast(evidence, given, *(role for role in ROLE_KEYS if role not in ("blocker", "control")))
    return named if named is not None else placed(evidence)
