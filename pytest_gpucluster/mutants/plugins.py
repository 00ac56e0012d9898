"""Departures of what the job plugins inject."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import pods
from pytest_gpucluster.mutants import base


def move_rank(evidence: Evidence) -> Evidence:
    """Shift every RANK by one, in what the processes printed and in the pod specifications."""

    def shifted(told: dict[str, Any]) -> None:
        env = told.get("env")
        if isinstance(env, dict) and str(env.get("RANK", "")).isdigit():
            env["RANK"] = str(int(env["RANK"]) + 1)

    def in_spec(obj: dict[str, Any]) -> None:
        for container in fields.containers(obj):
            for entry in fields.items(container, "env"):
                if entry.get("name") == "RANK" and isinstance(entry, dict):
                    entry["value"] = str(int(entry.get("value") or 0) + 1)

    return base.each(base.on("env", shifted)(evidence), lambda line: line.kind == "Pod", in_spec)


def inject_unasked(evidence: Evidence) -> Evidence:
    """Give every container the variables of the pytorch plugin, whether asked for or not."""
    env = [{"name": name, "value": "0"} for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")]

    def inject(obj: dict[str, Any]) -> None:
        for container in fields.containers(obj):
            if isinstance(container, dict):
                container["env"] = [*fields.items(container, "env"), *env]

    def printed(told: dict[str, Any]) -> None:
        told["env"] = {**{entry["name"]: entry["value"] for entry in env}, **fields.sub(told, "env")}

    return base.each(base.on("env", printed)(evidence), lambda line: line.kind == "Pod", inject)


def unexpanded(evidence: Evidence) -> Evidence:
    """Let every container get its arguments as they are written in the pod's specification."""
    written = {
        (pod.uid, str(container.get("name"))): [
            str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))
        ]
        for pod in pods(evidence)
        for container in fields.containers(pod.last)
    }

    def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
        words = written.get((str(line.data.get("uid")), str(line.data.get("container"))))
        if told.get("event") == "argv" and words:
            told["argv"] = words
        return told

    return base.words(evidence, act)


def without_label(label: str) -> base.Act:
    """Return the mutant that takes a label from every pod."""
    return lambda evidence: base.each(
        evidence,
        lambda line: line.kind == "Pod",
        lambda obj: obj["metadata"].get("labels", {}).pop(label, None),
    )


def short_hosts(told: dict[str, Any]) -> None:
    """Take the last host out of every list of more than one."""
    env = fields.sub(told, "env")
    short = {k: v.rpartition(",")[0] for k, v in env.items() if k.endswith("_HOSTS") and "," in v}
    told["env"] = {**env, **short}


def listen_last(evidence: Evidence) -> Evidence:
    """Let every master begin to listen long after everything else."""

    def late(line: Line) -> Line:
        found, _ = payload_lines.find(str(line.data.get("line") or "")) if line.type == "LOG" else ([], 0)
        listens = bool(found) and found[0].get("event") == "listening"
        return dataclasses.replace(line, t=evidence.end + 10.0) if listens else line

    return base.with_lines(evidence, map(late, evidence.lines))


def nameless(evidence: Evidence) -> Evidence:
    """Let init containers say that they gave up, and not for whom they waited."""

    def silent(line: Line) -> Line:
        if line.type != "LOG" or line.data.get("container") != "wait-for-master":
            return line
        return dataclasses.replace(line, data={**line.data, "line": "gave up"})

    return base.with_lines(evidence, map(silent, evidence.lines))


def default_port(told: dict[str, Any]) -> None:
    """Give the default port where the Job asked for another."""
    env = fields.sub(told, "env")
    if env.get("MASTER_PORT") not in (None, "23456"):
        told["env"] = {**env, "MASTER_PORT": "23456"}


MUTANTS: base.Table = {
    "plugins.move-rank": base.Mutant("RANK is off by one", move_rank, {"PLG-001": "fail", "PLG-004": "fail"}),
    "plugins.drop-env": base.Mutant(
        "no process printed its environment",
        base.drop("env"),
        {
            "PLG-001": "inconclusive",
            "PLG-002": "inconclusive",
            "PLG-006": "inconclusive",
            "PLG-008": "inconclusive",
            "PLG-009": "inconclusive",
        },
    ),
    "plugins.wrong-address": base.Mutant(
        "the master's name gives another address",
        base.on("resolved", lambda w: w.update(addresses=["10.255.255.1"])),
        {"PLG-003": "fail"},
    ),
    "plugins.unresolved": base.Mutant(
        "the master's name does not resolve",
        base.on("resolved", lambda w: w.update(addresses=[], ok=False)),
        {"GANG-001": "environment", "PLG-010": "environment", "PLG-011": "environment", "PLG-003": "fail"},
    ),
    "plugins.no-service": base.Mutant(
        "the Service is missing",
        lambda e: base.without(e, lambda line: line.kind == "Service"),
        {
            "PLG-003": "fail",
            "TRN-007": "inconclusive",
            "RDZV-002": "inconclusive",
            "RDZV-003": "inconclusive",
            "RDZV-008": "inconclusive",
            "RDZV-010": "inconclusive",
            "FAB-013": "inconclusive",
        },
    ),
    "plugins.reset-connections": base.Mutant(
        "one member's connection to the master is reset",
        base.on("connected", lambda w: w.update(ok=False, kind="ECONNRESET"), alone=True),
        {"GANG-001": "environment", "RDZV-004": "environment", "PLG-011": "fail"},
    ),
    "plugins.drop-connections": base.Mutant(
        "one member did not report its connection",
        base.drop("connected", alone=True),
        {"GANG-001": "inconclusive", "PLG-011": "inconclusive", "RDZV-004": "inconclusive"},
    ),
    "plugins.unexpanded": base.Mutant(
        "references in arguments are not expanded", unexpanded, {"PLG-004": "fail"}
    ),
    "plugins.default-port": base.Mutant(
        "a requested port is not used", base.on("env", default_port), {"PLG-002": "fail"}
    ),
    "plugins.listens-last": base.Mutant(
        "the master listens after the worker started", listen_last, {"PLG-010": "fail"}
    ),
    "plugins.gives-up-nameless": base.Mutant(
        "the log of the wait does not name the master", nameless, {"PLG-013": "fail"}
    ),
    "plugins.drop-files": base.Mutant("the hosts files are missing", base.drop("file"), {"PLG-006": "fail"}),
    "plugins.short-hosts": base.Mutant(
        "the lists of hosts lack the last host", base.on("env", short_hosts), {"PLG-006": "fail"}
    ),
    "plugins.drop-index-label": base.Mutant(
        "no pod has the label task-index", without_label("volcano.sh/task-index"), {"PLG-007": "fail"}
    ),
    "plugins.inject-unasked": base.Mutant(
        "the variables are injected without a request",
        inject_unasked,
        {"PLG-002": "fail", "PLG-005": "inconclusive"},
    ),
}
