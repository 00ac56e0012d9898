"""Departures of JobSet's controller: ends, restarts, order and names, in recorded evidence."""

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names
from pytest_gpucluster.plain.copies import clone

_OWN = "jobset.sigs.k8s.io/"


def _label(line: Line, name: str) -> str:
    labels = line.object.get("metadata", {}).get("labels") or {}
    return str(labels.get(f"{_OWN}{name}", ""))


def _named(line: Line, jobset: str) -> bool:
    """Report whether a line is of the set that plays a role, whose name ends with it."""
    return line.name.endswith(f"-{jobset}")


def _of(line: Line, jobset: str, replicated: str = "") -> bool:
    """Report whether a line is of a Job or pod of a set whose name ends so."""
    return _label(line, "jobset-name").endswith(f"-{jobset}") and (
        not replicated or _label(line, "replicatedjob-name") == replicated
    )


def _sets(evidence: Evidence) -> bool:
    return any(line.kind == names.JOBSET for line in evidence.lines)


def _on_sets(act: base.Act) -> base.Act:
    """Return a mutant that leaves evidence without JobSets alone."""
    return lambda evidence: act(evidence) if _sets(evidence) else evidence


def _alive(obj: dict[str, Any]) -> None:
    obj["metadata"].pop("deletionTimestamp", None)
    obj["metadata"].pop("deletionGracePeriodSeconds", None)
    obj["status"]["phase"] = "Running"


def _keeps(jobset: str, replicated: str) -> base.Act:
    """Let the pods of a replicated Job go on: nobody deletes them, none of them ends, and the driver waits in vain."""

    def act(evidence: Evidence) -> Evidence:
        kept = base.without(
            evidence,
            lambda line: line.type == "DELETED" and line.kind == "Pod" and _of(line, jobset, replicated),
        )
        name = next(
            (one.name for one in evidence.lines if one.kind == names.JOBSET and _named(one, jobset)), ""
        )
        if not name:
            return evidence
        going_on = base.each(
            kept,
            lambda line: (
                line.kind == "Pod"
                and _of(line, jobset, replicated)
                and line.object.get("status", {}).get("phase") != "Pending"
            ),
            _alive,
        )
        return _in_vain(going_on, [f"{name} has ended"])

    return act


def _call(change: Callable[[dict[str, Any]], object], spec: dict[str, Any]) -> None:
    change(spec)


def _spec(jobset: str, change: Callable[[dict[str, Any]], object]) -> base.Act:
    """Change the spec of a set as it is stored."""
    return lambda evidence: base.each(
        evidence,
        lambda line: line.kind == names.JOBSET and _named(line, jobset),
        lambda obj: _call(change, obj["spec"]),
    )


def _ended_when_made(jobset: str) -> base.Act:
    """Let a set be Completed when its second Job was made, long before its targets have completed."""

    def act(evidence: Evidence) -> Evidence:
        mine = [line for line in evidence.lines if line.kind == names.JOBSET and _named(line, jobset)]
        done = next((line for line in mine if _condition(line, "Completed")), None)
        if done is None:
            return evidence
        early = dataclasses.replace(done, t=mine[0].t + 0.01)
        return base.with_lines(evidence, [*evidence.lines, early])

    return act


def _condition(line: Line, kind: str) -> bool:
    conditions = line.object.get("status", {}).get("conditions") or []
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def never_ends(evidence: Evidence) -> Evidence:
    """Take the end of every JobSet away, and let the driver wait for it in vain."""
    sets = sorted({line.name for line in evidence.lines if line.kind == names.JOBSET})
    if not sets:
        return evidence
    open_ended = base.each(
        evidence,
        lambda line: line.kind == names.JOBSET,
        lambda obj: obj.get("status", {}).pop("conditions", None),
    )
    return _in_vain(open_ended, [f"{name} has ended" for name in sets])


def _in_vain(evidence: Evidence, waits: list[str]) -> Evidence:
    """Add the notes of waits that expired when the driver was done."""
    end = evidence.notes("end")[0]
    extra = [
        dataclasses.replace(end, data={**end.data, "note": "timed-out", "what": what, "seconds": 20.0})
        for what in waits
    ]
    return base.with_lines(evidence, [*evidence.lines, *extra])


def silent(evidence: Evidence) -> Evidence:
    """Let nobody make anything of JobSets, and the driver wait for their pods in vain."""
    sets = sorted({line.name for line in evidence.lines if line.kind == names.JOBSET})
    if not sets:
        return evidence
    alone = base.without(
        evidence,
        lambda line: (
            (line.kind in ("Pod", names.BATCH_JOB) and bool(_label(line, "jobset-name")))
            or (line.kind == "Event" and line.object.get("involvedObject", {}).get("kind") in ("Pod", "Job"))
            or line.type == "LOG"
            or line.data.get("note") == "logs"
        ),
    )
    return _in_vain(alone, [f"{name} has pods" for name in sets])


def not_served(evidence: Evidence) -> Evidence:
    """Let the API not know JobSets: each is answered 404, and there is none."""
    if not _sets(evidence):
        return evidence
    gone = base.without(
        evidence,
        lambda line: (
            line.kind == names.JOBSET
            or (line.kind in ("Pod", names.BATCH_JOB, "Service") and _belongs(line))
            or line.type == "LOG"
            or (line.data.get("note") in ("submitted", "logs") and line.data.get("kind") != "ConfigMap")
        ),
    )

    def refused(data: dict[str, Any]) -> None:
        data.pop("object", None)
        message = "the server could not find the requested resource"
        data.update(code=404, status={"kind": "Status", "code": 404, "message": message})

    return base.responses(
        gone, lambda line: str(line.data.get("request")).startswith(f"create {names.JOBSET}/"), refused
    )


def _belongs(line: Line) -> bool:
    owners = line.object.get("metadata", {}).get("ownerReferences") or []
    return bool(_label(line, "jobset-name")) or any(one.get("kind") == names.JOBSET for one in owners)


def made_twice(evidence: Evidence) -> Evidence:
    """Let each first Job of a set be made a second time in its attempt."""
    extra = []
    for line in evidence.lines:
        first = line.type == "ADDED" and line.kind == names.BATCH_JOB and _label(line, "jobset-name")
        if first and _label(line, "replicatedjob-name") in ("first", "leader"):
            obj = clone(dict(line.object))
            obj["metadata"]["uid"] = f"{obj['metadata']['uid']}-again"
            extra.append(dataclasses.replace(line, t=line.t + 0.02, object=obj))
    return base.with_lines(evidence, [*evidence.lines, *extra]) if extra else evidence


def unlabelled(evidence: Evidence) -> Evidence:
    """Take from Jobs of sets the label that says which attempt they are of."""

    def strip(obj: dict[str, Any]) -> None:
        obj["metadata"]["labels"].pop(f"{_OWN}restart-attempt", None)

    return base.each(
        evidence,
        lambda line: line.kind == names.BATCH_JOB and bool(_label(line, "restart-attempt")),
        strip,
    )


def half_made_anew(evidence: Evidence) -> Evidence:
    """Let the second Job of the set that recovers never be made anew."""
    return base.without(
        evidence,
        lambda line: (
            line.kind in (names.BATCH_JOB, "Pod")
            and _of(line, "recovers", "second")
            and _label(line, "restart-attempt") == "1"
        ),
    )


def old_goes_on(evidence: Evidence) -> Evidence:
    """Let the second Job's pod of the first attempt go on beside the second attempt."""

    def mine(line: Line) -> bool:
        return (
            line.kind == "Pod" and _of(line, "bounded", "second") and _label(line, "restart-attempt") == "0"
        )

    kept = base.without(evidence, lambda line: line.type == "DELETED" and mine(line))
    return base.each(
        kept,
        lambda line: mine(line) and line.object.get("status", {}).get("phase") != "Pending",
        _alive,
    )


def later_first(jobset: str) -> base.Act:
    """Let the pods of the later Job of a set be made when the earlier one's were."""

    def act(evidence: Evidence) -> Evidence:
        pods = [line for line in evidence.lines if line.kind == "Pod"]
        first = min((line.t for line in pods if _of(line, jobset, "first")), default=None)
        second = min((line.t for line in pods if _of(line, jobset, "second")), default=None)
        if first is None or second is None:
            return evidence
        by = second - first - 0.001
        return base.with_lines(
            evidence,
            (
                dataclasses.replace(line, t=line.t - by)
                if line.kind == "Pod" and _of(line, jobset, "second")
                else line
                for line in evidence.lines
            ),
        )

    return act


def never_ready(evidence: Evidence) -> Evidence:
    """Let no pod of the earlier Job of the set that waits for readiness ever be ready."""

    def unready(obj: dict[str, Any]) -> None:
        for condition in obj.get("status", {}).get("conditions") or []:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition["status"] = "False"

    return base.each(evidence, lambda line: line.kind == "Pod" and _of(line, "after-ready", "first"), unready)


def _forgets_order(spec: dict[str, Any]) -> None:
    for replicated in spec["replicatedJobs"]:
        replicated.pop("dependsOn", None)


def other_subdomain(evidence: Evidence) -> Evidence:
    """Give the pods of sets another subdomain."""
    return base.each(
        evidence,
        lambda line: line.kind == "Pod" and bool(_label(line, "jobset-name")),
        lambda obj: obj["spec"].update(subdomain="elsewhere"),
    )


def _name_of_last(change: Callable[[dict[str, Any], list[str]], None]) -> base.Act:
    """Change the look-up of the last name, as the last member that tells it saw it, in evidence of JobSets."""

    def told(fact: dict[str, Any]) -> None:
        known = sorted(fact["names"])
        change(fact["names"], known)

    return _on_sets(base.on("waited", told, alone=True))


def _unknown(looked: dict[str, Any], known: list[str]) -> None:
    looked[known[-1]] = {
        "addresses": [], "tries": 9, "kind": "unknown", "error": "Name or service not known",
    }  # fmt: skip


def _elsewhere(looked: dict[str, Any], known: list[str]) -> None:
    looked[known[-1]] = dict(looked[known[0]])


def _not_looked_up(looked: dict[str, Any], known: list[str]) -> None:
    del looked[known[-1]]


MUTANTS: base.Table = {
    "jobset.leaves-others": base.Mutant(
        "a JobSet that has completed leaves a Job running", _keeps("any-of", "second"), {"TRN-004": "fail"}
    ),
    "jobset.ends-too-early": base.Mutant(
        "a JobSet is Completed before all of its targets are", _ended_when_made("all-of"), {"TRN-004": "fail"}
    ),
    "jobset.forgets-targets": base.Mutant(
        "a JobSet is stored without the targets of its success policy",
        _spec("all-of", lambda spec: spec["successPolicy"].pop("targetReplicatedJobs", None)),
        {"TRN-004": "inconclusive"},
    ),
    "jobset.never-ends": base.Mutant(
        "no JobSet comes to an end", never_ends, {"TRN-004": "fail", "TRN-005": "fail"}
    ),
    "jobset.restarts-once-more": base.Mutant(
        "a JobSet is stored with fewer restarts than it makes",
        _spec("bounded", lambda spec: spec["failurePolicy"].update(maxRestarts=0)),
        {"TRN-005": "fail"},
    ),
    "jobset.half-made-anew": base.Mutant(
        "a restart makes only a part of a JobSet anew", half_made_anew, {"TRN-005": "fail"}
    ),
    "jobset.old-attempt-goes-on": base.Mutant(
        "a pod of the attempt before a restart goes on", old_goes_on, {"TRN-005": "fail"}
    ),
    "jobset.unlabelled": base.Mutant(
        "Jobs do not say which attempt of their JobSet they are of",
        unlabelled,
        base.all_to("inconclusive", "TRN-004 TRN-005 TRN-006 TRN-007"),
    ),
    "jobset.made-twice": base.Mutant(
        "a Job of a JobSet is made twice in one attempt",
        made_twice,
        base.all_to("fail", "TRN-004 TRN-005 TRN-006 TRN-007"),
    ),
    "jobset.silent": base.Mutant(
        "nobody makes anything of JobSets",
        silent,
        base.all_to("fail", "TRN-003 TRN-004 TRN-005 TRN-006 TRN-007"),
    ),
    "jobset.not-served": base.Mutant(
        "the API does not serve JobSets",
        not_served,
        {**base.all_to("fail", "TRN-004 TRN-005 TRN-006 TRN-007"), "TRN-003": "inconclusive"},
    ),
    "jobset.later-first": base.Mutant(
        "a later Job of a JobSet has a pod before the earlier one is complete",
        later_first("after-complete"),
        {"TRN-006": "fail"},
    ),
    "jobset.never-ready": base.Mutant(
        "a later Job of a JobSet has a pod although no pod of the earlier one was ever ready",
        never_ready,
        {"TRN-006": "fail"},
    ),
    "jobset.forgets-order": base.Mutant(
        "a JobSet is stored without what its Jobs depend on",
        _spec("after-ready", _forgets_order),
        {"TRN-006": "inconclusive"},
    ),
    "jobset.other-subdomain": base.Mutant(
        "pods of JobSets have another subdomain", other_subdomain, {"TRN-007": "fail"}
    ),
    "jobset.unknown-name": base.Mutant(
        "a member of a JobSet does not find a name", _name_of_last(_unknown), {"TRN-007": "fail"}
    ),
    "jobset.name-elsewhere": base.Mutant(
        "a name of a JobSet leads to another member", _name_of_last(_elsewhere), {"TRN-007": "fail"}
    ),
    "jobset.not-looked-up": base.Mutant(
        "a member of a JobSet does not look a name up",
        _name_of_last(_not_looked_up),
        {"TRN-007": "inconclusive"},
    ),
}
