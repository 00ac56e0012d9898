"""Between the gang and its nodes: pods that are refused, half placements, kubelets that reject, images, starts."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import GOING, Situation, requests
from pytest_gpucluster.evidence import fields, placement
from pytest_gpucluster.evidence.placement import Half
from pytest_gpucluster.evidence.pods import PodStory
from pytest_gpucluster.judge import half, say, terms
from pytest_gpucluster.requirement import Cause, Verdict

QUOTA = re.compile(r"exceeded quota: (?P<quota>[\w.-]+)")
QUOTA_RESOURCE = re.compile(
    r"requested: (?P<asked>[^,]+(?:,[\w./-]+=[^,]+)*?), used: (?P<used>.+?), limited: (?P<limit>.+)$"
)

SLOW_START = 60.0
"""Seconds after which a bound pod without a started container is worth a word; a volume's first mount may fail once."""


def creation_refused(s: Situation) -> Iterator[Suspect]:
    """The API server refuses pods of the Job: a ResourceQuota, pod security, a webhook."""
    if s.gang is None or s.ended or (s.job is not None and len({p.slot for p in s.pods}) >= s.gang.size):
        return
    said = [one for one in s.said_of_job if one.reason == "FailedCreate"]
    if not said:
        return
    last = said[-1]
    quota = QUOTA.search(last.message)
    of = f" of {s.gang.size}" if s.job is not None else ""
    seen = f"{len(s.pods)}{of} pods exist; {len(said)} refusals, the last: {last.message[:300]}"
    keys = (last.key,)
    if not quota:
        cause = Cause(
            "the API server refuses the pods of the Job",
            "change the task template, or the policy of the namespace, as the message says (pod security, webhook, "
            "service account)",
        )
        yield fault("pods-refused", Stage.CREATE, cause, seen, evidence=keys)
        return
    name = quota["quota"]
    line = s.object("ResourceQuota", name, s.namespace)
    waiting = len(s.unbound)
    counts = f"; it counts the {waiting} pods that wait as well as those that run" if waiting else ""
    numbers = QUOTA_RESOURCE.search(last.message)
    told = (
        f": {numbers['used']} used of {numbers['limit']}, {numbers['asked']} more asked for"
        if numbers
        else ""
    )
    cause = Cause(
        f"ResourceQuota {name} of namespace {s.namespace} stops the creation of pods{told}{counts}",
        f"raise the quota {name}, or let the whole gang fit below it: a quota counts created pods, not running ones; "
        "limits for training belong on the queue",
    )
    where = (f"ResourceQuota/{name}", s.title, *((f"Queue/{s.queue_name}",) if s.queue_name else ()))
    if s.queue_name and (limit := fields.sub(s.queue, "spec", "capability")):
        used = fields.sub(s.queue, "status", "allocated")
        parts = [f"{used.get(r, 0)} of {limit[r]} {r}" for r in limit if r in used]
        seen += f"; queue {s.queue_name} has bound {say.listed(parts, 3)}" if parts else ""
    yield fault(
        "quota", Stage.CREATE, cause, seen, where=where, evidence=(*keys, *((line.key,) if line else ())),
        rows=("GANG-003", "GANG-001"), look=(f"kubectl describe resourcequota{s.space} {name}",),
    )  # fmt: skip


def half_placed(s: Situation) -> Iterator[Suspect]:
    """The gang holds some places and lacks others: what a gang scheduler must never do."""
    if s.gang is None or s.whole or s.ended or s.phase in GOING or not s.held or not s.minimum_known:
        return
    if s.unbound and not any(requests(p.last) for p in s.unbound):
        return  # members that ask for nothing are not held by the gang's gate: another detector's
    finding = half.half_placed(s.evidence, {}, (s.gang,), "all or nothing")
    if finding is not None and finding.verdict is Verdict.FAIL:
        seen, causes, where, keys = finding.observed, finding.causes, finding.where, finding.evidence
    else:
        now = _half_now(s)
        if now is None:
            return
        seen, causes = say.describe_half(now), say.causes_of_half(now)
        where, keys = say.places((*now.members, *now.missing)), (now.key,)
    starved = [
        g for g in s.others
        if g.minimum > 1 and g.whole is None
        and 0 < sum(p.bound is not None and p.deleted is None for p in g.pods) < g.minimum
    ]  # fmt: skip
    if starved:
        parts = [f"{g.name} holds {say.part(g.generations[-1].most_held, g.minimum)}" for g in starved[:3]]
        seen += f"; beside it {say.listed(parts)}: they starve each other"
    for n, cause in enumerate(c for c in causes if c is not say.NO_ROOM):
        certainty = (
            LIKELY if n or (cause is say.NO_GANG_PLUGIN and not terms.gang_scheduler(s.gang)) else SURE
        )
        yield fault(
            "half-placed" if n == 0 else "half-placed-too", Stage.PLACE, cause, seen, certainty, where=where,
            evidence=keys, rows=("GANG-002", "GANG-008"), look=say.repeat(s.gang),
        )  # fmt: skip


def _half_now(s: Situation) -> Half | None:
    """Return the half placement that stands now and has stood since the last bind: a snapshot was not watched."""
    if s.gang is None or s.evidence.spans or s.was_whole:
        return None
    open_ = [one for one in placement.halves(s.evidence, s.gang) if one.open]
    last = max((p.bound for p in s.bound if p.bound is not None), default=s.now)
    if not open_ or s.now - last <= s.patience:
        return None
    return dataclasses.replace(open_[-1], seconds=s.now - last)


REJECTIONS: dict[str, str] = {
    "TopologyAffinityError": "ask for no more GPUs (and whole CPUs) a pod than one NUMA node has, spread them over "
    "more pods, or run the node with another topologyManagerPolicy",
    "UnexpectedAdmissionError": "the device plugin could not give what was counted: look at its pod and at the health "
    "of the devices on that node, then delete the pod",
    "NodeAffinity": "the node's labels changed after the pod was bound: look at them, and delete the pod",
    "Evicted": "the node ran short of memory or disk: give the pods requests, and look at what fills the node",
    "DeadlineExceeded": "activeDeadlineSeconds is too short for this job: raise it or leave it out",
}
"""Reason in the status of a pod that its kubelet ended or never started -> fix."""

OUT_OF = Cause(
    "", "two schedulers fill the same node, or devices were lost: let one scheduler have the GPU nodes"
)


def kubelet_rejects(s: Situation) -> Iterator[Suspect]:
    """A kubelet refused a bound pod, or ended it: the pod is Failed and no container says why."""
    by_reason: dict[str, list[PodStory]] = {}
    gone = s.gang.pods if s.gang is not None else s.loose
    for pod in gone if s.phase != "Completed" else ():
        reason = fields.text(pod.last, "status", "reason")
        if pod.phase == "Failed" and reason and pod.node:
            by_reason.setdefault(reason, []).append(pod)
    for reason, pods in by_reason.items():
        now = [p for p in pods if p.deleted is None]
        if not now and s.whole:
            continue
        fix = REJECTIONS.get(reason) or (OUT_OF.fix if reason.startswith(("OutOf", "OutOf")) else "")
        message = fields.text(pods[-1].last, "status", "message")
        nodes = say.listed(sorted({p.node for p in pods}), 4)
        cause = Cause(
            f"the kubelet of {nodes} ends or rejects the pod: {reason}",
            fix or "read status.reason and status.message of the pod, and the kubelet's log on that node",
        )
        seen = f"{len(pods)} pods Failed with reason {reason} ({message[:200]}); the scheduler had bound them"
        yield fault(
            "kubelet-rejects", Stage.ADMIT, cause, seen, where=say.places(pods), rows=("NUMA-002", "NUMA-008"),
            evidence=tuple(p.keys.get("finished") or p.keys["created"] for p in pods[:4]),
            look=(f"kubectl describe pod{s.space} {pods[-1].name}",),
        )  # fmt: skip


IMAGE_REASONS = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip

IMAGE_FIXES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"unauthorized|denied|authentication|forbidden|401|403", re.IGNORECASE),
     "give the task template imagePullSecrets that may read the registry"),
    (re.compile(r"not found|manifest unknown|404|does not exist", re.IGNORECASE),
     "correct the image's name, tag or digest: the registry does not have it"),
    (re.compile(r"timeout|timed out|no such host|connection|i/o|TLS|certificate", re.IGNORECASE),
     "the node cannot reach the registry: look at its proxy, DNS and certificates"),
    (re.compile(r"pull policy of Never|ErrImageNeverPull"),
     "put the image on the node, or use imagePullPolicy IfNotPresent"),
)  # fmt: skip


def waiting_containers(s: Situation) -> Iterator[Suspect]:
    """Containers of bound pods wait: for an image, for a volume or Secret, or because they cannot be started."""
    groups: dict[tuple[str, str], list[tuple[PodStory, fields.Object]]] = {}
    for pod in s.bound:
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(pod.last, "status", part):
                reason = fields.text(status, "state", "waiting", "reason")
                if reason in IMAGE_REASONS:
                    groups.setdefault(
                        ("image", fields.text(status, "image") or _image(pod, status)), []
                    ).append((pod, status))
                elif reason and reason not in ("ContainerCreating", "PodInitializing", "CrashLoopBackOff"):
                    groups.setdefault(("start", reason), []).append((pod, status))
    for (what, detail), found in groups.items():
        pods = [pod for pod, _ in found]
        message = next((m for _, st in found if (m := fields.text(st, "state", "waiting", "message"))), "")
        message = message or _said(s, pods[0], "Failed")
        yield (
            _image_suspect(s, detail, pods, message)
            if what == "image"
            else _start_suspect(s, detail, pods, message)
        )


def _image(pod: PodStory, status: fields.Object) -> str:
    named = (*fields.containers(pod.last), *fields.items(pod.last, "spec", "initContainers"))
    return next((fields.text(c, "image") for c in named if c.get("name") == status.get("name")), "")


def _said(s: Situation, pod: PodStory, reason: str) -> str:
    return next((said.message for said in reversed(s.said_of_pod(pod)) if said.reason == reason), "")


def _image_suspect(s: Situation, image: str, pods: list[PodStory], message: str) -> Suspect:
    fix = next((fix for pattern, fix in IMAGE_FIXES if pattern.search(message)), "")
    cause = Cause(
        f"the image {image or 'of a container'} cannot be pulled",
        fix or "check the image's name, the pull secrets, and that the node reaches the registry",
    )
    seen = f"{len(pods)} of {len(s.pods)} pods wait for it: {message[:240] or 'no message'}"
    return fault(
        "image", Stage.START, cause, seen, where=say.places(pods), rows=("INV-007",),
        evidence=tuple(p.keys.get("bound") or p.keys["created"] for p in pods[:4]),
        look=(f"kubectl describe pod{s.space} {pods[0].name}",),
    )  # fmt: skip


def _start_suspect(s: Situation, reason: str, pods: list[PodStory], message: str) -> Suspect:
    cause = Cause(
        f"a container cannot be started: {reason}",
        "correct what the message names: a ConfigMap or Secret that does not exist, a command that the image lacks, a "
        "volume path",
    )
    seen = f"{len(pods)} of {len(s.pods)} pods: {message[:240] or reason}"
    return fault(
        "start", Stage.START, cause, seen, where=say.places(pods),
        look=(f"kubectl describe pod{s.space} {pods[0].name}",),
        evidence=tuple(p.keys.get("bound") or p.keys["created"] for p in pods[:4]),
    )  # fmt: skip


def slow_start(s: Situation) -> Iterator[Suspect]:
    """A pod has had a node for long, and none of its containers was made."""
    for pod in s.bound:
        if (
            pod.running is not None
            or pod.phase != "Pending"
            or pod.bound is None
            or s.now - pod.bound < SLOW_START
        ):
            continue
        statuses = fields.items(pod.last, "status", "containerStatuses")
        reasons = {fields.text(st, "state", "waiting", "reason") for st in statuses}
        if not reasons <= {"", "ContainerCreating", "PodInitializing"}:
            continue
        said = [x for x in s.said_of_pod(pod) if x.type == "Warning"]
        why = f"{said[-1].reason}: {said[-1].message[:240]}" if said else "no event says why"
        init = _init_running(pod)
        if init:
            cause = Cause(
                f"its init container {init} has not ended",
                "read its log: it waits for something (a name, a port, a volume)",
            )
        elif not statuses and not said:
            cause = Cause(
                f"the kubelet of {pod.node} does not act on the pod",
                f"look at the node: kubectl describe node {pod.node}",
            )
        else:
            cause = Cause(
                "a container cannot be made (volume, network, device)",
                "correct what the event names; see the node's log",
            )
        seen = f"{pod.name} has been on {pod.node} for {s.now - pod.bound:.0f} s and did not start; {why}"
        yield fault(
            "slow-start", Stage.START, cause, seen, LIKELY, where=(pod.where,), evidence=(pod.keys["bound"],),
            look=(f"kubectl describe pod{s.space} {pod.name}",),
        )  # fmt: skip
        return


def _init_running(pod: PodStory) -> str:
    for status in fields.items(pod.last, "status", "initContainerStatuses"):
        if fields.sub(status, "state").get("running") is not None:
            return fields.text(status, "name")
    return ""


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
            "look at its kubelet and network; its pods are replaced when they are deleted",
        )
        seen = f"{say.listed([p.name for p in mine], 4)} on {name}: {str(ready.get('message') or '')[:200]}"
        yield fault(
            "node-not-ready", Stage.NODE, cause, seen, where=(f"Node/{name}",), evidence=(line.key,),
            look=(f"kubectl describe node {name}",),
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
                    "wait, or give the job a priorityClassName or a queue share that others may not take",
                )
                seen = f"{pod.name}: {said.message[:200]}"
                yield refusal(
                    "preempted", Stage.NODE, cause, seen, LIKELY, where=(pod.where,), evidence=(said.key,)
                )
                return


def scattered(s: Situation) -> Iterator[Suspect]:
    """Every pod has a PodGroup of its own: nobody told the scheduler of the gang."""
    if s.gang is None or not s.gang.scattered:
        return
    seen = f"the {len(s.pods)} pods of {s.gang.title} belong to PodGroups of minMember 1 made for each pod; "
    seen += f"{say.part(s.held, s.gang.size)} members bound"
    more: dict[str, Any] = {
        "where": say.places(s.pods),
        "rows": ("GANG-002", "TRN-003"),
        "look": say.repeat(s.gang),
    }
    if s.unbound and s.held:
        yield fault("scattered", Stage.CONTROLLER, say.SCATTERED, seen, **more)
    else:
        yield note("scattered", Stage.CONTROLLER, say.SCATTERED, seen, **more)
