"""Departures of what the job plugins inject."""

from typing import Any

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.mutate import base


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
        "there is no Service",
        lambda e: base.without(e, lambda line: line.kind == "Service"),
    ),
    "plugins.inject-unasked": ("the variables are injected unasked", inject_unasked),
}
