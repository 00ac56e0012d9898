"""What can stand between two pods: proxies of a service mesh, NetworkPolicies; read from objects in the evidence."""

import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

INJECTION = re.compile(r"inject|istio\.io/rev|mesh|dataplane-mode", re.IGNORECASE)
"""Labels and annotations of a namespace by which meshes are asked to do so."""


def causes(
    evidence: Evidence, member: PodStory | None, master: PodStory | None, port: str, kind: str
) -> Iterator[Cause]:
    """Yield why a connection between two pods may have been stopped, likeliest first."""
    policy = _policy(evidence, member, master, port)
    mesh = _mesh(evidence, [pod for pod in (master, member) if pod is not None], port)
    # A proxy takes the connection and drops it; a policy never lets it begin.
    found = [mesh, policy] if kind in ("reset", "refused") else [policy, mesh]
    known = [cause for cause in found if cause is not None]
    yield from known
    if policy is None:
        yield Cause(
            f"a NetworkPolicy (or a firewall between the nodes) does not let members reach the master's port {port}",
            f"kubectl get networkpolicies; allow TCP {port} between the pods of the Job (the svc plugin makes "
            "such a policy itself unless --disable-network-policy is given)",
        )
    if mesh is None:
        yield Cause(
            "a service mesh's sidecar takes the connection and expects its own protocol",
            f'switch injection off for training pods (annotation sidecar.istio.io/inject: "false" or the mesh\'s own) '
            f"or exclude port {port} from it",
        )


def _mesh(evidence: Evidence, pods: list[PodStory], port: str) -> Cause | None:
    """Return the cause that a mesh stands between, where the pods carry its proxy or their namespace asks for it."""
    carry = [(pod.name, proxy) for pod in pods for proxy in proxies(pod)]
    spaces = sorted({pod.namespace for pod in pods if pod.namespace})
    marks = [mark for space in spaces for mark in _asks(evidence, space)]
    if not carry and not marks:
        return None
    who = [f"Pod/{name} carries the container {proxy}" for name, proxy in carry]
    text = wording.listed([*who, *marks], 6)
    return Cause(
        f"a service mesh in namespace {wording.listed(spaces) or 'default'} proxies the traffic of port {port}: {text}",
        f'switch injection off for the training pods (annotation sidecar.istio.io/inject: "false", or the mesh\'s '
        f"own), or exclude port {port} from it (traffic.sidecar.istio.io/excludeInboundPorts and -OutboundPorts)",
    )


def proxies(pod: PodStory) -> list[str]:
    """Return the names of a pod's containers that are proxies of a service mesh."""
    found = [*fields.containers(pod.last), *fields.items(pod.last, "spec", "initContainers")]
    return [str(c.get("name")) for c in found if containers.is_proxy(c)]


def _asks(evidence: Evidence, namespace: str) -> Iterator[str]:
    """Yield by what a namespace asks for a mesh."""
    for line in evidence.lines:
        obj = line.object
        if obj.get("kind") == "Namespace" and line.name == namespace:
            meta = fields.sub(obj, "metadata")
            marks = {**fields.sub(meta, "labels"), **fields.sub(meta, "annotations")}
            for key, value in marks.items():
                if INJECTION.search(str(key)) and str(value).lower() not in ("disabled", "false"):
                    yield f"the namespace has {key}: {value}"
        elif obj.get("kind") == "PeerAuthentication" and (
            fields.text(obj, "metadata", "namespace") in (namespace, "istio-system")
        ):
            mode = fields.text(obj, "spec", "mtls", "mode")
            yield f"PeerAuthentication {line.name} asks for mTLS {mode or 'by default'}"


def _policy(evidence: Evidence, member: PodStory | None, master: PodStory | None, port: str) -> Cause | None:
    """Return the cause that a NetworkPolicy isolates the master and none lets the member in."""
    if master is None or member is None:
        return None
    isolating: list[str] = []
    for uid in evidence.uids("NetworkPolicy"):
        line = evidence.history(uid)[-1]
        if line.type == "DELETED" or fields.text(line.object, "metadata", "namespace") != master.namespace:
            continue
        spec = fields.sub(line.object, "spec")
        kinds = spec.get("policyTypes") or ["Ingress"]
        if "Ingress" not in kinds or not _selects(fields.sub(spec, "podSelector"), master):
            continue
        if any(_lets_in(rule, member, master, port) for rule in fields.items(spec, "ingress")):
            return None
        isolating.append(line.name)
    if not isolating:
        return None
    return Cause(
        f"NetworkPolicy {wording.listed(isolating)} isolates Pod/{master.name}, and no policy lets "
        f"Pod/{member.name} reach port {port}",
        f"add an ingress rule for TCP {port} from the pods of the Job",
    )


def _selects(selector: fields.Object, pod: PodStory) -> bool:
    """Report whether a label selector selects a pod; an empty one selects all."""
    if any(pod.labels.get(key) != value for key, value in fields.sub(selector, "matchLabels").items()):
        return False
    return all(_expression(one, pod) for one in fields.items(selector, "matchExpressions"))


def _expression(one: fields.Object, pod: PodStory) -> bool:
    value = pod.labels.get(str(one.get("key")))
    match one.get("operator"):
        case "In":
            return value in (one.get("values") or ())
        case "NotIn":
            return value not in (one.get("values") or ())
        case "Exists":
            return value is not None
    return value is None


def _lets_in(rule: fields.Object, member: PodStory, master: PodStory, port: str) -> bool:
    """Report whether an ingress rule lets a pod in to a port; what depends on namespaces or addresses is let in."""
    ports = fields.items(rule, "ports")
    if ports and not any(_has_port(one, port) for one in ports):
        return False
    peers = fields.items(rule, "from")
    if not peers:
        return True
    for peer in peers:
        if "ipBlock" in peer or "namespaceSelector" in peer:
            return True
        if member.namespace == master.namespace and _selects(fields.sub(peer, "podSelector"), member):
            return True
    return False


def _has_port(one: fields.Object, port: str) -> bool:
    if str(one.get("protocol") or "TCP") != "TCP":
        return False
    first, last = one.get("port"), one.get("endPort")
    if first is None or not str(first).isdigit():
        # No port is every port; a named one cannot be told from here.
        return True
    return int(str(first)) <= int(port or 0) <= int(str(last or first))
