"""Between the gang and its nodes: pods that are refused, half placements, nodes that are lost, evictions."""

import dataclasses
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pytest_gpucluster.diagnose import understood, words
from pytest_gpucluster.diagnose.detect.limits import amount
from pytest_gpucluster.diagnose.detect.scheduling import RBAC, rights
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault, note, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import FINISHED
from pytest_gpucluster.evidence.scheduling.half_placement import Half, halves
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import half_placement
from pytest_gpucluster.requirement import Cause, Verdict

QUOTA = re.compile(r"exceeded quota: (?P<quota>[\w.-]+)")
QUOTA_RESOURCE = re.compile(
    r"requested: (?P<asked>[^,\s]+(?:,[\w./-]+=[^,\s]+)*?), used: (?P<used>\S+?), limited: (?P<limit>[^\s\]]+)"
)


def creation_refused(s: Situation) -> Iterator[Suspect]:
    """The API server refuses pods of the Job: a ResourceQuota, pod security, a webhook."""
    if s.gang is None or s.ended or (s.job is not None and len({p.slot for p in s.pods}) >= s.gang.size):
        return
    said = [one for one in s.said_of_job if one.reason == "FailedCreate"]
    if not said:
        yield from _quota_without_words(s)
        return
    last = said[-1]
    message = words.plain(last.message)
    quota = QUOTA.search(message)
    of = f" of {s.gang.size}" if s.job is not None else ""
    seen = f"{len(s.pods)}{of} pods exist; {len(said)} refusals, the last: {words.short(message)}"
    keys = (last.key,)
    if not quota:
        denied = RBAC.search(message)
        if denied is not None:
            cause, look = rights(denied, last.reporter or "the controller")
            yield fault("pods-refused", Stage.CREATE, cause, seen, evidence=keys, look=look)
            return
        cause = Cause(
            f"the API server refuses the pods of the Job: {words.short(message)}",
            "change the task template, or the policy of the namespace, as the message says (pod security, webhook, "
            "service account)",
        )
        yield fault("pods-refused", Stage.CREATE, cause, seen, evidence=keys)
        return
    name = quota["quota"]
    line = s.object("ResourceQuota", name, s.namespace)
    waiting = len(s.unbound)
    counts = f"; it counts the {waiting} waiting pods as well as running ones" if waiting else ""
    numbers = QUOTA_RESOURCE.search(message)
    told = (
        f": {numbers['used']} used of {numbers['limit']}, {numbers['asked']} more requested"
        if numbers
        else ""
    )
    cause = Cause(
        f"ResourceQuota {name} of namespace {s.namespace} stops the creation of pods{told}{counts}",
        f"raise the quota {name}, or make the whole gang fit below it: a quota counts created pods, not running "
        "ones; put limits for training on the queue",
    )
    where = (f"ResourceQuota/{name}", s.title, *((f"Queue/{s.queue_name}",) if s.queue_name else ()))
    if s.queue_name and (limit := fields.sub(s.queue, "spec", "capability")):
        used = fields.sub(s.queue, "status", "allocated")
        parts = [f"{used.get(r, 0)} of {limit[r]} {r}" for r in limit if r in used]
        seen += f"; queue {s.queue_name} has bound {wording.listed(parts, 3)}" if parts else ""
    yield fault(
        "quota", Stage.CREATE, cause, seen, where=where, evidence=(*keys, *((line.key,) if line else ())),
        rows=("GANG-003", "GANG-001"), look=(f"kubectl describe resourcequota{s.space} {name}",),
    )  # fmt: skip


def _quota_without_words(s: Situation) -> Iterator[Suspect]:
    """Members are missing, no event says why, and a quota of the namespace has too little left for one more."""
    template = next(iter(s.templates), None) or next((p.last for p in s.pods), None)
    missing = (s.gang.size if s.job is not None and s.gang is not None else s.minimum) - len(
        {p.slot for p in s.pods}
    )
    if template is None or missing <= 0 or s.age <= s.silent or s.whole:
        return
    asked = {f"requests.{r}": n for r, n in fields.demands(template).items()} | fields.demands(template)
    asked |= {"pods": Fraction(1), "count/pods": Fraction(1)}
    for line in s.objects("ResourceQuota", s.namespace):
        hard = fields.sub(line.object, "status", "hard") or fields.sub(line.object, "spec", "hard")
        for key, limit in hard.items():
            used = fields.quantity(fields.sub(line.object, "status", "used").get(key, 0))
            if key not in asked or used + asked[key] <= fields.quantity(limit):
                continue
            cause = Cause(
                f"ResourceQuota {line.name} of namespace {s.namespace} has no room for one more pod: {amount(used)} of "
                f"{amount(fields.quantity(limit))} {key} are used, and a member asks for {amount(asked[key])}",
                f"raise the quota {line.name}, or make the whole gang fit below it: a quota counts created pods, not "
                "running ones",
            )
            seen = f"{wording.count(missing, 'member')} of {s.title} missing, and no event says why"
            yield fault(
                "quota", Stage.CREATE, cause, seen, SURE, where=(f"ResourceQuota/{line.name}", s.title),
                evidence=(line.key,), look=(f"kubectl describe resourcequota{s.space} {line.name}",),
            )  # fmt: skip
            return


def half_placed(s: Situation) -> Iterator[Suspect]:
    """The gang holds some places and lacks others: what a gang scheduler must never do."""
    if s.gang is None or s.whole or s.ended or s.phase in GOING or not s.held or not s.minimum_known:
        return
    if s.unbound and not any(fields.resources(p.last) for p in s.unbound):
        return  # members that ask for nothing are not held by the gang's gate: another detector's
    finding = half_placement.half_placed(s.evidence, {}, (s.gang,), "all or nothing")
    if finding is not None and finding.verdict is Verdict.FAIL:
        seen, causes, where, keys = finding.observed, finding.causes, finding.where, finding.evidence
    else:
        now = _half_now(s)
        if now is None:
            return
        seen, causes = wording.describe_half(now), wording.causes_of_half(now)
        where, keys = wording.places((*now.members, *now.missing)), (now.key,)
    starved = [
        g for g in s.others
        if g.minimum > 1 and g.whole is None
        and 0 < sum(p.bound is not None and p.deleted is None for p in g.pods) < g.minimum
    ]  # fmt: skip
    if starved:
        parts = [
            f"{g.name} holds {wording.part(g.generations[-1].most_held, g.minimum)}" for g in starved[:3]
        ]
        seen += f"; beside it {wording.listed(parts)}: they starve each other"
    for n, cause in enumerate(c for c in causes if c is not wording.NO_ROOM):
        certainty = (
            LIKELY if n or (cause is wording.NO_GANG_PLUGIN and not subjects.gang_scheduler(s.gang)) else SURE
        )
        yield fault(
            "half-placed" if n == 0 else "half-placed-too", Stage.PLACE, cause, seen, certainty, where=where,
            evidence=keys, rows=("GANG-002", "GANG-008"), look=wording.repeat(s.gang),
        )  # fmt: skip


def _half_now(s: Situation) -> Half | None:
    """Return the half placement that stands now and has stood since the last bind: a snapshot was not watched."""
    if s.gang is None or s.evidence.spans or s.was_whole:
        return None
    open_ = [one for one in halves(s.evidence, s.gang) if one.open]
    last = max((p.bound for p in s.bound if p.bound is not None), default=s.now)
    if not open_ or s.now - last <= s.patience:
        return None
    return dataclasses.replace(open_[-1], seconds=s.now - last)


def node_trouble(s: Situation) -> Iterator[Suspect]:
    """A node that carries a member is not Ready."""
    for name in sorted({p.node for p in s.bound if p.node}):
        line = s.object("Node", name)
        ready = fields.condition(line.object, "Ready") if line else {}
        if not line or ready.get("status", "True") == "True":
            continue
        mine = [p for p in s.bound if p.node == name]
        cause = Cause(
            f"the node {name} is not Ready ({ready.get('reason') or ready.get('status')})",
            "check its kubelet and network; its pods are replaced once they are deleted",
        )
        seen = f"{wording.listed([p.name for p in mine], 4)} on {name}: {words.short(str(ready.get('message') or ''))}"
        yield fault(
            "node-not-ready", Stage.NODE, cause, seen, where=(f"Node/{name}",), evidence=(line.key,),
            look=(f"kubectl describe node {name}",),
        )  # fmt: skip


def ill_nodes(s: Situation) -> Iterator[Suspect]:
    """A Ready node that carries a member complains of itself."""
    for name, key, told in () if s.ended else understood.ill_nodes(s):
        mine = [p for p in s.bound if p.node == name]
        cause = Cause(
            f"the node {name} of {wording.listed([p.name for p in mine], 3)} reports {wording.listed(list(told), 3)}",
            f"find out what its condition means for the members on it (kubectl describe node {name})",
        )
        yield fault(
            "node-complains", Stage.NODE, cause, f"{wording.count(len(told), 'condition')} of Node/{name}", POSSIBLE,
            where=(f"Node/{name}",), evidence=(key,), look=(f"kubectl describe node {name}",),
        )  # fmt: skip


def not_understood(s: Situation) -> Iterator[Suspect]:
    """The job's objects say something that is not known here."""
    told = understood.strange(s) if not s.ended else ()
    if told:
        cause = Cause(
            f"not known here what this means: {wording.listed(list(told), 4)}",
            "look at who writes it, and at the objects with kubectl describe",
        )
        yield fault(
            "not-understood", Stage.RUN, cause, "in the status of the job's own objects", POSSIBLE,
            where=(s.title,), look=wording.repeat(s.gang) if s.gang else (),
        )  # fmt: skip


def preempted(s: Situation) -> Iterator[Suspect]:
    """Members were preempted or reclaimed."""
    if s.gang is None or s.whole or s.ended:
        return
    for pod in s.gang.pods:
        for said in s.said_of_pod(pod):
            if said.reason in ("Evict", "Preempted", "Evicted"):
                cause = Cause(
                    "members were evicted in favour of another job (preemption or reclaim)",
                    "wait, or give the job a priorityClassName or a queue share that others cannot take",
                )
                seen = f"{pod.name}: {words.short(said.message)}"
                yield refusal(
                    "preempted", Stage.NODE, cause, seen, LIKELY, where=(pod.where,), evidence=(said.key,)
                )
                return


def disrupted(s: Situation) -> Iterator[Suspect]:
    """Members are being taken away: their condition DisruptionTarget says by whom."""
    for pod in s.pods:
        told = fields.condition(pod.last, "DisruptionTarget")
        if told.get("status") != "True" or s.ended or pod.phase in FINISHED:
            continue
        why = ": ".join(words.short(str(told[key])) for key in ("reason", "message") if told.get(key))
        cause = Cause(
            f"{pod.name} is being taken away (DisruptionTarget, {why or 'no reason'})",
            "wait until the gang is made whole again; " + _against(str(told.get("reason") or "")),
        )
        yield fault(
            "disrupted", Stage.NODE, cause, f"{pod.where}: condition DisruptionTarget is True", where=(pod.where,),
            evidence=(pod.keys["created"],), look=(f"kubectl describe pod{s.space} {pod.name}",),
        )  # fmt: skip
        return


def _against(reason: str) -> str:
    """Return what keeps members from being taken away for a reason."""
    if reason.startswith("Preemption"):
        return "give the job a priorityClassName that others do not outrank"
    if reason in ("DeletionByTaintManager", "DeletionByPodGC"):
        return "look at the node and its taints (kubectl describe node)"
    if reason == "EvictionByEvictionAPI":
        return "find who drains the node, and use a PodDisruptionBudget"
    if reason == "TerminationByKubelet":
        return "look at what the node is short of (kubectl describe node)"
    return "find out who does so"


def scattered(s: Situation) -> Iterator[Suspect]:
    """Every pod has a PodGroup of its own: nobody told the scheduler of the gang."""
    if s.gang is None or not s.gang.scattered:
        return
    seen = f"the {len(s.pods)} pods of {s.gang.title} belong to PodGroups of minMember 1 made for each pod; "
    seen += f"{wording.part(s.held, s.gang.size)} members bound"
    more: dict[str, Any] = {
        "where": wording.places(s.pods),
        "rows": ("GANG-002", "TRN-003"),
        "look": wording.repeat(s.gang),
    }
    if s.unbound and s.held:
        yield fault("scattered", Stage.CONTROLLER, wording.SCATTERED, seen, **more)
    else:
        yield note("scattered", Stage.CONTROLLER, wording.SCATTERED, seen, **more)
