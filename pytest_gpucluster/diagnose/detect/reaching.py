"""A port that does not answer: a service mesh, a NetworkPolicy, a program that does not listen."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose.detect import policies, shells
from pytest_gpucluster.diagnose.detect.complaining import (
    UNREACHED,
    UNRESOLVED,
    Complaint,
    complaints,
    host_pod,
    is_bad,
    own,
)
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault
from pytest_gpucluster.diagnose.model import Certainty, Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.judge.plugins import pytorch_plan
from pytest_gpucluster.requirement import Cause

MESH = re.compile(
    r"(?<![a-z])(?:istio|envoy|linkerd|consul|kuma|osm|nsm|cilium|aws|traefik-mesh|[a-z]+-mesh)-?"
    r"(?:proxy|sidecar|dataplane|connect|init)(?![a-z])|(?<![a-z])(?:envoy|linkerd2?)(?![a-z])",
    re.IGNORECASE,
)
"""Names of containers that a service mesh puts into pods."""


def port_unreached(s: Situation) -> Iterator[Suspect]:
    """The master's name resolves and its port does not answer."""
    found = complaints(s, UNREACHED)
    found += _probed(s)
    nameless = {(c.pod, c.host) for c in complaints(s, UNRESOLVED, anywhere=True) if c.host}
    found = [c for c in found if not shells.mine(s, c.text)]
    found = [c for c in found if c.what not in ("timeout", "failed") or (c.pod, c.host) not in nameless]
    if not found or not is_bad(s, found) or any(own(c) for c in found):
        return
    named = [c for c in found if c.host] or found
    one = max(named, key=lambda c: (bool(c.port), c.t))
    clients = sorted({c.pod for c in found})
    target = f"{one.host or 'the master'}:{one.port}" if one.port else one.host or "the master"
    seen = f"{wording.listed(clients, 4)} cannot reach {target}: " + "; ".join(
        dict.fromkeys(repr(c.said) for c in found[:2])
    )
    master = host_pod(s, one.host)
    if master is not None and master.ip:
        seen += f"; {master.name} has {master.ip}" + (", phase " + master.phase if master.phase else "")
    cause, code, certainty = _why_unreached(s, one, master)
    here = [master.name] if master else []
    yield fault(
        code, Stage.CONNECT, cause, seen, certainty, where=tuple(f"Pod/{p}" for p in (*clients[:6], *here)),
        evidence=tuple(c.key for c in found[:4]), rows=("PLG-011", "RDZV-004"),
    )  # fmt: skip


def _probed(s: Situation) -> list[Complaint]:
    """Return the connections that our own payloads could not open."""
    words = payload_lines.words(s.evidence)
    found = []
    for pod in s.pods:
        word = words.last("connected", pod.uid)
        if word is None or word.data.get("ok") is not False:
            continue
        host, _, port = str(word.data.get("to") or "").rpartition(":")
        what = f"{word.data.get('kind') or ''} {word.data.get('error') or ''}".strip() or "failed"
        hit = UNREACHED.search(what)
        kind = (hit.lastgroup if hit else None) or "failed"
        found.append(Complaint(pod.name, what, word.key, word.t, kind, host, port))
    return found


def _why_unreached(s: Situation, c: Complaint, master: PodStory | None) -> tuple[Cause, str, Certainty]:
    mesh = _meshes(s)
    on = f"port {c.port}" if c.port else "the port"
    if mesh:
        sidecar, where = mesh
        return (
            Cause(
                f"a service mesh takes the traffic between the members: the pods carry the container {sidecar}{where}, "
                f"and {on} is not let through",
                'switch injection off for training pods (label or annotation sidecar.istio.io/inject: "false", '
                f"linkerd.io/inject: disabled) or exclude {on} in both directions; if that does not help, nothing may "
                "listen there: read the master's log",
            ),
            "mesh",
            LIKELY,
        )
    closed = _policy(s, c, master, on)
    if closed is not None:
        return closed, "network-policy", SURE
    if master is not None and master.phase != "Running":
        return (
            Cause(
                f"{master.name} does not listen: it is {master.blocked() or master.phase or 'not running'}",
                "find out why that pod does not run",
            ),
            "master-not-running",
            LIKELY,
        )
    plan = pytorch_plan.plan_of(s.gang) if s.gang else None
    if plan is not None and c.port and plan.port != c.port and c.what == "refused":
        return (
            Cause(
                f"the members try port {c.port}, but the pytorch plugin sets MASTER_PORT {plan.port}",
                "use $(MASTER_PORT) in the command, or --port of the plugin",
            ),
            "port-differs",
            LIKELY,
        )
    if LOOPBACK.search(c.host or c.text):
        return (
            Cause(
                f"{c.pod} looks for others on its own loopback ({c.host or '127.0.0.1'}): its host name "
                "resolves to it",
                "name the interface (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME), and check that /etc/hosts does not "
                "map the pod's name to 127.0.0.1",
            ),
            "loopback",
            LIKELY,
        )
    who = master.name if master is not None else ""
    told = f"kubectl exec{s.space} {who or 'MASTER'} -- ss -ltn"
    if c.what == "refused":
        return (
            Cause(
                f"nothing listens on {on} of {c.host or 'the master'} (connection refused), by one of: its program has "
                "not come to that point or has ended, it listens on 127.0.0.1 or another port only, or the name is a "
                "Service's that has no ready pod",
                f"to tell which: {told} (what listens there), the master's log, and kubectl get "
                f"endpointslices{s.space}; the others must wait until it listens",
            ),
            "port-refused",
            LIKELY,
        )
    if c.what == "reset":
        return (
            Cause(
                f"{on} of {c.host or 'the master'} took the connection and closed it (reset): its program "
                "ended or does "
                "not speak this protocol, or a proxy stands between",
                f"read the master's log at that time; {told}",
            ),
            "port-reset",
            LIKELY if c.port else POSSIBLE,
        )
    return (
        Cause(
            f"{on} of {c.host or 'the master'} does not answer ({c.what})",
            f"find what drops it: kubectl get networkpolicies{s.space}, a firewall between the nodes, a mesh; or "
            "for members that never started",
        ),
        "port-unreached",
        LIKELY if c.port else POSSIBLE,
    )


def _policy(s: Situation, c: Complaint, master: PodStory | None, on: str) -> Cause | None:
    """Return the NetworkPolicy that stops a connection; one drops what it does not let in, and refuses nothing."""
    if c.what == "refused":
        return None
    if policy := policies.shut_in(s, master, c.port):
        return Cause(
            f"NetworkPolicy {policy} isolates {master.name if master else 'the master'} and lets no other member in",
            f"allow ingress from the pods of the same job to {on}, or remove the policy",
        )
    client = next((p for p in s.pods if p.name == c.pod), None)
    if master is not None and (policy := policies.shut_out(s, client, master, c.port)):
        return Cause(
            f"NetworkPolicy {policy} lets {c.pod} out to no other member on {on}",
            f"allow egress to the pods of the same job on {on}, or remove the policy",
        )
    return None


def _of_author(s: Situation, pod: PodStory) -> set[str]:
    """Return the names of the containers in the template that a pod was made from, where that is known."""
    template: fields.Object = {}
    if s.vcjob is not None:
        task = next((t for t in s.vcjob.tasks if t.get("name") == pod.task), {})
        template = fields.sub(task, "template")
    else:
        maker = fields.text(fields.owner(pod.last), "uid")
        job = next((one for one in s.batch_jobs if one.uid == maker), s.job)
        template = fields.sub(job.last, "spec", "template") if job is not None else {}
    every = (*fields.containers(template), *fields.items(template, "spec", "initContainers"))
    return {str(c.get("name")) for c in every}


def _meshes(s: Situation) -> tuple[str, str] | None:
    """Return (sidecar, where it comes from) if pods carry a container that a mesh injected."""
    carried: dict[str, int] = {}
    for pod in s.pods:
        own = _of_author(s, pod)
        for container in (*fields.containers(pod.last), *fields.items(pod.last, "spec", "initContainers")):
            name = str(container.get("name"))
            if name not in own and (MESH.search(name) or MESH.search(fields.text(container, "image"))):
                carried[name] = carried.get(name, 0) + 1
    if not carried:
        return None
    name = max(carried, key=lambda n: carried[n])
    parts = []
    space = s.object("Namespace", s.namespace)
    if space is not None:
        labels = {
            **fields.sub(space.object, "metadata", "labels"),
            **fields.sub(space.object, "metadata", "annotations"),
        }
        parts += [f"namespace {s.namespace} has {k}={v}" for k, v in labels.items() if MESH.search(str(k))]
    for kind in ("PeerAuthentication", "MeshTLS", "ServerAuthorization"):
        for line in s.objects(kind):
            mode = fields.text(line.object, "spec", "mtls", "mode")
            parts.append(f"{kind} {line.name}" + (f" demands {mode} mTLS" if mode else ""))
    return name, f" ({'; '.join(parts)})" if parts else f" (in namespace {s.namespace})"


IN_USE = re.compile(r"[Aa]ddress already in use|EADDRINUSE")
LOOPBACK = re.compile(r"(?:^|[^\d.])(127(?:\.\d+){3}|localhost|\[::1\])(?:\]?[:, ]|$)")


def address_in_use(s: Situation) -> Iterator[Suspect]:
    """Two programs want the same port of one network: of one pod, or of one node under hostNetwork."""
    found = complaints(s, IN_USE)
    if not found or not is_bad(s, found):
        return
    by_node: dict[str, list[str]] = {}
    for pod in s.pods:
        if fields.sub(pod.last, "spec").get("hostNetwork") and pod.node:
            by_node.setdefault(pod.node, []).append(pod.name)
    shared = [
        f"{wording.listed(pods, 3)} share the network of {node}"
        for node, pods in by_node.items()
        if len(pods) > 1
    ]
    pods = sorted({c.pod for c in found})
    cause = Cause(
        f"a port is taken in {wording.listed(pods, 3)}"
        + (f": {wording.listed(shared, 2)} (hostNetwork)" if shared else ""),
        "make only one member listen there: give every job its own --port, start one launcher per pod, and use "
        "hostNetwork with one pod per node only",
    )
    seen = f"{pods[0]}: {found[0].said!r}"
    where, keys = tuple(f"Pod/{p}" for p in pods[:8]), tuple(c.key for c in found[:4])
    yield fault(
        "address-in-use", Stage.CONNECT, cause, seen, LIKELY, where=where, evidence=keys, rows=("RDZV-004",)
    )
