"""Departures in a value: as much is seen as before, and one thing of it says something else."""

import re
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import WATCH_TYPES, Evidence, Line
from pytest_gpucluster.evidence.objects.pods import pods
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.mutants import base, fabric
from pytest_gpucluster.plain import names

Obj = dict[str, Any]

INDEX = "volcano.sh/task-index"
REFERENCE = re.compile(r"\$\([^)]*\)")
ENDED = ("state", "terminated")


def _cast(evidence: Evidence, role: str) -> list[gangs.Gang]:
    """Return the gangs of a role."""
    names_ = {str(one.get("name")) for one in (evidence.given.get("roles") or {}).get(role) or ()}
    return [gang for gang in gangs.gangs(evidence) if gang.name in names_]


def _contrast_with(evidence: Evidence, **spec: str) -> Evidence:
    """Put values into the spec of each pod of the gang that is the contrast."""
    uids = {pod.uid for gang in _cast(evidence, "contrast") for pod in gang.pods}
    return base.each(
        evidence,
        lambda line: line.uid in uids and line.kind == "Pod",
        lambda obj: obj["spec"].update(spec),
    )


def contrast_by_volcano(evidence: Evidence) -> Evidence:
    """Let the gang that is the contrast be one of Volcano's."""
    return _contrast_with(evidence, schedulerName="volcano")


def contrast_whole(evidence: Evidence) -> Evidence:
    """Let every member of the gang that is the contrast be bound where it was made."""
    return _contrast_with(evidence, nodeName="node-with-room")


def _env(name: str, change: Any) -> base.Act:
    """Return the mutant that changes a variable, in what processes printed and in the pods' specifications."""

    def printed(told: Obj) -> None:
        env = told.get("env")
        if isinstance(env, dict) and name in env:
            env[name] = change(str(env[name]))

    def specified(obj: Obj) -> None:
        for container in fields.containers(obj):
            for entry in fields.items(container, "env"):
                if entry.get("name") == name and isinstance(entry, dict) and entry.get("value") is not None:
                    entry["value"] = change(str(entry["value"]))

    return lambda evidence: base.each(
        base.on("env", printed)(evidence), lambda line: line.kind == "Pod", specified
    )


def arguments_empty(evidence: Evidence) -> Evidence:
    """Let every reference in a container's arguments arrive as nothing."""
    written = {
        (pod.uid, str(container.get("name"))): [
            str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))
        ]
        for pod in pods(evidence)
        for container in fields.containers(pod.last)
    }

    def act(line: Line, told: Obj) -> Obj:
        words = written.get((str(line.data.get("uid")), str(line.data.get("container"))))
        if told.get("event") == "argv" and words:
            told["argv"] = [REFERENCE.sub("", word) for word in words]
        return told

    return base.words(evidence, act)


def master_named_right(evidence: Evidence) -> Evidence:
    """Let the Job whose plugin names a master that it does not have have been given its variables."""
    uids = {pod.uid for gang in _cast(evidence, "wrong-master") for pod in gang.pods}
    env = {"MASTER_ADDR": "master", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "0"}

    def act(line: Line, told: Obj) -> Obj:
        if told.get("event") == "env" and line.data.get("uid") in uids:
            told["env"] = {**fields.sub(told, "env"), **env}
        return told

    return base.words(evidence, act)


def _label(name: str, change: Any) -> base.Act:
    def act(obj: Obj) -> None:
        labels = obj["metadata"].get("labels") or {}
        if name in labels:
            labels[name] = change(str(labels[name]))

    return lambda evidence: base.each(evidence, lambda line: line.kind == "Pod", act)


def webhook_unanswered(evidence: Evidence) -> Evidence:
    """Let every refusal come from an API server that got no answer of the webhook."""
    text = (
        'Internal error occurred: failed calling webhook "validatejob.volcano.sh": context deadline exceeded'
    )
    status = {"code": 500, "reason": "InternalError", "message": text}
    return base.responses(
        evidence,
        lambda line: bool(line.data.get("case")) and (fields.number(line.data, "code") or 0) >= 400,
        lambda data: data.update(code=500, status=status),
    )


def policy_for_another_event(evidence: Evidence) -> Evidence:
    """Let every policy that completes a Job be for the failure of a pod."""

    def swap(policies: Any) -> None:
        for policy in policies or []:
            if policy.get("action") == "CompleteJob":
                policy.update(event="PodFailed")

    def act(obj: Obj) -> None:
        swap(obj["spec"].get("policies"))
        for task in obj["spec"].get("tasks") or []:
            swap(task.get("policies"))

    return base.each(evidence, lambda line: line.kind == names.VC_JOB and line.type in WATCH_TYPES, act)


def begins_aborted(evidence: Evidence) -> Evidence:
    """Let each Job that completes begin as Aborted."""
    chosen = {
        gang.uid
        for gang in gangs.gangs(evidence)
        if gang.job is not None and any(name == "Completed" for _, name, _ in gang.job.phases)
    }

    def act(obj: Obj) -> None:
        state = obj.get("status", {}).get("state", {})
        if state.get("phase") == "Pending":
            state["phase"] = "Aborted"

    return base.each(evidence, lambda line: line.uid in chosen and line.kind == names.VC_JOB, act)


def stall_ends_with_zero(evidence: Evidence) -> Evidence:
    """Let ranks that end where they stand end with 0."""
    uids = {word.uid for word in payload_lines.words(evidence).of("place")}

    def act(obj: Obj) -> None:
        for status in fields.items(obj, "status", "containerStatuses"):
            ended = fields.sub(status, *ENDED)
            if isinstance(ended, dict) and "exitCode" in ended:
                ended["exitCode"] = 0

    return base.each(evidence, lambda line: line.uid in uids and line.kind == "Pod", act)


def on_no_numa_node(evidence: Evidence) -> Evidence:
    """Let no device of a pod that holds some carry a NUMA node."""

    def act(told: Obj) -> None:
        for device in told.get("devices") or []:
            if isinstance(device, dict) and "numa" in device:
                device["numa"] = None

    return base.on("devices", act)(evidence)


MUTANTS: base.Table = {
    "gang.contrast-by-volcano": base.Mutant(
        "the contrast is a Volcano gang", contrast_by_volcano, {"GANG-008": "inconclusive"}
    ),
    "gang.contrast-whole": base.Mutant(
        "the contrast is placed whole",
        contrast_whole,
        {"GANG-008": "inconclusive", "FAB-019": "inconclusive"},
    ),
    "plugins.world-counts-more": base.Mutant(
        "WORLD_SIZE counts one more",
        _env("WORLD_SIZE", lambda v: str(int(v) + 1)),
        {"PLG-001": "fail", "PLG-004": "fail", "PLG-005": "inconclusive"},
    ),
    "plugins.arguments-empty": base.Mutant(
        "references in arguments arrive empty", arguments_empty, {"PLG-004": "fail"}
    ),
    "plugins.wrong-master-works": base.Mutant(
        "a Job whose master has another name gets its variables",
        master_named_right,
        {"PLG-005": "inconclusive"},
    ),
    "plugins.index-off-by-one": base.Mutant(
        "the label task-index counts from 1", _label(INDEX, lambda v: str(int(v) + 1)), {"PLG-007": "fail"}
    ),
    "plugins.one-index-for-all": base.Mutant(
        "every pod has the task-index 0", _label(INDEX, lambda _: "0"), {"PLG-007": "fail"}
    ),
    "refusal.webhook-unanswered": base.Mutant(
        "the webhook does not answer",
        webhook_unanswered,
        {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    ),
    "lifecycle.policy-for-another-event": base.Mutant(
        "the policies complete Jobs when a pod fails",
        policy_for_another_event,
        {"LIFE-001": "inconclusive", "PLG-008": "inconclusive"},
    ),
    "lifecycle.begins-aborted": base.Mutant(
        "a Job begins as Aborted and then runs", begins_aborted, {"LIFE-008": "fail", "LIFE-009": "fail"}
    ),
    "rendezvous.another-element-wrong": base.Mutant(
        "one rank's sum is wrong in an element that it does not report",
        base.on("sum", lambda w: w.update(ok=False), alone=True),
        {"RDZV-001": "fail"},
    ),
    "rendezvous.stall-ends-with-zero": base.Mutant(
        "a stalled rank ends with 0", stall_ends_with_zero, {"RDZV-009": "fail"}
    ),
    "numa.on-no-numa-node": base.Mutant(
        "no device carries a NUMA node",
        on_no_numa_node,
        {
            "NUMA-003": "inconclusive",
            "NUMA-005": "inconclusive",
            "NUMA-007": "inconclusive",
            "NUMA-006": "fail",
        },
    ),
    "fabric.floor-that-sockets-reach": base.Mutant(
        "a floor is a thousandth of what its links carry",
        fabric.floors(lambda floor: floor.update(busbw=floor["busbw"] / 1000)),
        {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    ),
    "fabric.sockets-before": base.Mutant(
        "traffic used sockets before the fabric was switched off",
        base.only(
            "sockets",
            fabric.log_lines(lambda text: re.sub(r"NET/IB/\d+/GDRDMA", "NET/Socket/0", text), role="subject"),
        ),
        {"FAB-016": "inconclusive"},
    ),
}
"""Mutants that change a value."""
