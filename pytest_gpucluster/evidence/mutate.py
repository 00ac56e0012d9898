"""Evidence mutants: departures planted into evidence of a passing scenario, in milliseconds and without a cluster.

Each mutant is a pure function of an evidence; one that finds nothing to change returns the evidence as it is. They
show that a judge can fail, and that a judge which lacks its ground falls silent instead of passing.
"""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence import fields, gangs, gates, payload
from pytest_gpucluster.evidence.model import EVERY_KIND, Evidence, Line, Span

Mutant = Callable[[Evidence], Evidence]


def with_lines(evidence: Evidence, lines: Iterable[Line], *, spans: Iterable[Span] | None = None) -> Evidence:
    """Return an evidence with other lines, in order of time."""
    ordered = sorted(lines, key=lambda line: line.t)
    fresh = [dataclasses.replace(line, index=index) for index, line in enumerate(ordered)]
    return Evidence(fresh, header=evidence.header, spans=evidence.spans if spans is None else spans)


def edited(line: Line, change: Callable[[dict[str, Any]], None]) -> Line:
    """Return a watch line whose object was changed in a copy."""
    obj = copy.deepcopy(dict(line.object))
    change(obj)
    return dataclasses.replace(line, object=obj)


def each(
    evidence: Evidence, chosen: Callable[[Line], bool], change: Callable[[dict[str, Any]], None]
) -> Evidence:
    """Return an evidence in which every chosen watch line was changed."""
    return with_lines(evidence, (edited(line, change) if chosen(line) else line for line in evidence.lines))


def without(evidence: Evidence, chosen: Callable[[Line], bool]) -> Evidence:
    """Return an evidence that lacks the chosen lines."""
    return with_lines(evidence, (line for line in evidence.lines if not chosen(line)))


def _held(evidence: Evidence) -> tuple[gangs.Gang, gangs.Generation, gates.Held] | None:
    """Return the attempt that was held longest at its gate."""
    found = [
        (gang, gen, held)
        for gang in gangs.gangs(evidence)
        for gen in gang.generations
        if (held := gates.read(evidence, gang, gen).held) is not None and held.said is not None
    ]
    return max(found, key=lambda one: one[2].seconds, default=None)


def bind_one_early(evidence: Evidence) -> Evidence:
    """Bind one member of the gang that was held at its gate, right after the scheduler refused it."""
    found = _held(evidence)
    if found is None or found[2].said is None:
        return evidence
    member, start = found[1].members[0], found[2].said.t

    def bind(obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {}).setdefault("nodeName", "node-early")

    return each(evidence, lambda line: line.uid == member.uid and line.t >= start, bind)


def drop_refusals(evidence: Evidence) -> Evidence:
    """Take away every reason that a scheduler gave: its events, and the conditions of PodGroups and waiting pods."""

    def silence(obj: dict[str, Any]) -> None:
        status = obj.get("status")
        if isinstance(status, dict):
            status.pop("conditions", None)

    quiet = without(evidence, lambda line: line.kind == "Event")
    return each(quiet, lambda line: line.kind in {"PodGroup", "Pod"}, silence)


def cut_watch(evidence: Evidence) -> Evidence:
    """Put a gap into the coverage of every kind in the middle of the evidence; no line is lost."""
    first = evidence.lines[0].t if evidence.lines else 0.0
    third = (evidence.end - first) / 3
    spans = [
        Span(EVERY_KIND, first, first + third, "cut"),
        Span(EVERY_KIND, first + 2 * third, evidence.end, "cut"),
    ]
    return with_lines(evidence, evidence.lines, spans=spans)


def forget_later_gangs(evidence: Evidence) -> Evidence:
    """Take away every gang but the first: the control of a refusal never happened."""
    later = gangs.gangs(evidence)[1:]
    uids = {gang.uid for gang in later} | {pod.uid for gang in later for pod in gang.pods}
    uids |= {group.uid for gang in later for group in gang.groups}
    return without(evidence, lambda line: line.uid in uids)


def never_bound(evidence: Evidence) -> Evidence:
    """Keep the gang that was held unbound to the end: room appears and is not taken."""
    found = _held(evidence)
    if found is None:
        return evidence
    uids = {pod.uid for pod in found[1].members}

    def unbind(obj: dict[str, Any]) -> None:
        obj.get("spec", {}).pop("nodeName", None)
        obj["status"] = {"phase": "Pending"}

    return each(evidence, lambda line: line.uid in uids and line.t > found[2].end - 1e-9, unbind)


def short_min_member(evidence: Evidence) -> Evidence:
    """Let every PodGroup say one member fewer than the gang needs."""

    def shorten(obj: dict[str, Any]) -> None:
        spec = obj.get("spec", {})
        if isinstance(spec.get("minMember"), int) and spec["minMember"] > 1:
            spec["minMember"] -= 1

    return each(evidence, lambda line: line.kind == "PodGroup", shorten)


def no_phase(evidence: Evidence) -> Evidence:
    """Let no PodGroup ever get a phase, as when no scheduler runs."""
    return each(
        evidence, lambda line: line.kind == "PodGroup", lambda obj: obj.get("status", {}).pop("phase", None)
    )


def no_podgroup(evidence: Evidence) -> Evidence:
    """Take away every PodGroup, as when no controllers run."""
    return without(evidence, lambda line: line.kind == "PodGroup")


def _responses(
    evidence: Evidence, chosen: Callable[[Line], bool], change: Callable[[dict[str, Any]], None]
) -> Evidence:
    def answer(line: Line) -> Line:
        data = copy.deepcopy(dict(line.data))
        change(data)
        return dataclasses.replace(line, data=data)

    return with_lines(
        evidence, (answer(ln) if ln.type == "RESPONSE" and chosen(ln) else ln for ln in evidence.lines)
    )


def api_not_served(evidence: Evidence) -> Evidence:
    """Answer 404 to every question whether an API is served."""
    return _responses(
        evidence,
        lambda line: str(line.data.get("case") or "").startswith("api:"),
        lambda data: data.update(
            code=404, status={"code": 404, "reason": "NotFound", "message": "not found"}
        ),
    )


def unfilled_dry_run(evidence: Evidence) -> Evidence:
    """Let the dry-run Job come back as it was sent: no mutating admission."""

    def strip(data: dict[str, Any]) -> None:
        spec = fields.sub(data, "object", "spec")
        if isinstance(spec, dict):
            spec.pop("schedulerName", None)

    return _responses(evidence, lambda line: line.data.get("case") == "dry-run", strip)


def accept_refused(evidence: Evidence) -> Evidence:
    """Accept every case that admission refused for a duplicate task."""
    return _responses(
        evidence,
        lambda line: "duplicate-task" in str(line.data.get("case")),
        lambda data: data.update(code=201),
    )


def refuse_by_permission(evidence: Evidence) -> Evidence:
    """Let the API server refuse the cases for want of permission instead of admission."""
    status = {"code": 403, "reason": "Forbidden", "message": "jobs.batch.volcano.sh is forbidden"}
    return _responses(
        evidence,
        lambda line: bool(line.data.get("case")) and (fields.number(line.data, "code") or 0) >= 400,
        lambda data: data.update(code=403, status=status),
    )


def _words(
    evidence: Evidence, change: Callable[[Line, dict[str, Any]], Mapping[str, Any] | None]
) -> Evidence:
    """Rewrite the facts that payloads printed; None drops the line."""
    lines = []
    for line in evidence.lines:
        found, _ = payload.find(str(line.data.get("line") or "")) if line.type == "LOG" else ([], 0)
        if not found:
            lines.append(line)
            continue
        told = change(line, copy.deepcopy(found[0]))
        if told is not None:
            text = f"{payload.MARKER} {json.dumps(told)}"
            lines.append(dataclasses.replace(line, data={**line.data, "line": text}))
    return with_lines(evidence, lines)


def _on(event: str, change: Callable[[dict[str, Any]], None], *, rank: object = ...) -> Mutant:
    def mutant(evidence: Evidence) -> Evidence:
        def act(_: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == event and (rank is ... or told.get("rank") == rank):
                change(told)
            return told

        return _words(evidence, act)

    return mutant


def _drop(event: str, *, keep: Callable[[dict[str, Any]], bool] = lambda _: False) -> Mutant:
    def mutant(evidence: Evidence) -> Evidence:
        return _words(
            evidence, lambda _, told: None if told.get("event") == event and not keep(told) else told
        )

    return mutant


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

    return each(_on("env", shifted)(evidence), lambda line: line.kind == "Pod", in_spec)


def no_completion(evidence: Evidence) -> Evidence:
    """Let nobody end the members that outlive their master; the Job still calls itself Completed."""
    tasks = {pod.uid: pod.task for gang in gangs.gangs(evidence) for pod in gang.pods}
    workers = {uid for uid, task in tasks.items() if task and "master" not in task}

    def stay(obj: dict[str, Any]) -> None:
        obj.get("metadata", {}).pop("deletionTimestamp", None)
        obj["status"] = {**fields.sub(obj, "status"), "phase": "Running"}

    def ending(line: Line) -> bool:
        gone = bool(fields.sub(line.object, "metadata").get("deletionTimestamp")) or line.type == "DELETED"
        return line.uid in workers and gone

    kept = with_lines(
        evidence,
        (dataclasses.replace(ln, type="MODIFIED") if ending(ln) else ln for ln in evidence.lines),
    )
    calm = each(kept, lambda line: line.uid in workers and ending(line), stay)
    end = dataclasses.replace(
        calm.lines[-1], t=calm.end + 15.0, type="NOTE", kind="", object={}, data={"note": "end"}
    )
    spans = [dataclasses.replace(span, end=max(span.end, end.t)) for span in calm.spans]
    return with_lines(calm, (*calm.lines, end), spans=spans)


def end_with_master(evidence: Evidence) -> Evidence:
    """Delete the lingering members half a second after their master ended."""
    masters = [
        p
        for gang in gangs.gangs(evidence)
        for p in gang.pods
        if p.finished is not None and p.task == "master"
    ]
    if not masters:
        return evidence
    when = min(pod.finished or 0.0 for pod in masters) + 0.5
    last = {
        pod.uid: evidence.history(pod.uid)[-1]
        for gang in gangs.gangs(evidence)
        for pod in gang.pods
        if pod.task != "master" and pod.created < when
    }
    early = without(evidence, lambda line: line.uid in last and line.t > when)
    gone = [dataclasses.replace(line, t=when, type="DELETED") for line in last.values()]
    return with_lines(early, (*early.lines, *gone))


def under_default_scheduler(evidence: Evidence) -> Evidence:
    """Let every pod carry schedulerName default-scheduler."""
    return each(
        evidence,
        lambda line: line.kind == "Pod",
        lambda obj: obj["spec"].update(schedulerName="default-scheduler"),
    )


def inject_unasked(evidence: Evidence) -> Evidence:
    """Give every container the variables of the pytorch plugin, whether asked for or not."""
    env = [{"name": name, "value": "0"} for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")]

    def inject(obj: dict[str, Any]) -> None:
        for container in fields.containers(obj):
            if isinstance(container, dict):
                container["env"] = [*fields.items(container, "env"), *env]

    return each(evidence, lambda line: line.kind == "Pod", inject)


MUTANTS: Mapping[str, tuple[str, Mutant]] = {
    "gang.bind-one-early": ("one member of the held gang is bound", bind_one_early),
    "gang.never-bound": ("the held gang is not bound when room appears", never_bound),
    "gang.short-min-member": ("PodGroups say one member fewer", short_min_member),
    "gang.drop-a-barrier-line": (
        "one member printed no barrier line",
        _drop("barrier", keep=lambda w: w.get("rank") != 1),
    ),
    "gang.barrier-of-fewer": ("one member met fewer", _on("barrier", lambda w: w.update(world=2), rank=1)),
    "watch.drop-refusals": ("no scheduler gave a reason", drop_refusals),
    "watch.cut": ("the watch has a gap", cut_watch),
    "refusal.forget-control": ("the control never happened", forget_later_gangs),
    "refusal.accept-duplicate-task": ("a Job with a task twice is accepted", accept_refused),
    "refusal.by-permission": ("refused for want of permission", refuse_by_permission),
    "inventory.api-not-served": ("the APIs answer 404", api_not_served),
    "inventory.unfilled-dry-run": ("the dry-run Job comes back unfilled", unfilled_dry_run),
    "inventory.no-phase": ("no PodGroup gets a phase", no_phase),
    "inventory.no-podgroup": ("no PodGroup appears", no_podgroup),
    "plugins.move-rank": ("RANK is off by one", move_rank),
    "plugins.drop-env": ("no process printed its environment", _drop("env")),
    "plugins.wrong-address": ("the master's name gives another address",
                              _on("resolved", lambda w: w.update(addresses=["10.255.255.1"]))),
    "plugins.unresolved": ("the master's name does not resolve",
                           _on("resolved", lambda w: w.update(addresses=[], ok=False))),
    "plugins.no-service": ("there is no Service", lambda e: without(e, lambda line: line.kind == "Service")),
    "plugins.inject-unasked": ("the variables are injected unasked", inject_unasked),
    "lifecycle.no-completion": ("members stay although the Job is Completed", no_completion),
    "lifecycle.end-with-master": ("members end with their master", end_with_master),
    "scheduler.default": ("the pods are placed by default-scheduler", under_default_scheduler),
    "rendezvous.drop-a-rank": ("one rank printed nothing", _drop("rank", keep=lambda w: w.get("rank") != 1)),
    "rendezvous.rank-twice": ("one rank exists twice", _on("rank", lambda w: w.update(rank=0), rank=1)),
    "rendezvous.wrong-sum": ("one rank got another sum", _on("sum", lambda w: w.update(got=-1.0), rank=1)),
    "rendezvous.two-worlds": ("one rank is in a smaller world", _on("rank", lambda w: w.update(world=1), rank=1)),
}  # fmt: skip
"""Name -> (what is planted, mutant)."""
