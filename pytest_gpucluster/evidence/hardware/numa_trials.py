"""Pods that try how a node aligns: what each asked for and what its kubelet made of it; what kubelets say of it."""

import dataclasses
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.evidence.hardware import pod_devices
from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import containers, owners
from pytest_gpucluster.evidence.objects.pods import PodStory, pods

CONFIG = "configz"
"""Case of a kubelet's answer; after a colon the node's name."""
TOPOLOGIES = "numa-topologies"
NRT = "NodeResourceTopology"
NRT_VERSION = "topology.node.k8s.io/v1alpha2"

REJECTED, RAN, OPEN = "rejected", "ran", "open"
AFFINITY = "topologyaffinityerror"

_COUNT = r'"{resource}":\s*"?(\d+)'


@dataclasses.dataclass(frozen=True)
class Trial:
    """One pod that asks for devices.

    Attributes:
        pod: its story.
        node: where it was bound, "" where it was not.
        asked: devices that it needs at one time.
        each: devices of each of its regular containers that asks for any.
        cpus: whole CPUs that are its own, as a Guaranteed pod may have them.
        outcome: `rejected` by its kubelet, `ran`, or `open`: neither was seen.
        reason: reason of the rejection.
        since: when that was seen, in seconds.
        fitted: whether so many devices were free in numbers; None where it cannot be told.
        free: devices that were free on the node when it was bound; None where it cannot be told.
        beside: devices that other pods of the evidence held there.
        holds: what its containers hold.
        message: what the kubelet says of the rejection.
        key: of the line that decided.
    """

    pod: PodStory
    node: str
    asked: int
    each: tuple[int, ...]
    cpus: int
    outcome: str
    reason: str
    since: float
    fitted: bool | None
    free: int | None
    beside: int
    holds: tuple[pod_devices.Held, ...]
    message: str
    key: str

    @property
    def lies(self) -> dict[str, tuple[int, int]]:
        """Return its devices of which plugin and machine tell different NUMA nodes: id -> (plugin's, machine's)."""
        return {name: both for each in self.holds for name, both in each.lies.items()}

    @property
    def reports(self) -> dict[str, int | None]:
        """Return its devices with the NUMA nodes that their plugin reports; empty where that was not heard."""
        return {name: at for each in self.holds for name, at in each.plugin.items()}

    @property
    def unreported(self) -> bool:
        """Report whether its devices were handed out by a plugin that reports no NUMA node of any."""
        return set(self.reports.values()) == {None}

    @property
    def topology(self) -> bool:
        """Report whether the kubelet rejected it for want of a NUMA node; 1.16 wrote the reason with spaces."""
        return self.outcome == REJECTED and normal(self.reason) == AFFINITY

    @property
    def title(self) -> str:
        """Return `numa-misfit-0 (5 GPUs on gpu-0)`."""
        place = f" on {self.node}" if self.node else ""
        return f"{self.pod.name} ({self.asked} GPUs{place})"

    @property
    def nodes(self) -> frozenset[int]:
        """Return the NUMA nodes on which its devices lie, as far as known."""
        return frozenset(numa for each in self.holds for numa in each.nodes)

    @property
    def known(self) -> bool:
        """Report whether the NUMA node of each of its devices is known."""
        return bool(self.holds) and all(each.whole for each in self.holds if each.devices)

    @property
    def devices(self) -> dict[str, int | None]:
        """Return its devices with their NUMA nodes."""
        return {name: numa for each in self.holds for name, numa in each.devices.items()}


def normal(reason: str) -> str:
    """Return a reason without spaces and case."""
    return re.sub(r"\s+", "", reason).lower()


def resource_of(given: Mapping[str, Any]) -> str:
    """Return the declared GPU resource."""
    return str(given.get("gpu_resource") or "nvidia.com/gpu")


def trials(evidence: Evidence, given: Mapping[str, Any]) -> tuple[Trial, ...]:
    """Return the pods that ask for devices, in order of first appearance."""
    layout = fields.sub(given, "numa", "layout")
    declared = {str(device): numa for device, numa in layout.items() if isinstance(numa, int)}
    return evidence.derived(_Reading(resource_of(given), frozenset(declared.items())))


@dataclasses.dataclass(frozen=True)
class _Reading:
    """What the trials of an evidence depend on beside it; each judge of the area asks for them.

    Attributes:
        resource: the GPU resource.
        layout: devices with their NUMA nodes, as declared.
    """

    resource: str
    layout: frozenset[tuple[str, int]]

    def __call__(self, evidence: Evidence) -> tuple[Trial, ...]:
        """Read them."""
        holding = pod_devices.held(evidence, dict(self.layout))
        return tuple(
            _trial(evidence, self.resource, pod, holding.get(pod.uid, ()))
            for pod in pods(evidence)
            if wanted(pod.last, self.resource)[0] > 0
        )


def wanted(pod: fields.Object, resource: str) -> tuple[int, tuple[int, ...]]:
    """Return (what a pod needs of a resource at one time, what each container that stays asks for).

    Init containers run one after another, beside the sidecars that were started before them.
    """
    before, most = 0, 0
    each = []
    for container in fields.items(pod, "spec", "initContainers"):
        asked = asked_by(container, resource)
        most = max(most, before + asked)
        if containers.is_sidecar(container):
            before += asked
            each.append(asked)
    each += [asked_by(container, resource) for container in fields.containers(pod)]
    return max(sum(each), most), tuple(asked for asked in each if asked > 0)


def init_containers(pod: fields.Object, resource: str) -> list[fields.Object]:
    """Return the init containers that the pod's author asked for, or that need devices.

    A sidecar that admission added, or the set-up of a mesh, changes nothing of how a node aligns the devices.
    """
    own = containers.own(pod, "initContainers")
    return [
        one
        for one in fields.items(pod, "spec", "initContainers")
        if asked_by(one, resource) > 0 or (one in own and not containers.is_sidecar(one))
    ]


def asked_by(container: fields.Object, resource: str) -> int:
    """Return how many of a resource a container asks for."""
    for part in ("limits", "requests"):
        value = fields.sub(container, "resources", part).get(resource)
        if value is not None:
            return int(fields.quantity(value))
    return 0


def whole_cpus(pod: fields.Object) -> int:
    """Return how many CPUs would be a pod's own under the static policy: whole requests of a Guaranteed pod."""
    if (fields.text(pod, "status", "qosClass") or _quality(pod)) != "Guaranteed":
        return 0
    sidecars = [c for c in fields.items(pod, "spec", "initContainers") if containers.is_sidecar(c)]
    asked = [
        fields.quantity(fields.sub(c, "resources", "requests").get("cpu", 0))
        for c in (*sidecars, *fields.containers(pod))
    ]
    return sum(int(cpus) for cpus in asked if cpus > 0 and Fraction(cpus).denominator == 1)


def _quality(pod: fields.Object) -> str:
    """Return `Guaranteed` where what a pod asks for makes it so: a dump may have left out what the API server wrote."""
    for container in (*fields.items(pod, "spec", "initContainers"), *fields.containers(pod)):
        limits, requests = (fields.sub(container, "resources", part) for part in ("limits", "requests"))
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            if limit is None or fields.quantity(requests.get(name, limit)) != fields.quantity(limit):
                return ""
    return "Guaranteed"


def _trial(evidence: Evidence, resource: str, pod: PodStory, holds: tuple[pod_devices.Held, ...]) -> Trial:
    asked, each = wanted(pod.last, resource)
    outcome, reason, line = _outcome(evidence, pod)
    free, beside = _free(evidence, resource, pod)
    fitted = None if free is None else free >= asked
    if fitted is None and _scheduled(evidence, pod):
        fitted = True
    return Trial(
        pod=pod,
        node=pod.node,
        asked=asked,
        each=each,
        cpus=whole_cpus(pod.last),
        outcome=outcome,
        reason=reason,
        since=evidence.end if line is None else line.t,
        fitted=fitted,
        free=free,
        beside=beside,
        holds=holds,
        message="" if line is None else fields.text(line.object, "status", "message"),
        key=pod.keys["created"] if line is None else line.key,
    )


def _outcome(evidence: Evidence, pod: PodStory) -> tuple[str, str, Line | None]:
    """Return what became of a pod: that a container ran once outweighs what its status says later."""
    rejected: tuple[str, Line] | None = None
    for line in evidence.history(pod.uid):
        if line.type == "DELETED":
            continue
        if started(line.object):
            return RAN, "", line
        reason = fields.text(line.object, "status", "reason")
        if rejected is None and fields.text(line.object, "status", "phase") == "Failed" and reason:
            rejected = reason, line
    if rejected is not None:
        return REJECTED, rejected[0], rejected[1]
    return OPEN, "", None


def started(pod: fields.Object) -> bool:
    """Report whether a container of a pod ran: also one that was over before anybody looked."""
    if fields.text(pod, "status", "phase") in ("Running", "Succeeded"):
        return True
    statuses = [
        s
        for part in ("initContainerStatuses", "containerStatuses")
        for s in fields.items(pod, "status", part)
    ]
    return any(containers.began(s) for s in statuses)


def _scheduled(evidence: Evidence, pod: PodStory) -> bool:
    """Report whether a scheduler placed the pod: it counted what is free there."""
    history = evidence.history(pod.uid)
    unbound = bool(history) and not fields.text(history[0].object, "spec", "nodeName")
    about = owners.said_about(evidence, "Pod", pod.namespace, pod.name, pod.uid)
    said = any(one.reason == "Scheduled" for one in about)
    return pod.bound is not None and (unbound or said)


def _free(evidence: Evidence, resource: str, pod: PodStory) -> tuple[int | None, int]:
    """Return (devices free on the node when a pod was bound, None where nobody says; what others held there)."""
    if pod.bound is None:
        return None, 0
    taken = 0
    for other in pods(evidence):
        if other.uid == pod.uid or other.node != pod.node or other.bound is None or other.bound > pod.bound:
            continue
        ends = [when for when in (other.finished, other.deleted) if when is not None]
        if not ends or min(ends) > pod.bound:
            taken += wanted(other.last, resource)[0]
    offered = _offered(evidence, resource, pod.node, pod.bound)
    return (None if offered is None else offered - taken), taken


def offers(evidence: Evidence, given: Mapping[str, Any], node: str, t: float) -> int | None:
    """Return how many devices a node offered at a time, None where nobody says."""
    return _offered(evidence, resource_of(given), node, t)


def _offered(evidence: Evidence, resource: str, node: str, t: float) -> int | None:
    lines = [line for line in evidence.of_kind("Node") if line.name == node]
    before = [line for line in lines if line.t <= t] or lines[:1]
    if before:
        return int(fields.quantity(fields.sub(before[-1].object, "status", "allocatable").get(resource, 0)))
    for note in evidence.notes():
        match = re.search(_COUNT.format(resource=re.escape(resource)), str(note.data.get("text") or ""))
        if match:
            return int(match[1])
    return None


@dataclasses.dataclass(frozen=True)
class Stated:
    """What somebody says of how a node's kubelet is configured.

    Attributes:
        node: the node.
        policy: Topology Manager policy, "" where it is not said.
        scope: Topology Manager scope, "" where it is not said.
        cpu_policy: CPU Manager policy, "" where it is not said.
        denied: why nothing is known, "" where something is.
        key: of the line of evidence.
    """

    node: str
    policy: str = ""
    scope: str = ""
    cpu_policy: str = ""
    denied: str = ""
    key: str = ""

    @property
    def known(self) -> bool:
        """Report whether the policy is said."""
        return bool(self.policy)


def by_kubelet(evidence: Evidence) -> dict[str, Stated]:
    """Return node -> what its kubelet answered."""
    found = {}
    for answer in api_answers.read(evidence, CONFIG):
        node = answer.case.partition(":")[2]
        told = fields.sub(answer.object, "kubeletconfig")
        if not answer.ok or not told:
            why = f"HTTP {answer.code}" if not answer.ok else "an answer without a configuration"
            found[node] = Stated(node, denied=f"{why} on configz", key=answer.line.key)
            continue
        found[node] = Stated(
            node,
            policy=str(told.get("topologyManagerPolicy") or "none"),
            scope=str(told.get("topologyManagerScope") or "container"),
            cpu_policy=str(told.get("cpuManagerPolicy") or "none"),
            key=answer.line.key,
        )
    return found


def by_exporter(evidence: Evidence) -> dict[str, Stated]:
    """Return node -> what its NodeResourceTopology says; whoever writes it may be wrong."""
    answer = api_answers.one(evidence, TOPOLOGIES)
    found = {}
    for item in answer.items if answer is not None and answer.ok else ():
        node = fields.text(item, "metadata", "name")
        told = {str(a.get("name")): str(a.get("value")) for a in fields.items(item, "attributes")}
        policy, scope = told.get("topologyManagerPolicy", ""), told.get("topologyManagerScope", "")
        if not policy:
            policy, scope = _deprecated(item)
        found[node] = Stated(node, policy=policy, scope=scope, key=answer.line.key if answer else "")
    return found


def _deprecated(item: fields.Object) -> tuple[str, str]:
    """Read `topologyPolicies`, such as `SingleNUMANodePodLevel`."""
    listed = item.get("topologyPolicies")
    word = str(listed[0]) if isinstance(listed, list) and listed else ""
    for name, policy in (
        ("SingleNUMANode", "single-numa-node"),
        ("Restricted", "restricted"),
        ("BestEffort", "best-effort"),
    ):
        if word.startswith(name):
            return policy, "pod" if word.endswith("PodLevel") else "container"
    return ("none", "") if word == "None" else ("", "")
