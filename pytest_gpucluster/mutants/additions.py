"""Departures that are there besides: nothing that was seen is missing, and one thing more was seen."""

import copy
import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs, volcano_jobs
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

DUMP = (
    "Timeout (0:00:01)!",
    "Thread 0x00007f0000000000 (most recent call first):",
    '  File "/workspace/stall.py", line 70 in restore_checkpoint',
)
"""What faulthandler writes."""


def stored_all_the_same(evidence: Evidence) -> Evidence:
    """Let a Job that admission refused be stored all the same."""
    refused = [
        line
        for line in evidence.responses()
        if line.data.get("case") and (fields.number(line.data, "code") or 0) >= 400 and _job(line)
    ]
    if not refused:
        return evidence
    first = refused[0]
    name = _job(first)
    meta = {"name": name, "namespace": str(evidence.given.get("namespace") or ""), "uid": f"stored-{name}"}
    stored = _stored(first, meta)
    return base.with_lines(evidence, (*evidence.lines, stored))


def _job(line: Line) -> str:
    """Return the name of the Volcano Job that a request was to create, "" for others."""
    verb, _, name = str(line.data.get("request") or "").partition("/")
    return name if verb == f"create {names.VC_JOB}" else ""


def _stored(after: Line, meta: dict[str, Any]) -> Line:
    """Return the watch line of a Volcano Job that appears right after an answer."""
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": {"tasks": []}}
    return dataclasses.replace(after, t=after.t + 1e-3, type="ADDED", kind=names.VC_JOB, object=job, data={})


def one_of_many_bound(evidence: Evidence) -> Evidence:
    """Let one member of a Volcano Job whose gang got no pods have been made and bound."""
    found = gangs.gangs(evidence)
    empty = next((gang for gang in found if gang.kind == names.VC_JOB and not gang.pods), None)
    sound = next((pod for gang in found for pod in gang.pods if pod.bound is not None), None)
    if empty is None or empty.job is None or sound is None:
        return evidence
    job = empty.job
    bound = next(line for line in evidence.history(sound.uid) if fields.text(line.object, "spec", "nodeName"))
    group = empty.groups[-1].name if empty.groups else ""

    def adopt(obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        meta.update(name=f"{job.name}-worker-0", uid=f"bound-{job.name}")
        meta["labels"] = {**meta.get("labels", {}), "volcano.sh/job-name": job.name}
        meta["annotations"] = {
            **meta.get("annotations", {}), "volcano.sh/job-name": job.name, "scheduling.k8s.io/group-name": group,
        }  # fmt: skip
        meta["ownerReferences"] = [
            {**owner, "name": job.name, "uid": empty.uid} for owner in meta.get("ownerReferences", [])
        ]

    t = job.created + 0.6 * (volcano_jobs.end_of_story(evidence) - job.created) if job.created else bound.t
    made = dataclasses.replace(base.edited(bound, adopt), t=min(t, bound.t), type="ADDED")
    return base.with_lines(evidence, (*evidence.lines, made))


def runs_again(evidence: Evidence) -> Evidence:
    """Let each Job that is Completed be told as Running once more, and as Completed after that."""
    more: list[Line] = []
    for gang in gangs.gangs(evidence):
        if gang.kind != names.VC_JOB or gang.job is None:
            continue
        done = next((line for line in evidence.history(gang.uid) if _phase(line) == "Completed"), None)
        if done is not None and done.t < volcano_jobs.end_of_story(evidence):
            again = base.edited(done, lambda obj: obj["status"]["state"].update(phase="Running"))
            more += [
                dataclasses.replace(again, t=done.t + 1e-4, type="MODIFIED"),
                dataclasses.replace(done, t=done.t + 2e-4, type="MODIFIED"),
            ]
    return base.with_lines(evidence, (*evidence.lines, *more)) if more else evidence


def _phase(line: Line) -> str:
    return fields.text(line.object, "status", "state", "phase")


def others_accused(evidence: Evidence) -> Evidence:
    """Let a rank that went on be named as standing, in a dump like that of the one that stands."""
    words = payload_lines.words(evidence)
    stuck = {word.uid for word in words.of("place")} - {
        word.uid for word in words.of("passed") if word.data.get("place") == "data"
    }
    sound = next((word for word in words.of("passed") if word.uid not in stuck), None)
    line = None if sound is None else next((ln for ln in evidence.logs(sound.uid)), None)
    if line is None or not stuck:
        return evidence
    last = max(ln.t for ln in evidence.logs(str(line.data.get("uid"))))
    dump = [
        dataclasses.replace(line, t=last + n * 1e-5, data={**line.data, "line": text})
        for n, text in enumerate(DUMP, 1)
    ]
    return base.with_lines(evidence, (*evidence.lines, *dump))


def floor_without_origin(evidence: Evidence) -> Evidence:
    """Let the profile declare one floor more, of which nobody says for which nodes it holds."""
    given = copy.deepcopy(dict(evidence.header.get("given") or {}))
    floors = (given.get("fabric") or {}).get("floors")
    if not floors:
        return evidence
    floors.append({"collective": "all_reduce", "size": 1 << 30, "busbw": 100.0, "origin": "a colleague"})
    return Evidence(evidence.lines, header={**evidence.header, "given": given}, spans=evidence.spans)


def policy_after_all(evidence: Evidence) -> Evidence:
    """Let every Job without a policy for it complete with its first task."""
    policy = {"event": "TaskCompleted", "action": "CompleteJob"}
    bare = {
        gang.uid
        for gang in gangs.gangs(evidence)
        if gang.kind == names.VC_JOB and gang.job is not None and not list(volcano_jobs.all_policies(gang))
    }

    def act(obj: dict[str, Any]) -> None:
        tasks = obj["spec"].get("tasks") or []
        if tasks:
            tasks[0]["policies"] = [policy]

    return base.each(evidence, lambda line: line.uid in bare and line.kind == names.VC_JOB, act)


MUTANTS: base.Table = {
    "refusal.stored-all-the-same": base.Mutant(
        "a refused Job is stored anyway", stored_all_the_same, {"REF-003": "fail", "REF-004": "fail"}
    ),
    "refusal.one-of-many-bound": base.Mutant(
        "one member of a gang larger than the cluster is bound",
        base.only("over-large", one_of_many_bound),
        {"REF-001": "fail"},
    ),
    "lifecycle.runs-again": base.Mutant("a Completed Job is Running again", runs_again, {"LIFE-008": "fail"}),
    "lifecycle.policy-after-all": base.Mutant(
        "Jobs without a policy complete when their first task completes",
        policy_after_all,
        {"LIFE-002": "inconclusive"},
    ),
    "rendezvous.others-accused": base.Mutant(
        "a rank that went on is named as stalled", others_accused, {"RDZV-009": "fail"}
    ),
    "fabric.a-floor-more": base.Mutant(
        "one more floor is declared, without its shape",
        floor_without_origin,
        {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    ),
}
"""Mutants that add and take nothing away."""
