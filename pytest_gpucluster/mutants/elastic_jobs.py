"""What mutants of elastic jobs share: the job of a recording, and ways to let it say or end otherwise."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Training
from pytest_gpucluster.mutants import base


def job_named(evidence: Evidence, name: str) -> Training | None:
    """Return the elastic job whose name ends so, None where the evidence has none."""
    for gang in gangs.gangs(evidence):
        if gang.name.endswith(name) and (story := elastic.training(evidence, gang)).began:
            return story
    return None


def ended_with(code: int, name: str, chosen: Callable[[Evidence, stories.PodStory], bool]) -> base.Act:
    """Return the mutant in which containers of a job that ended did so with another code."""

    def mutant(evidence: Evidence) -> Evidence:
        story = job_named(evidence, name)
        uids = {pod.uid for pod in (story.gang.pods if story else ()) if chosen(evidence, pod)}

        def change(obj: dict[str, Any]) -> None:
            for status in fields.items(obj, "status", "containerStatuses"):
                ended = fields.sub(status, "state").get("terminated")
                if isinstance(ended, dict):
                    ended["exitCode"] = code

        return base.each(evidence, lambda line: line.uid in uids, change)

    return mutant


def finished(evidence: Evidence, pod: stories.PodStory) -> bool:  # noqa: ARG001
    """Report whether a pod came to an end of its own."""
    return pod.finished is not None


def said_anew(evidence: Evidence, uid: str, event: str, t: float, change: Mapping[str, Any]) -> Line | None:
    """Return a line like the last one in which a pod said an event, said again with other content."""
    last = payload_lines.words(evidence).last(event, uid)
    line = next((ln for ln in reversed(evidence.logs(uid)) if last is not None and ln.t == last.t), None)
    if last is None or line is None:
        return None
    text = f"{payload_lines.MARKER} {json.dumps({**last.data, **change})}"
    return dataclasses.replace(line, t=t, data={**line.data, "line": text})


def trains_alone(name: str, by: float) -> base.Act:
    """Return the mutant in which a worker that its last loss left forms a world of its own and takes a step."""

    def mutant(evidence: Evidence) -> Evidence:
        story = job_named(evidence, name)
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
            said_anew(evidence, left[0], "elastic-formed", losses[-1].t + by, alone),
            said_anew(evidence, left[0], "elastic-step", losses[-1].t + by + 0.3, steps),
        ]
        return base.with_lines(evidence, [*evidence.lines, *(line for line in said if line is not None)])

    return mutant


def of_job(name: str, event: str, change: Callable[[dict[str, Any]], bool]) -> base.Act:
    """Return the mutant that changes what the ranks of a job say; where `change` returns False the line goes."""

    def mutant(evidence: Evidence) -> Evidence:
        story = job_named(evidence, name)
        uids = {pod.uid for pod in story.gang.pods} if story else set()

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:
            mine = told.get("event") == event and line.data.get("uid") in uids
            return None if mine and not change(told) else told

        return base.words(evidence, act)

    return mutant
