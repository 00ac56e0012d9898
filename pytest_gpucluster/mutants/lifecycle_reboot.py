"""Departures of what comes back after a node was restarted."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base


def _after(evidence: Evidence) -> list[str]:
    """Return the uids of pods that were made after a node was restarted."""
    notes = evidence.notes("rebooted-by-us")
    if not notes:
        return []
    return [uid for uid in evidence.uids("Pod") if evidence.history(uid)[0].t > notes[0].t]


def replacement_rejected(evidence: Evidence) -> Evidence:
    """Let the kubelet reject the first replacement, since its device plugin is not there yet."""
    made = _after(evidence)[:1]

    def reject(obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}

    return base.each(
        evidence, lambda line: line.uid in made and bool(line.object["spec"].get("nodeName")), reject
    )


def replaced_twice(evidence: Evidence) -> Evidence:
    """Let the first lost member be made a second time."""
    made = _after(evidence)[:1]
    if not made:
        return evidence

    def again(line: Line) -> Line:
        def change(obj: dict[str, Any]) -> None:
            metadata = obj["metadata"]
            metadata.update(uid=f"{metadata['uid']}-again", name=f"{metadata['name']}-again")

        return dataclasses.replace(base.edited(line, change), t=line.t + 0.01)

    copies = [again(line) for line in evidence.history(made[0])]
    return base.with_lines(evidence, (*evidence.lines, *copies))


def members_survive(evidence: Evidence) -> Evidence:
    """Let nothing end when the node was restarted."""
    notes = evidence.notes("rebooted-by-us")
    if not notes:
        return evidence
    t = notes[0].t
    return base.without(evidence, lambda line: line.kind == "Pod" and line.t > t)


MUTANTS: base.Table = {
    "lifecycle.replacement-rejected": base.Mutant(
        "the kubelet rejects a replacement after its node was restarted",
        replacement_rejected,
        {"LIFE-011": "fail"},
    ),
    "lifecycle.replaced-twice-after-restart": base.Mutant(
        "a lost member is created twice", replaced_twice, {"LIFE-011": "fail"}
    ),
    "lifecycle.members-survive-restart": base.Mutant(
        "no member ends when its node is restarted", members_survive, {"LIFE-011": "inconclusive"}
    ),
}
