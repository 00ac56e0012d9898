"""Departures of elastic jobs: worlds that do not form, form late or lose their checkpoint, and stores elsewhere."""

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Change, Training
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.elastic_jobs import (
    ended_with,
    finished,
    job_named,
    of_job,
    trains_alone,
)

TRAINED = ("elastic-rank", "elastic-formed", "elastic-step", "elastic-broken")
LONG = 90.0
"""Seconds by which things happen later: more than any bound of the recorded profile."""


def _changes(evidence: Evidence, what: str) -> list[tuple[Training, Change]]:
    story = job_named(evidence, "-training")
    return [] if story is None else [(story, change) for change in story.changes if change.what == what]


def _later(chosen: Callable[[Evidence], float | None]) -> base.Act:
    """Return the mutant that lets everything from a time on happen later."""

    def mutant(evidence: Evidence) -> Evidence:
        t = chosen(evidence)
        return evidence if t is None else base.later(evidence, t, LONG)

    return mutant


def _after_first_loss(evidence: Evidence) -> float | None:
    found = _changes(evidence, elastic.LOST)
    return found[0][1].t + 0.5 if found else None


def _after_last_loss(evidence: Evidence) -> float | None:
    found = _changes(evidence, elastic.LOST)
    return found[-1][1].t + 0.5 if found else None


def _after_newcomer(evidence: Evidence) -> float | None:
    for story, change in _changes(evidence, elastic.BACK):
        ran = [pod.running for pod in story.gang.pods if pod.running is not None and pod.running > change.t]
        if ran:
            return min(ran) + 0.1
    return None


def _of_world(number: int) -> Callable[[Evidence], str]:
    """Return how the world of that number, from 0, of the job that lives on is called."""

    def name(evidence: Evidence) -> str:
        story = job_named(evidence, "-training")
        return story.worlds[number].name if story is not None and len(story.worlds) > number else ""

    return name


def _unsaid(name: Callable[[Evidence], str], *events: str) -> base.Act:
    """Return the mutant in which nobody says some events of a world."""

    def mutant(evidence: Evidence) -> Evidence:
        world = name(evidence)

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG001
            gone = world and told.get("name") == world and told.get("event") in events
            return None if gone else told

        return base.words(evidence, act)

    return mutant


def newcomer_at_once(evidence: Evidence) -> Evidence:
    """Let nobody have seen the smaller world, and room come back by itself: the replacement took the place at once."""
    if not _changes(evidence, elastic.BACK):
        return evidence
    less = _unsaid(_of_world(1), "elastic-formed", "elastic-step")(evidence)

    def grows(line: Line) -> bool:
        more = (fields.number(line.data, "slots") or 0) > (fields.number(line.data, "was") or 0)
        return line.type == "NOTE" and line.data.get("note") == "slots-set" and more

    return base.without(less, grows)


def ghost(evidence: Evidence) -> Evidence:
    """Let the first world take the steps of all later ones: the rank of the lost pod still takes part."""
    first = _of_world(0)(evidence)
    story = job_named(evidence, "-training")
    if story is None or not first:
        return evidence

    def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG001
        if told.get("event") in ("elastic-formed", "elastic-broken") and told.get("name") != first:
            return None
        if told.get("event") == "elastic-step":
            told["name"] = first
        return told

    return base.words(evidence, act)


def survivors_end(evidence: Evidence) -> Evidence:
    """Let the workers that the first loss left end with an error, and no world form any more."""
    found = _changes(evidence, elastic.LOST)
    if not found:
        return evidence
    story, change = found[0]
    left = {uid for uid in story.worlds[0].formed if uid not in change.uids}

    def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:
        return None if told.get("event") in TRAINED and line.t > change.t else told

    def fail(obj: dict[str, Any]) -> None:
        status = obj.setdefault("status", {})
        status["phase"] = "Failed"
        ended = {"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        status["containerStatuses"] = [ended]

    silent = base.words(evidence, act)
    last = {uid: silent.history(uid)[-1] for uid in left}
    told = [
        dataclasses.replace(base.edited(line, fail), t=change.t + 1.0, type="MODIFIED")
        for line in last.values()
    ]
    kept = [line for line in silent.lines if not (line.uid in left and line.t > change.t)]
    for line in told:
        line.object["metadata"].pop("deletionTimestamp", None)
    return base.with_lines(silent, [*kept, *told])


def silent_end(evidence: Evidence) -> Evidence:
    """Let no log say that an agent waited in vain."""
    return base.without(
        evidence, lambda line: line.type == "LOG" and "Rendezvous" in str(line.data.get("line") or "")
    )


def _later_worlds(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes what is said of every world of the job that lives on but its first."""

    def mutant(evidence: Evidence) -> Evidence:
        first = _of_world(0)(evidence)

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
            mine = told.get("event") == "elastic-formed" and told.get("id") == "elastic-training"
            if mine and first and told.get("name") != first:
                change(told)
            return told

        return base.words(evidence, act)

    return mutant


def _off(word: dict[str, Any]) -> bool:
    """Let the loss of step 6 be another."""
    if word["step"] == 6:
        word["loss"] *= 1.001
    return True


def _unsaved(word: dict[str, Any]) -> bool:
    """Let no checkpoint have been written."""
    word["saved"] = False
    return True


def _no_v2(word: dict[str, Any]) -> None:
    word.update(ok=False, kind="no-v2", version="3.6.4", error="etcd 3.6.4 answered 404 to /v2/keys")


MUTANTS: base.Table = {
    "elastic.reforms-late": base.Mutant(
        "after the first loss everything happens much later", _later(_after_first_loss), {"ELA-001": "fail"}
    ),
    "elastic.survivors-end": base.Mutant(
        "the workers that the first loss left end, and no world forms any more",
        survivors_end,
        {"ELA-001": "fail", **base.all_to("inconclusive", "ELA-002 ELA-003 ELA-008")},
    ),
    "elastic.ghost": base.Mutant(
        "the first world goes on with the rank of the lost pod",
        ghost,
        {"ELA-001": "fail", **base.all_to("inconclusive", "ELA-002 ELA-003 ELA-008")},
    ),
    "elastic.newcomer-at-once": base.Mutant(
        "no smaller world was seen before the larger one",
        newcomer_at_once,
        base.all_to("inconclusive", "ELA-001 ELA-002 ELA-008"),
    ),
    "elastic.no-step": base.Mutant(
        "the smaller world takes no step",
        _unsaid(_of_world(1), "elastic-step"),
        base.all_to("inconclusive", "ELA-001 ELA-002 ELA-008"),
    ),
    "elastic.grows-late": base.Mutant(
        "after the newcomer's start everything happens much later",
        _later(_after_newcomer),
        {"ELA-002": "fail"},
    ),
    "elastic.not-taken-in": base.Mutant(
        "nobody saw the larger world form",
        _unsaid(_of_world(2), "elastic-formed", "elastic-step", "elastic-broken"),
        base.all_to("inconclusive", "ELA-002 ELA-008"),
    ),
    "elastic.grown-without-a-step": base.Mutant(
        "the larger world takes no step",
        _unsaid(_of_world(2), "elastic-step"),
        base.all_to("inconclusive", "ELA-002 ELA-008"),
    ),
    "elastic.trains-below": base.Mutant(
        "a worker below the minimum trains alone", trains_alone("-training", 6.0), {"ELA-003": "fail"}
    ),
    "elastic.waits-long": base.Mutant(
        "the worker below the minimum gives up much later", _later(_after_last_loss), {"ELA-003": "fail"}
    ),
    "elastic.gives-up-with-0": base.Mutant(
        "the worker below the minimum ends with 0",
        ended_with(0, "-training", finished),
        {"ELA-003": "fail"},
    ),
    "elastic.gives-up-silently": base.Mutant(
        "no log says that an agent waited in vain", silent_end, {"ELA-003": "fail"}
    ),
    "elastic.store-without-v2": base.Mutant(
        "the store is an etcd without the v2 API",
        base.on("elastic-endpoint", _no_v2),
        base.all_to("environment", "ELA-001 ELA-002 ELA-003 ELA-004 ELA-008 ELA-009"),
    ),
    "elastic.begins-anew": base.Mutant(
        "later worlds begin at the first step",
        _later_worlds(lambda w: w.update(resumed=0)),
        {"ELA-008": "fail"},
    ),
    "elastic.volume-apart": base.Mutant(
        "the ranks of later worlds find different checkpoints",
        _later_worlds(lambda w: w.update(found=[0, *w["found"][1:]])),
        {"ELA-008": "fail"},
    ),
    "elastic.loss-differs": base.Mutant(
        "one loss is not that of an unbroken run",
        of_job("-training", "elastic-step", _off),
        {"ELA-008": "fail"},
    ),
    "elastic.nothing-saved": base.Mutant(
        "no checkpoint was written",
        of_job("-training", "elastic-step", _unsaved),
        {"ELA-008": "inconclusive"},
    ),
}
