"""Departures of elastic jobs that end, of the store at which they meet, and of the image that they run in."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.elastic_jobs import (
    ended_with,
    finished,
    job_named,
    of_job,
    said_anew,
    trains_alone,
)


def once_more(evidence: Evidence) -> Evidence:
    """Let the rank that fails be started twice more than its agent may."""
    story = job_named(evidence, "-storm")
    crashes = [w for w in payload_lines.words(evidence).of("elastic-crash") if story and story.pod(w.uid)]
    if not crashes:
        return evidence
    last = crashes[-1]
    restarts = last.number("restarts") or 0
    said = [
        said_anew(evidence, last.uid, "elastic-rank", last.t + 0.1 * n, {"restarts": restarts + n})
        for n in (1, 2)
    ]
    return base.with_lines(evidence, [*evidence.lines, *(line for line in said if line is not None)])


def neighbour_reforms(evidence: Evidence) -> Evidence:
    """Let the world of the job beside the storm form a second time."""
    story = job_named(evidence, "-neighbour")
    if story is None or not story.worlds:
        return evidence
    world = story.worlds[0]
    again = said_anew(
        evidence, min(world.formed), "elastic-formed", world.whole + 1.0, {"name": "0000000002"}
    )
    return base.with_lines(evidence, [*evidence.lines, *((again,) if again is not None else ())])


def host_kept(evidence: Evidence) -> Evidence:
    """Let the driver not have taken the host of the store away."""
    inert = job_named(evidence, "-inert")
    uids = {pod.uid for pod in inert.gang.pods} if inert else set()
    return base.without(
        evidence, lambda line: line.data.get("note") == "deleted-by-us" and line.data.get("uid") in uids
    )


def stepped_between(evidence: Evidence) -> Evidence:
    """Let the job of which a rank fails take a step in one of its worlds."""
    story = job_named(evidence, "-storm")
    other = job_named(evidence, "-neighbour")
    if story is None or other is None or not story.worlds:
        return evidence
    world, donor = story.worlds[0], next(iter(other.worlds[0].formed))
    uid = min(world.formed)
    line = said_anew(evidence, donor, "elastic-step", world.whole + 0.1, {"name": world.name, "step": 1})
    pod = story.pod(uid)
    if line is None or pod is None:
        return evidence
    told, _ = payload_lines.find(str(line.data["line"]))
    text = f"{payload_lines.MARKER} {json.dumps({**told[0], 'pod': pod.name, 'id': story.gang.name})}"
    moved = dataclasses.replace(line, data={**line.data, "uid": uid, "pod": pod.name, "line": text})
    return base.with_lines(evidence, [*evidence.lines, moved])


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


MUTANTS: base.Table = {
    "elastic.started-too-often": base.Mutant(
        "the rank that fails is started more often than its agent may", once_more, {"ELA-004": "fail"}
    ),
    "elastic.storm-ends-with-0": base.Mutant(
        "the agents of the rank that fails end with 0",
        ended_with(0, "-storm", finished),
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
        {"ELA-006": "inconclusive", "ELA-007": "inconclusive"},
    ),
    "elastic.goes-on-without-host": base.Mutant(
        "the worker without its store trains on alone", trains_alone("-inert", 2.0), {"ELA-007": "fail"}
    ),
    "elastic.host-ends-well": base.Mutant(
        "the worker without its store ends with 0", ended_with(0, "-inert", finished), {"ELA-007": "fail"}
    ),
    "elastic.host-kept": base.Mutant(
        "the driver did not take the host away",
        host_kept,
        {"ELA-007": "inconclusive"},
    ),
    "elastic.steps-between": base.Mutant(
        "the job of which a rank fails takes a step", stepped_between, {"ELA-009": "inconclusive"}
    ),
    "elastic.worlds-unseen": base.Mutant(
        "nobody saw the worlds of the job of which a rank fails",
        of_job("-storm", "elastic-formed", lambda _: False),
        {"ELA-009": "fail"},
    ),
}
