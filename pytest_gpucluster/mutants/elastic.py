"""Departures of elastic jobs: worlds that do not form, form late or lose their checkpoint, and stores elsewhere."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Change, Training
from pytest_gpucluster.mutants import base

TRAINED = ("elastic-rank", "elastic-formed", "elastic-step", "elastic-broken")
LONG = 90.0
"""Seconds by which things happen later: more than any bound of the recorded profile."""


def _job(evidence: Evidence, name: str) -> Training | None:
    """Return the elastic job whose name ends so, None where the evidence has none."""
    for gang in gangs.gangs(evidence):
        if gang.name.endswith(name) and (story := elastic.training(evidence, gang)).began:
            return story
    return None


def _changes(evidence: Evidence, what: str) -> list[tuple[Training, Change]]:
    story = _job(evidence, "-training")
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
        story = _job(evidence, "-training")
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
    story = _job(evidence, "-training")
    if story is None or not first:
        return evidence

    def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG001
        if told.get("event") in ("elastic-formed", "elastic-broken") and told.get("name") != first:
            return None
        if told.get("event") == "elastic-step":
            told["name"] = first
        return told

    return base.words(evidence, act)


def _ended_with(code: int, name: str, chosen: Callable[[Evidence, stories.PodStory], bool]) -> base.Act:
    """Return the mutant in which containers of a job that ended did so with another code."""

    def mutant(evidence: Evidence) -> Evidence:
        story = _job(evidence, name)
        uids = {pod.uid for pod in (story.gang.pods if story else ()) if chosen(evidence, pod)}

        def change(obj: dict[str, Any]) -> None:
            for status in fields.items(obj, "status", "containerStatuses"):
                ended = fields.sub(status, "state").get("terminated")
                if isinstance(ended, dict):
                    ended["exitCode"] = code

        return base.each(evidence, lambda line: line.uid in uids, change)

    return mutant


def _finished(evidence: Evidence, pod: stories.PodStory) -> bool:  # noqa: ARG001
    return pod.finished is not None


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


def _said_anew(evidence: Evidence, uid: str, event: str, t: float, change: Mapping[str, Any]) -> Line | None:
    """Return a line like the last one in which a pod said an event, said again with other content."""
    last = payload_lines.words(evidence).last(event, uid)
    line = next((ln for ln in reversed(evidence.logs(uid)) if last is not None and ln.t == last.t), None)
    if last is None or line is None:
        return None
    text = f"{payload_lines.MARKER} {json.dumps({**last.data, **change})}"
    return dataclasses.replace(line, t=t, data={**line.data, "line": text})


def _trains_alone(name: str, by: float) -> base.Act:
    """Return the mutant in which a worker that its last loss left forms a world of its own and takes a step."""

    def mutant(evidence: Evidence) -> Evidence:
        story = _job(evidence, name)
        losses = [change for change in story.changes if change.what == elastic.LOST] if story else []
        if story is None or not losses:
            return evidence
        old = story.before(losses[-1].t)
        left = [uid for uid in (old.formed if old else ()) if uid not in losses[-1].uids]
        saved = max((s.step for w in story.worlds for s in w.steps if s.saved), default=0)
        alone = {
            "name": "0000000001", "world": 1, "rank": 0, "members": [0], "resumed": saved, "found": [saved],
        }  # fmt: skip
        steps = {**alone, "step": saved + 1}
        said = [
            _said_anew(evidence, left[0], "elastic-formed", losses[-1].t + by, alone),
            _said_anew(evidence, left[0], "elastic-step", losses[-1].t + by + 0.3, steps),
        ]
        return base.with_lines(evidence, [*evidence.lines, *(line for line in said if line is not None)])

    return mutant


def silent_end(evidence: Evidence) -> Evidence:
    """Let no log say that an agent waited in vain."""
    return base.without(
        evidence, lambda line: line.type == "LOG" and "Rendezvous" in str(line.data.get("line") or "")
    )


def once_more(evidence: Evidence) -> Evidence:
    """Let the rank that fails be started twice more than its agent may."""
    story = _job(evidence, "-storm")
    crashes = [w for w in payload_lines.words(evidence).of("elastic-crash") if story and story.pod(w.uid)]
    if not crashes:
        return evidence
    last = crashes[-1]
    said = [_said_anew(evidence, last.uid, "elastic-rank", last.t + 0.1 * n, {}) for n in (1, 2)]
    return base.with_lines(evidence, [*evidence.lines, *(line for line in said if line is not None)])


def neighbour_reforms(evidence: Evidence) -> Evidence:
    """Let the world of the job beside the storm form a second time."""
    story = _job(evidence, "-neighbour")
    if story is None or not story.worlds:
        return evidence
    world = story.worlds[0]
    again = _said_anew(
        evidence, min(world.formed), "elastic-formed", world.whole + 1.0, {"name": "0000000002"}
    )
    return base.with_lines(evidence, [*evidence.lines, *((again,) if again is not None else ())])


def host_kept(evidence: Evidence) -> Evidence:
    """Let the driver not have taken the host of the store away."""
    inert = _job(evidence, "-inert")
    uids = {pod.uid for pod in inert.gang.pods} if inert else set()
    return base.without(
        evidence, lambda line: line.data.get("note") == "deleted-by-us" and line.data.get("uid") in uids
    )


def _off(word: dict[str, Any]) -> bool:
    """Let the loss of step 6 be another."""
    if word["step"] == 6:
        word["loss"] *= 1.001
    return True


def _unsaved(word: dict[str, Any]) -> bool:
    """Let no checkpoint have been written."""
    word["saved"] = False
    return True


def stepped_between(evidence: Evidence) -> Evidence:
    """Let the job of which a rank fails take a step in one of its worlds."""
    story = _job(evidence, "-storm")
    other = _job(evidence, "-neighbour")
    if story is None or other is None or not story.worlds:
        return evidence
    world, donor = story.worlds[0], next(iter(other.worlds[0].formed))
    uid = min(world.formed)
    line = _said_anew(evidence, donor, "elastic-step", world.whole + 0.1, {"name": world.name, "step": 1})
    pod = story.pod(uid)
    if line is None or pod is None:
        return evidence
    told, _ = payload_lines.find(str(line.data["line"]))
    text = f"{payload_lines.MARKER} {json.dumps({**told[0], 'pod': pod.name, 'id': story.gang.name})}"
    moved = dataclasses.replace(line, data={**line.data, "uid": uid, "pod": pod.name, "line": text})
    return base.with_lines(evidence, [*evidence.lines, moved])


def _of_job(name: str, event: str, change: Callable[[dict[str, Any]], bool]) -> base.Act:
    """Return the mutant that changes what the ranks of a job say; where `change` returns False the line goes."""

    def mutant(evidence: Evidence) -> Evidence:
        story = _job(evidence, name)
        uids = {pod.uid for pod in story.gang.pods} if story else set()

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:
            mine = told.get("event") == event and line.data.get("uid") in uids
            return None if mine and not change(told) else told

        return base.words(evidence, act)

    return mutant


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


def _store(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes the pod with the store of the job that lives on."""

    def mutant(evidence: Evidence) -> Evidence:
        mine = [pod.uid for pod in stories.pods(evidence) if pod.name == "elastic-training-store"]
        return base.each(evidence, lambda line: line.uid in mine, change)

    return mutant


def on_gpu_node(evidence: Evidence) -> Evidence:
    """Let the store be on the node of the workers."""
    nodes = [pod.node for pod in stories.pods(evidence) if pod.name.startswith("elastic-training-0-")]

    def move(obj: dict[str, Any]) -> None:
        if obj["spec"].get("nodeName"):
            obj["spec"]["nodeName"] = nodes[0]

    return _store(move)(evidence) if nodes else evidence


def _ask_for_gpu(obj: dict[str, Any]) -> None:
    obj["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}


def _given(key: str, value: object) -> base.Act:
    """Return the mutant that tells judges something else."""

    def mutant(evidence: Evidence) -> Evidence:
        if key not in evidence.given:
            return evidence
        header = {**evidence.header, "given": {**evidence.given, key: value}}
        return Evidence(evidence.lines, header=header, spans=evidence.spans)

    return mutant


def _lack(word: dict[str, Any]) -> None:
    word.update(ok=False, modules={}, missing={"etcd": "ModuleNotFoundError: No module named 'etcd'"})


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
        "a worker below the minimum trains alone", _trains_alone("-training", 6.0), {"ELA-003": "fail"}
    ),
    "elastic.waits-long": base.Mutant(
        "the worker below the minimum gives up much later", _later(_after_last_loss), {"ELA-003": "fail"}
    ),
    "elastic.gives-up-with-0": base.Mutant(
        "the worker below the minimum ends with 0",
        _ended_with(0, "-training", _finished),
        {"ELA-003": "fail"},
    ),
    "elastic.gives-up-silently": base.Mutant(
        "no log says that an agent waited in vain", silent_end, {"ELA-003": "fail"}
    ),
    "elastic.started-too-often": base.Mutant(
        "the rank that fails is started more often than its agent may", once_more, {"ELA-004": "fail"}
    ),
    "elastic.storm-ends-with-0": base.Mutant(
        "the agents of the rank that fails end with 0",
        _ended_with(0, "-storm", _finished),
        {"ELA-004": "fail"},
    ),
    "elastic.crash-unseen": base.Mutant(
        "nobody saw the rank fail", base.drop("elastic-crash"), {"ELA-004": "inconclusive", "ELA-009": "fail"}
    ),
    "elastic.neighbour-reforms": base.Mutant(
        "the job beside the storm formed two worlds", neighbour_reforms, {"ELA-004": "fail"}
    ),
    "elastic.store-on-gpu-node": base.Mutant(
        "the store is on the node of the workers", on_gpu_node, {"ELA-005": "fail"}
    ),
    "elastic.store-asks-for-gpu": base.Mutant(
        "the pod with the store asks for a GPU", _store(_ask_for_gpu), {"ELA-005": "fail"}
    ),
    "elastic.gpus-everywhere": base.Mutant(
        "every node offers GPUs", _given("other_nodes", 0), {"ELA-005": "environment"}
    ),
    "elastic.client-missing": base.Mutant(
        "one worker's image lacks the client of etcd",
        base.on("elastic-client", _lack, alone=True),
        {"ELA-006": "fail"},
    ),
    "elastic.client-unasked": base.Mutant(
        "one worker did not say what its image has",
        base.drop("elastic-client", alone=True),
        {"ELA-006": "inconclusive"},
    ),
    "elastic.another-backend": base.Mutant(
        "the images were asked for another backend",
        base.on("elastic-client", lambda w: w.update(backend="etcd-v2")),
        {"ELA-006": "inconclusive"},
    ),
    "elastic.store-without-v2": base.Mutant(
        "the store is an etcd without the v2 API",
        base.on("elastic-endpoint", _no_v2),
        base.all_to("environment", "ELA-001 ELA-002 ELA-003 ELA-004 ELA-008 ELA-009"),
    ),
    "elastic.goes-on-without-host": base.Mutant(
        "the worker without its store trains on alone", _trains_alone("-inert", 2.0), {"ELA-007": "fail"}
    ),
    "elastic.host-ends-well": base.Mutant(
        "the worker without its store ends with 0", _ended_with(0, "-inert", _finished), {"ELA-007": "fail"}
    ),
    "elastic.host-kept": base.Mutant(
        "the driver did not take the host away",
        host_kept,
        {"ELA-007": "inconclusive"},
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
        _of_job("-training", "elastic-step", _off),
        {"ELA-008": "fail"},
    ),
    "elastic.nothing-saved": base.Mutant(
        "no checkpoint was written",
        _of_job("-training", "elastic-step", _unsaved),
        {"ELA-008": "inconclusive"},
    ),
    "elastic.steps-between": base.Mutant(
        "the job of which a rank fails takes a step", stepped_between, {"ELA-009": "inconclusive"}
    ),
    "elastic.worlds-unseen": base.Mutant(
        "nobody saw the worlds of the job of which a rank fails",
        _of_job("-storm", "elastic-formed", lambda _: False),
        {"ELA-009": "fail"},
    ),
}
