"""Departures from the gang rule."""

from typing import Any

from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.mutate import base


def bind_one_early(evidence: Evidence) -> Evidence:
    """Bind one member of the gang that was held at its gate, right after the scheduler refused it."""
    found = base.held(evidence)
    if found is None or found[2].said is None:
        return evidence
    member, start = found[1].members[0], found[2].said.t

    def bind(obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {}).setdefault("nodeName", "node-early")

    return base.each(evidence, lambda line: line.uid == member.uid and line.t >= start, bind)


def never_bound(evidence: Evidence) -> Evidence:
    """Keep the gang that was held unbound to the end: room appears and is not taken."""
    found = base.held(evidence)
    if found is None:
        return evidence
    uids = {pod.uid for pod in found[1].members}

    def unbind(obj: dict[str, Any]) -> None:
        obj.get("spec", {}).pop("nodeName", None)
        obj["status"] = {"phase": "Pending"}

    return base.each(evidence, lambda line: line.uid in uids and line.t > found[2].end - 1e-9, unbind)


def short_min_member(evidence: Evidence) -> Evidence:
    """Let every PodGroup say one member fewer than the gang needs."""

    def shorten(obj: dict[str, Any]) -> None:
        spec = obj.get("spec", {})
        if isinstance(spec.get("minMember"), int) and spec["minMember"] > 1:
            spec["minMember"] -= 1

    return base.each(evidence, lambda line: line.kind == "PodGroup", shorten)


MUTANTS: base.Table = {
    "gang.bind-one-early": ("one member of the held gang is bound", bind_one_early),
    "gang.never-bound": ("the held gang is not bound when room appears", never_bound),
    "gang.short-min-member": ("PodGroups say one member fewer", short_min_member),
    "gang.drop-a-barrier-line": (
        "one member printed no barrier line",
        base.drop("barrier", alone=True),
    ),
    "gang.barrier-of-fewer": (
        "one member met fewer",
        base.on("barrier", lambda w: w.update(world=2), alone=True),
    ),
}
