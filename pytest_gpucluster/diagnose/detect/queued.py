"""Jobs behind Kueue: quota that is refused, that is held for nobody, and that nobody asked for."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pytest_gpucluster.diagnose import quotas, words
from pytest_gpucluster.diagnose.detect.limits import amount
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.owning import workloads_of
from pytest_gpucluster.diagnose.quotas import Quota
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Workload
from pytest_gpucluster.judge import wording
from pytest_gpucluster.plain import names, quantities
from pytest_gpucluster.requirement import Cause

ROOM = re.compile(
    r"insufficient (?:unused )?quota|maximum capacity|no quota|more needed|exceeds (?:max|quota)|borrowing limit|"
    r"allows to fit only|pending the preemption|requires? preemption|waiting for (?:quota|all admitted|\w+ ?preempt)",
    re.IGNORECASE,
)
"""How Kueue says that its quota does not suffice now, or ever; anything else is a mistake in what was declared."""

PLURAL = {"TrainJob": "trainjobs", "JobSet": "jobsets", "Job": "jobs"}


def _conditions(workload: Workload) -> dict[str, fields.Object]:
    return {str(c.get("type")): c for c in fields.items(workload.last, "status", "conditions")}


def _true(workload: Workload, kind: str) -> bool:
    return _conditions(workload).get(kind, {}).get("status") == "True"


def _amounts(workload: Workload) -> str:
    """Return what quota a Workload holds, in words."""
    held = workload.reserved[-1].amounts if workload.reserved else {}
    return wording.listed([f"{quantities.format_quantity(n)} {r}" for r, n in sorted(held.items())], 4)


def resource_of(s: Situation) -> str:
    """Return the kind of the job as kubectl takes it, with its API group."""
    last = s.job.last if s.job is not None else {}
    kind = str(last.get("kind") or "Job")
    group = fields.group_of(fields.text(last, "apiVersion"))
    plural = PLURAL.get(kind, f"{kind.lower()}s")
    return f"{plural}.{group}" if group else plural


def _suspended(s: Situation) -> bool:
    return s.job is not None and fields.sub(s.job.last, "spec").get("suspend") is True


def _warnings(s: Situation, workload: Workload | None) -> list[Said]:
    """Return what was complained of about the job or its Workload, newest last."""
    said: list[Said] = []
    if s.gang is not None:
        kind = s.gang.kind.partition(".")[0]
        said += owners.said_about(s.evidence, kind, s.gang.namespace, s.gang.name, s.gang.uid)
    if workload is not None:
        said += kueue_workloads.events_about(s.evidence, workload)
    return sorted((x for x in said if x.type == "Warning"), key=lambda x: x.t)


def admitted_not_started(s: Situation) -> Iterator[Suspect]:
    """Quota is held for a job that is still suspended and has no pod: nobody lifted the suspension."""
    if s.gang is None or s.ended or s.pods or not _suspended(s):
        return
    for workload in workloads_of(s.evidence, s.gang):
        held = workload.holding(s.now)
        if held is None or not _true(workload, "Admitted") or _true(workload, "Evicted"):
            continue
        since = s.now - (held.admitted if held.admitted is not None else held.start)
        if since <= 2 * s.silent:
            return
        told = _warnings(s, workload)
        why = (
            f"; {told[-1].reporter or 'a controller'} says {told[-1].reason}: {words.short(told[-1].message)}"
            if told
            else ""
        )
        kind = s.gang.kind.partition(".")[0]
        describe = f"kubectl describe {resource_of(s)}{s.space} {s.gang.name}"
        cause = Cause(
            f"the Workload {workload.name} is Admitted, but its {kind} {s.gang.name} is still suspended: "
            f"{_amounts(workload)} "
            f"of ClusterQueue {held.queue} are held for no one{why}",
            f"find what should lift spec.suspend but does not ({describe}): "
            + (
                f"what {told[-1].reporter} says, its version beside Kueue's, "
                if told and told[-1].reporter
                else ""
            )
            + (
                f"Kueue's integration of {kind} (integrations.frameworks), and managedFields, which show what "
                "sets it again"
            ),
        )
        seen = f"Admitted for {since:.0f} s, spec.suspend true, 0 pods" + (
            f"; {wording.count(len(told), 'warning')}" if told else "; no event gives a reason"
        )
        yield fault(
            "admitted-not-started", Stage.CONTROLLER, cause, seen, where=(s.title, f"Workload/{workload.name}"),
            evidence=(held.key, *(x.key for x in told[-1:])), rows=("KUE-001", "KUE-005"),
            look=(describe, _describe(workload)),
        )  # fmt: skip
        return


def _describe(workload: Workload) -> str:
    space = f" -n {workload.namespace}" if workload.namespace else ""
    return f"kubectl describe workloads.kueue.x-k8s.io{space} {workload.name}"


def kept_after_eviction(evidence_workload: Workload) -> bool:
    """Report whether a Workload is Evicted and its admission is still filled."""
    return _true(evidence_workload, "Evicted") and bool(
        fields.sub(evidence_workload.last, "status", "admission")
    )


def evicted_and_holding(s: Situation) -> Iterator[Suspect]:
    """An eviction stopped half way: the pods are gone and the quota is kept."""
    if s.gang is None or s.ended or s.pods:
        return
    every = [w for w in kueue_workloads.workloads(s.evidence) if w.deleted is None]
    for workload in workloads_of(s.evidence, s.gang):
        told = workload.when("Evicted")
        if not kept_after_eviction(workload) or (told and s.now - told[-1].t <= 2 * s.silent):
            continue
        evicted = _conditions(workload)["Evicted"]
        queue = workload.reserved[-1].queue if workload.reserved else "?"
        waiting = [
            w.name for w in every if not fields.sub(w.last, "status", "admission") and w.finished is None
        ]
        held = f"{_amounts(workload)} of ClusterQueue {queue}"
        cause = Cause(
            f"the Workload {workload.name} is Evicted ({evicted.get('reason')}), has no pod, and still holds {held}"
            + (f"; {wording.listed(waiting, 4)} wait{'s' if len(waiting) == 1 else ''}" if waiting else ""),
            "look at Kueue's log and at the job's controller (is it suspended?); deleting the Workload "
            f"(kubectl delete workloads.kueue.x-k8s.io -n {workload.namespace} {workload.name}) frees the quota",
        )
        yield fault(
            "evicted-and-holding", Stage.QUEUE, cause, "status.admission is set together with Evicted=True; "
                                                       f"{s.title} has 0 pods",
            where=(s.title, f"Workload/{workload.name}"), evidence=(workload.key,), rows=("KUE-005", "KUE-004"),
            look=(_describe(workload),),
        )  # fmt: skip


def quota_waits(s: Situation) -> Iterator[Suspect]:
    """Kueue does not admit the job, and says why; or it has not heard of it."""
    if s.gang is None or s.ended or s.pods or not _suspended(s):
        return
    mine = workloads_of(s.evidence, s.gang)
    queue = str(
        fields.sub(s.job.last if s.job else {}, "metadata", "labels").get(names.LABEL_KUEUE_QUEUE) or ""
    )
    if not mine:
        yield from _no_workload(s, queue)
        return
    workload = mine[-1]
    told = _conditions(workload)
    if workload.holding(s.now) is not None:
        yield from _checks(workload)
        return
    reserved = told.get("QuotaReserved", {})
    message = words.short(str(reserved.get("message") or ""))
    keepers = [
        w.name
        for w in kueue_workloads.workloads(s.evidence)
        if w.deleted is None and w is not workload and kept_after_eviction(w)
    ]
    seen = f"QuotaReserved=False ({reserved.get('reason') or 'no condition'}); {s.title} is suspended and has 0 pods"
    more: dict[str, Any] = {
        "where": (s.title, f"Workload/{workload.name}"),
        "evidence": (workload.key,),
        "look": (_describe(workload),),
    }
    if keepers:
        cause = Cause(
            f"{workload.name} waits for quota that {wording.listed(keepers, 3)} keeps despite its eviction",
            f"find out why {keepers[0]} keeps its quota: run gpucluster diagnose on its job",
        )
        yield fault("quota-kept", Stage.QUEUE, cause, seen, LIKELY, rows=("KUE-005",), **more)
        return
    room = quotas.quota(s, workload)
    closed = _inactive(s, workload, room)
    if closed is not None:
        yield fault("quota-queue", Stage.QUEUE, closed, f"{seen}; {message}", rows=("KUE-001",), **more)
    elif ROOM.search(message):
        yield _refused(workload, room, message, seen, more)
    else:
        cause = Cause(
            f"Kueue does not admit {workload.name}: {message or 'no message'}",
            "follow its message: a LocalQueue or ClusterQueue is not Active, or a flavor does not fit the pods; "
            "otherwise check whether Kueue runs (kubectl -n kueue-system get pods)",
        )
        yield fault("quota-refused", Stage.QUEUE, cause, seen, LIKELY, rows=("KUE-001",), **more)


def _inactive(s: Situation, workload: Workload, room: Quota) -> Cause | None:
    """Return that the queue of a Workload is not there, or admits nothing."""
    if fields.sub(workload.last, "spec").get("active") is False:
        why = words.short(fields.text(_conditions(workload).get("Evicted", {}), "message"))
        return Cause(
            f"{workload.name} is deactivated (spec.active is false)" + (f": {why}" if why else ""),
            f"find out who did so, then set it again: kubectl patch workloads.kueue.x-k8s.io{s.space} {workload.name} "
            """--type=merge -p '{"spec":{"active":true}}'""",
        )
    name = fields.text(workload.last, "spec", "queueName")
    known = [line.name for line in s.objects(kueue_workloads.LOCAL_QUEUE, workload.namespace)]
    if room.local is None and (known or s.looked_at(kueue_workloads.LOCAL_QUEUE)):
        near = names.nearest(name, known)
        return Cause(
            f"{workload.name} asks for the LocalQueue {name}, which namespace {workload.namespace} does not have",
            f"name one that exists in the label {names.LABEL_KUEUE_QUEUE} ({wording.listed(known, 4) or 'none does'})"
            + (f"; did you mean {near!r}?" if near else ""),
        )
    for line in (room.local, room.queue):
        told = fields.condition(line.object, "Active") if line is not None else {}
        if line is not None and told.get("status") == "False":
            why = ": ".join(fields.text(told, key) for key in ("reason", "message") if told.get(key))
            where = s.space if line.kind == kueue_workloads.LOCAL_QUEUE else ""
            return Cause(
                f"the {line.kind} {line.name} of {workload.name} is not active ({words.short(why)}): it admits nothing",
                "correct what it says, and look at spec.stopPolicy (kubectl describe "
                f"{line.kind.lower()}s.{kueue_workloads.GROUP}{where} {line.name})",
            )
    return None


def _refused(workload: Workload, room: Quota, message: str, seen: str, more: dict[str, Any]) -> Suspect:
    """Return that quota is refused: for now, for ever, or against what the queue itself shows."""
    if room.free and room.queue is not None:
        parts = [
            f"{amount(room.reserved.get(r, Fraction(0)))} of {amount(room.most[r])} {r} are reserved, "
            f"{amount(n)} are asked for"
            for r, n in room.asked.items()
        ]  # fmt: skip
        cause = Cause(
            f"Kueue holds {workload.name} for want of quota, but ClusterQueue {room.queue.name} has it: "
            f"{wording.listed(parts, 3)}; Kueue says: {message}",
            "check whether Kueue still runs, and what its log says now (kubectl -n kueue-system get pods): its message "
            "may be old",
        )
        return fault("quota-contradicts", Stage.QUEUE, cause, seen, LIKELY, rows=("KUE-001",), **more)
    for resource in room.above:
        cause = Cause(
            f"{workload.name} will never be admitted: it asks for "
            f"{amount(room.asked[resource])} {resource}, and its ClusterQueue may have "
            f"{amount(room.most[resource])}; Kueue says: {message}",
            "ask for less, or raise the quota",
        )
        return refusal("quota-refused", Stage.QUEUE, cause, seen, rows=("KUE-002",), forever=True, **more)
    cause = Cause(
        f"Kueue holds {workload.name}: {message}",
        "ask for less, or raise the quota"
        if "maximum capacity" in message
        else "wait for the holders of the quota, ask for less, or raise the quota",
    )
    return refusal(
        "quota-refused",
        Stage.QUEUE,
        cause,
        seen,
        rows=("KUE-002",),
        forever="maximum capacity" in message,
        **more,
    )


def suspended(s: Situation) -> Iterator[Suspect]:
    """The job is suspended, and nothing that lifts a suspension knows it."""
    if s.gang is None or s.ended or s.pods or not _suspended(s) or s.age <= s.patience or s.job is None:
        return
    if workloads_of(s.evidence, s.gang) or names.LABEL_KUEUE_QUEUE in fields.sub(
        s.job.last, "metadata", "labels"
    ):
        return
    managed = fields.text(s.job.last, "spec", "managedBy")
    patch = f'kubectl patch {resource_of(s)}{s.space} {s.gang.name} --type=merge -p \'{{"spec":{{"suspend":false}}}}\''
    cause = Cause(
        f"{s.title} is suspended (spec.suspend is true), and no queue is named that would lift it"
        + (f"; {managed} manages it" if managed else ""),
        f"name a queue (label {names.LABEL_KUEUE_QUEUE}), or lift it ({patch})",
    )
    yield refusal(
        "suspended-by-hand", Stage.CONTROLLER, cause, f"spec.suspend is true, 0 pods, {s.age:.0f} s old", LIKELY,
        where=(s.title,), forever=True,
    )  # fmt: skip


def _checks(workload: Workload) -> Iterator[Suspect]:
    open_ = [
        f"{c.get('name')} {c.get('state')}: {c.get('message') or 'no message'}"
        for c in fields.items(workload.last, "status", "admissionChecks")
        if c.get("state") != "Ready"
    ]
    if open_ and not _true(workload, "Admitted"):
        cause = Cause(
            f"{workload.name} has its quota and waits for admission checks: {wording.listed(open_, 3)}",
            "look at the controller of the check (kubectl get admissionchecks.kueue.x-k8s.io)",
        )
        rejected = any(
            c.get("state") == "Rejected" for c in fields.items(workload.last, "status", "admissionChecks")
        )
        yield (fault if rejected else refusal)(
            "admission-check", Stage.QUEUE, cause, "QuotaReserved=True, not Admitted", LIKELY, evidence=(workload.key,),
            where=(f"Workload/{workload.name}",), look=(_describe(workload),),
        )  # fmt: skip


def _no_workload(s: Situation, queue: str) -> Iterator[Suspect]:
    listed = bool(kueue_workloads.workloads(s.evidence)) or s.looked_at(kueue_workloads.WORKLOAD)
    if not queue or s.age <= 2 * s.silent:
        return
    cause = Cause(
        f"{s.title} names the LocalQueue {queue}, is suspended, and "
        + ("Kueue made no Workload for it" if listed else "the evidence has no Workload for it"),
        "check that Kueue runs and manages this kind (integrations.frameworks), and that the LocalQueue exists "
        f"(kubectl get localqueues.kueue.x-k8s.io{s.space})",
    )
    yield fault(
        "no-workload", Stage.CONTROLLER, cause, f"suspended for {s.age:.0f} s, 0 pods", SURE if listed else LIKELY,
        where=(s.title,), rows=("KUE-001",), look=(f"kubectl get workloads.kueue.x-k8s.io{s.space}",),
    )  # fmt: skip
