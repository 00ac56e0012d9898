"""Bound pods that a kubelet refused, or ended: by what it says, and by what became of the node."""

import dataclasses
import re
from collections.abc import Iterator
from datetime import datetime

from pytest_gpucluster.diagnose import machines, words
from pytest_gpucluster.diagnose.detect import evicted, restarting
from pytest_gpucluster.diagnose.detect.suspecting import fault
from pytest_gpucluster.diagnose.history import when
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import vendors, wording
from pytest_gpucluster.requirement import Cause

NUMA_ROWS = ("NUMA-002", "NUMA-008")

FIXES: dict[str, tuple[str, str]] = {
    "TopologyAffinityError": (
        ("the devices and CPUs that it asks for are not free on one NUMA node: it asks for more than one NUMA "
         "node has, "
        "or the free devices are split over several"),
        ("ask for no more GPUs (and whole CPUs) per pod than one NUMA node has, spread them over "
        "more pods, or run the node with another topologyManagerPolicy; compare with what one NUMA node of it has "
        "({topology})"),
    ),
    "DeadlineExceeded": ("", "activeDeadlineSeconds is too short for this job: raise it or leave it out"),
    "NodeShutdown": (evicted.DOWN[0], evicted.DOWN[1]),
    "NodeLost": ("", "the node is gone: delete the pod with --force if its node does not come back"),
    "Preempting": ("", "a critical pod took its place on the node: find it, and keep GPU nodes free of such pods"),
    "SMTAlignmentError": (
        "", "ask for CPUs in multiples of the threads of a core (full-pcpus-only is set on the node)"
    ),
    "NodePorts": ("a port of the node that it asks for (hostPort, or hostNetwork) is taken on {node}",
                  "leave hostPort out, or let only one such pod be on a node (podAntiAffinity)"),
    "TaintToleration": ("{node} was given a taint that it does not tolerate", "tolerate it, or remove the taint"),
}  # fmt: skip
"""Reason in the status of a pod that its kubelet ended or never started -> (what it means, fix)."""

SPOKEN = frozenset({"Evicted", "Terminated", "Shutdown", "NodeShutdown"})
"""Reasons under which kubelets end pods for several causes: the message tells which."""

ADMISSION: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"GPU is lost|fallen off the bus|[Xx]id \d+|NVML.*(?:Unknown Error|GPU)|uncorrectable ECC"),
     "a GPU of {node} is lost",
     ("cordon it (kubectl cordon {node}), reset or replace the GPU ({check}), then uncordon it; a pod that is "
      "only deleted may be placed there again")),
    (re.compile(r"unregistered device"),
     "the device plugin of {node} had not registered with its kubelet when the pod came",
     ("look at the device plugin's pod on {node} (kubectl get pods -A -o wide --field-selector "
      "spec.nodeName={node}); after a restart of the kubelet it registers again: then delete the pod")),
    (re.compile(r"maximum request size|too large"),
     "the devices of {node} are shared, and a pod may ask for one share only",
     ("ask for one, or change the sharing section of the device plugin (failRequestsGreaterThanOne)")),
    (re.compile(r"no healthy devices|[Uu]nhealthy devices?|device is unhealthy"),
     "the device plugin on {node} has no healthy device for the pod", ("look {check}; cordon the node until the "
                                                                       "devices are healthy")),
    (re.compile(r"connection refused|code = Unavailable|transport: |EOF|DeadlineExceeded|endpoint .*stopped"),
     "the device plugin on {node} does not answer its kubelet",
     ("look at the device plugin's pod on {node} (kubectl get pods -A -o wide --field-selector "
     "spec.nodeName={node}) and "
     "restart it; then delete the rejected pod")),
    (re.compile(r"Requested: \d+, Available: \d+"),
     ("{node} had fewer free devices than the scheduler counted: two schedulers fill the node, or its device "
      "plugin was "
     "restarted, or a device was lost"),
     ("to tell which: compare capacity with allocatable (kubectl describe node {node}), and schedulerName of the pods "
      "on it; leave the GPU nodes to one scheduler; look {check}, then delete the pod")),
    (re.compile(r"not enough (?:cpus|memory)|cpu manager|memory manager", re.IGNORECASE),
     "{node} cannot give the whole CPUs or the memory", "leave reserved CPUs out of the request, or use another node"),
)  # fmt: skip
"""(what an UnexpectedAdmissionError says, what it means, what to do)."""

RECREATED = (
    "the node {node} was removed and created again under its name{spot}: it is younger than the pod on it"
)


@dataclasses.dataclass(frozen=True)
class Rejection:
    """What a rejection means."""

    text: str
    fix: str
    rows: tuple[str, ...] = ()
    look: tuple[str, ...] = ()


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
        pod = (now or pods)[-1]
        message = fields.text(pod.last, "status", "message")
        found = _meaning(s, pod, reason, message)
        cause = Cause(found.text, found.fix)
        seen = (
            f"{wording.count(len(pods), 'pod')} Failed with reason {reason} "
            f"({words.short(message) or 'no message'}); "
        )
        seen += "the scheduler had bound them"
        yield fault(
            "kubelet-rejects", Stage.ADMIT, cause, seen, where=wording.places(pods), rows=found.rows,
            evidence=tuple(p.keys.get("finished") or p.keys["created"] for p in pods[:4]),
            look=(f"kubectl describe pod{s.space} {pod.name}", *found.look),
        )  # fmt: skip


def _meaning(s: Situation, pod: PodStory, reason: str, message: str) -> Rejection:
    plain = f"the kubelet of {pod.node} ends or rejects the pod: {reason}"
    if reason == "NodeLost":
        plain = f"the kubelet of {pod.node} does not answer: {reason}"
    if reason == "NodeAffinity":
        return _node_affinity(s, pod)
    if reason == "UnexpectedAdmissionError":
        return _admission(s, pod, message)
    rows = NUMA_ROWS if reason == "TopologyAffinityError" else ()
    if reason.startswith("OutOf"):
        return _out_of(s, pod, reason.removeprefix("OutOf"), message)
    told = evicted.why(message, pod.node) if reason in SPOKEN else None
    means, fix = told or FIXES.get(reason, ("", ""))
    means = means.format(node=pod.node) if told is None else means
    said = means or words.short(message)
    text = f"{plain}: {said}" if said else plain
    topology = vendors.of(vendors.resource_of(pod.last)).topology
    known = fix or "read status.reason and status.message of the pod, and the kubelet's log on that node"
    fix = known.format(node=pod.node, topology=topology) if told is None else known
    first = _pinned_first(pod) if reason == "TopologyAffinityError" else []
    if first:
        text += f"; or its init container {wording.listed(first, 2)}, which asks for whole CPUs, was aligned alone"
        fix += "; give the init container no whole CPU, or run the node with topologyManagerScope pod"
    return Rejection(text, fix, rows)


def _pinned_first(pod: PodStory) -> list[str]:
    """Return the init containers that ask for whole CPUs: a scope of containers aligns each before the main one."""
    return [
        str(box.get("name"))
        for box in fields.items(pod.last, "spec", "initContainers")
        if re.fullmatch(r"[1-9]\d*", str(fields.sub(box, "resources", "requests").get("cpu", "")))
    ]


COUNTED = re.compile(r"requested: (?P<asked>\d+), used: (?P<used>\d+), capacity: (?P<has>\d+)")


def _out_of(s: Situation, pod: PodStory, resource: str, message: str) -> Rejection:
    """Say why a node had less than its scheduler counted."""
    found = COUNTED.search(message)
    counts = (
        f" (requested: {found['asked']}, used: {found['used']}, capacity: {found['has']})" if found else ""
    )
    text = f"the kubelet of {pod.node} rejects the pod: OutOf{resource}{counts}{_lost(s, pod)}"
    if resource == "pods":
        return Rejection(
            text, "the node has as many pods as its kubelet allows: raise maxPods, or spread the pods"
        )
    which = "two schedulers fill the same node, or static pods and DaemonSets came in between"
    if "/" in resource:
        which = "two schedulers fill the same node, its device plugin was restarted, or devices were lost"
    fix = (
        f"{which}: leave the nodes to one scheduler (compare schedulerName of the pods there), and compare "
        "capacity with "
        f"allocatable (kubectl describe node {pod.node}); then delete the pod"
    )
    return Rejection(text, fix, (), (f"kubectl describe node {pod.node}",))


def _admission(s: Situation, pod: PodStory, message: str) -> Rejection:
    named = {"node": pod.node, "check": vendors.check(vendors.resource_of(pod.last), pod.node, message)}
    for pattern, text, fix in ADMISSION:
        if pattern.search(message):
            said = f"{text.format(**named)}: UnexpectedAdmissionError, {_deciding(message, pattern)}{_lost(s, pod)}"
            return Rejection(said, fix.format(**named), ("INV-002",), (f"kubectl describe node {pod.node}",))
    text = f"the kubelet of {pod.node} rejects the pod: UnexpectedAdmissionError, {words.short(message)}{_lost(s, pod)}"
    fix = f"look at the device plugin's pod on {pod.node} and its devices ({named['check']}), then delete the pod"
    return Rejection(text, fix, (), (f"kubectl describe node {pod.node}",))


def _deciding(message: str, pattern: re.Pattern[str]) -> str:
    """Return of a chain of errors the links from just before the one that decides."""
    links = words.plain(message).split(": ")
    at = next((n for n, link in enumerate(links) if pattern.search(link)), None)
    return words.short(": ".join(links[max(0, at - 1) :] if at is not None else links))


def _lost(s: Situation, pod: PodStory) -> str:
    """Return what a node offers where that is less than it has."""
    line = s.object("Node", pod.node)
    parts = []
    for resource in fields.scarce_resources(pod.last) if line is not None else ():
        status = fields.sub(line.object, "status") if line else {}
        has, gives = (
            fields.quantity(fields.sub(status, p).get(resource, 0)) for p in ("capacity", "allocatable")
        )
        if gives < has:
            parts.append(f"{pod.node} offers {float(gives):g} of {float(has):g} {resource}")
    ill = machines.complaints(line.object) if line is not None else ()
    return "".join(f"; {part}" for part in (*parts, *(f"{pod.node} reports {one}" for one in ill[:2])))


def _bound_at(pod: PodStory) -> datetime | None:
    told = fields.condition(pod.last, "PodScheduled").get("lastTransitionTime")
    times = (
        told,
        fields.text(pod.last, "status", "startTime"),
        fields.text(pod.last, "metadata", "creationTimestamp"),
    )
    return next((t for one in times if (t := when(one)) is not None), None)


def _node_affinity(s: Situation, pod: PodStory) -> Rejection:
    """Say what became of the labels that a bound pod asks of its node: a new node, other labels, or too early."""
    line = s.object("Node", pod.node)
    again = f"delete the pod (kubectl delete pod{s.space} {pod.name}), or restart the gang"
    look = (f"kubectl get node {pod.node} --show-labels",)
    plain = f"the kubelet of {pod.node} rejects the pod: NodeAffinity"
    if line is None:
        listed = s.looked_at("Node") or bool(s.objects("Node"))
        text = (
            f"{plain}; the node no longer exists"
            if listed
            else f"{plain}; the evidence does not have the node"
        )
        return Rejection(text, f"find out what happened to the node; {again}", (), look)
    made, bound = when(fields.text(line.object, "metadata", "creationTimestamp")), _bound_at(pod)
    labels = fields.sub(line.object, "metadata", "labels")
    missing = machines.unmet(pod.last, line.object)
    if made is not None and bound is not None and made > bound:
        spot = next((f" (label {word})" for key, word in SPOT_LABELS if _is_spot(labels.get(key))), "")
        text = RECREATED.format(node=pod.node, spot=spot)
        age = (made - bound).total_seconds()
        text += f" by {age:.0f} s, and "
        text += (
            f"it does not have {missing}, which the pod asks for"
            if missing
            else "its kubelet did not have the labels yet when it checked the pod"
        )
        fix = f"{again}: a pod is bound only once" + (
            ", and give the node that label again" if missing else ""
        )
        return Rejection(text, restarting.then(s, fix), (), look)
    if missing:
        text = f"{plain}: the pod asks for {missing}, and the node does not have it"
        return Rejection(
            text, f"restore the label, or make the pod ask for labels that nodes have; then {again}", (), look
        )
    text = (
        f"{plain}, although the node's labels match now: its kubelet was restarted and did not know them yet, or the "
        "node was relabelled after the bind"
    )
    return Rejection(text, f"check when the kubelet of {pod.node} started (its log); {again}", (), look)


SPOT_LABELS = tuple(machines.SPOT.items())


def _is_spot(value: object) -> bool:
    return str(value).lower() in ("true", "spot", "preemptible")
