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


def without_label(label: str) -> base.Mutant:
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
    "plugins.move-rank": ("RANK is off by one", move_rank),
    "plugins.drop-env": ("no process printed its environment", base.drop("env")),
    "plugins.wrong-address": (
        "the master's name gives another address",
        base.on("resolved", lambda w: w.update(addresses=["10.255.255.1"])),
    ),
    "plugins.unresolved": (
        "the master's name does not resolve",
        base.on("resolved", lambda w: w.update(addresses=[], ok=False)),
    ),
    "plugins.no-service": (
        "the Service is missing",
        lambda e: base.without(e, lambda line: line.kind == "Service"),
    ),
    "plugins.reset-connections": (
        "one member's connection to the master is reset",
        base.on("connected", lambda w: w.update(ok=False, kind="ECONNRESET"), alone=True),
    ),
    "plugins.drop-connections": (
        "one member did not report its connection",
        base.drop("connected", alone=True),
    ),
    "plugins.unexpanded": ("references in arguments are not expanded", unexpanded),
    "plugins.default-port": ("a requested port is not used", base.on("env", default_port)),
    "plugins.listens-last": ("the master listens after the worker started", listen_last),
    "plugins.gives-up-nameless": ("the log of the wait does not name the master", nameless),
    "plugins.drop-files": ("the hosts files are missing", base.drop("file")),
    "plugins.short-hosts": ("the lists of hosts lack the last host", base.on("env", short_hosts)),
    "plugins.drop-index-label": ("no pod has the label task-index", without_label("volcano.sh/task-index")),
    "plugins.inject-unasked": ("the variables are injected without a request", inject_unasked),
}
