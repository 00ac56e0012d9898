"""Names that do not resolve, a store that nobody hosts, a rendezvous that ends by its time-out."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose.detect import policies, restarting
from pytest_gpucluster.diagnose.detect.complaining import (
    UNREACHED,
    UNRESOLVED,
    Complaint,
    command_line,
    complaints,
    host_pod,
    is_bad,
    own,
    ready_at,
    written,
)
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note
from pytest_gpucluster.diagnose.model import Certainty, Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.judge import wording
from pytest_gpucluster.judge.plugins import pytorch_plan
from pytest_gpucluster.requirement import Cause


def _payload_complaints(s: Situation) -> list[Complaint]:
    """Return what our own payloads say about look-ups and connections that failed."""
    words = payload_lines.words(s.evidence)
    found = []
    for pod in s.pods:
        word = words.last("resolved", pod.uid)
        if word is not None and (word.data.get("ok") is False or not word.data.get("addresses")):
            name = str(word.data.get("name") or "")
            found.append(
                Complaint(pod.name, f"{name} did not resolve", word.key, word.t, "unresolved", name, "")
            )
    return found


def name_unresolved(s: Situation) -> Iterator[Suspect]:
    """A member's name does not resolve; the reason is told from the pod and the Service behind it."""
    found = [*_payload_complaints(s), *complaints(s, UNRESOLVED, anywhere=True)]
    if not found:
        return
    last = max(found, key=lambda c: c.t)
    host = last.host or next((c.host for c in found if c.host), "")
    first = host.partition(".")[0]
    ready = ready_at(s, first) if first else None
    pods = sorted({c.pod for c in found})
    seen = f"{wording.listed(pods, 4)}: {last.said!r}"
    if ready is not None:
        failed = written(s, found)
        seen += f"; {first} became resolvable at t={ready:.0f} s"
        seen += f", the first failure was at t={min(failed):.0f} s" if failed else ""
    rows = ("PLG-003", "RDZV-003", "RDZV-004")
    more = {
        "where": tuple(f"Pod/{p}" for p in pods[:8]),
        "evidence": tuple(c.key for c in found[:4]),
        "rows": rows,
    }
    if not is_bad(s, found) or _succeeded_after(s, found):
        cause = Cause(
            f"the name {host or 'of a member'} did not resolve at first"
            + (f"; it became known at t={ready:.0f} s, when {first} was ready" if ready is not None else ""),
            f"wait for the name before the launcher starts (an init container), or {_publish(s)}",
        )
        yield note("name-late", Stage.CONNECT, cause, seen, **more)
        return
    cause, certainty = _why_unresolved(s, host, ready, found)
    if _missing_service(s, host) or not any(own(c) for c in complaints(s, UNREACHED, anywhere=True)):
        yield fault("name-unresolved", Stage.CONNECT, cause, seen, certainty, **more)


def _succeeded_after(s: Situation, found: list[Complaint]) -> bool:
    """Report whether a later attempt of the same work ended well."""
    last = max(written(s, found) or [c.t for c in found])
    return any(p.phase == "Succeeded" and p.finished is not None and p.finished > last for p in s.pods)


def _domain(s: Situation, host: str) -> str | None:
    """Return the Service part of a name inside the cluster, "" for a bare name; None for a name of elsewhere."""
    labels = host.rstrip(".").split(".")
    if len(labels) == 1:
        return ""
    like_ours = host_pod(s, host) is not None or re.search(r"-\d+$", labels[0]) is not None
    like_ours |= bool(s.name) and labels[0].startswith(s.name)
    inside = len(labels) == 2 or labels[2] == s.namespace
    return labels[1] if like_ours and inside else None


def _resolver(s: Situation, asking: frozenset[str]) -> tuple[str, Certainty] | None:
    """Return what in the specification of pods that ask keeps them from the cluster's DNS, None where nothing does."""
    for pod in s.pods:
        if asking and pod.name not in asking:
            continue
        policy = fields.text(pod.last, "spec", "dnsPolicy") or "ClusterFirst"
        if fields.sub(pod.last, "spec").get("hostNetwork") and policy not in (
            "ClusterFirstWithHostNet",
            "None",
        ):
            return f"{pod.name} has hostNetwork and dnsPolicy {policy}", SURE
        if policy == "Default":
            return f"{pod.name} has dnsPolicy Default", SURE
        if policy == "None":
            servers = fields.sub(pod.last, "spec", "dnsConfig").get("nameservers")
            told = (
                wording.listed([str(one) for one in servers], 3)
                if isinstance(servers, list | tuple)
                else "nobody"
            )
            return f"{pod.name} has dnsPolicy None and asks {told or 'nobody'}", LIKELY
    return None


AGAIN = re.compile(
    r"Temporary failure in name resolution|gai error: -3\b|EAI_AGAIN|SERVFAIL|server misbehaving|"
    r"no servers could be reached|[Tt]ry again|lookup .{0,500}(?:i/o timeout|timed out)"
)
"""How resolvers say that no server answered: whether the name exists was not learnt."""


def _unanswered(s: Situation, host: str, found: list[Complaint]) -> tuple[Cause, Certainty] | None:
    """Return that the name server itself was not reached; None where it answered that the name is not known."""
    if not any(AGAIN.search(c.text) for c in found):
        return None
    asking = [p for p in s.pods if p.name in {c.pod for c in found}]
    closed = next((name for p in asking if (name := policies.shut_out(s, p, None, policies.DNS))), "")
    if closed:
        return Cause(
            f"NetworkPolicy {closed} lets {asking[0].name} ask no name server: none of its egress rules allows port 53",
            "allow egress to UDP and TCP port 53 of the cluster's DNS (kube-system), or remove the policy",
        ), SURE
    return Cause(
        f"the name server does not answer for {host or 'a name'} (a temporary failure: it is not said that the name "
        "does not exist): CoreDNS is down or overloaded, or a NetworkPolicy or firewall stops port 53",
        "to tell which: kubectl -n kube-system get pods,endpointslices -l k8s-app=kube-dns (the name may differ), and "
        f"kubectl get networkpolicies{s.space}",
    ), LIKELY


def _publish(s: Situation) -> str:
    """Return how addresses of members that are not ready yet are made known."""
    if restarting.of_volcano(s):
        return "give the svc plugin --publish-not-ready-addresses=true"
    return "set publishNotReadyAddresses on the headless Service"


LOCAL_MASTER = re.compile(r"master_addr[=: ]+(?P<host>[\w.-]+)", re.IGNORECASE)
LAUNCHED = re.compile(
    r"\btorchrun\b|torch\.distributed\.(?:run|launch)|torch/distributed/elastic|\[default\] "
    r"Rendezvous"
)


def _bare_name(s: Situation, host: str) -> tuple[Cause, Certainty] | None:
    """Return that a pod's bare name was handed to others, who have nothing that makes it known."""
    pod = host_pod(s, host)
    if pod is None or "." in host or host == pod.ip or host != pod.name:
        return None
    plugins = s.vcjob.plugins if s.vcjob else {}
    known = s.objects("Service", s.namespace)
    listed = s.looked_at("Service") or bool(known)
    lines = [str(line.data.get("line") or "") for log in s.logs.values() for line in log]
    elastic = any(
        LAUNCHED.search(text) for text in (*lines, *(command_line(spec) for spec in s.specs.values()))
    )
    given = any((m := LOCAL_MASTER.search(text)) and m["host"] == host for text in lines)
    who = (
        "torchrun announced rank 0's bare host name"
        if elastic or given
        else "the launcher announced a pod's bare name"
    )
    how = " as master_addr" if elastic or given else ""
    why = "DNS has no bare pod names, only NAME.SERVICE behind a headless Service"
    if "svc" not in plugins and listed and not known:
        why = "no Service and no svc plugin publishes it to other pods"
    elif "svc" not in plugins and s.vcjob is not None:
        why = "the Job has no svc plugin that publishes it to other pods"
    return Cause(
        f"{who}, {host},{how} to the others: {why}".replace(",,", ","),
        (
            "add `svc: []` to spec.plugins (then the pods have full names)"
            if restarting.of_volcano(s)
            else "give the pods a headless Service (hostname and subdomain)"
        )
        + ", or start the launcher with --local-addr and the pod's address (status.podIP by the downward API)",
    ), SURE if given or (listed and not known) else LIKELY


def _missing_service(s: Situation, host: str) -> Cause | None:
    """Return that a name is below a Service that does not exist; None if it exists, or the Services are not known."""
    domain = _domain(s, host) if host else ""
    services = {line.name for line in s.objects("Service", s.namespace)}
    if not domain or domain == "svc" or domain in services or not (services or s.looked_at("Service")):
        return None
    text = f"{host} can never resolve: there is no Service {domain} in namespace {s.namespace}"
    if s.vcjob is not None and "svc" not in s.vcjob.plugins:
        rest = "" if domain == s.name else f", and use the Service {s.name} that it makes in the endpoint"
        return Cause(f"{text}, and the Job has no svc plugin", f"add `svc: []` to spec.plugins{rest}")
    own_name = s.name if s.object("Service", s.name, s.namespace) else "of the Job"
    return Cause(text, f"use the name of the headless Service ({own_name}), which is the pods' subdomain")


def _why_unresolved(
    s: Situation, host: str, ready: float | None, found: list[Complaint]
) -> tuple[Cause, Certainty]:
    pod = host_pod(s, host)
    domain = _domain(s, host) if host else ""
    silent = _unanswered(s, host, found)
    if domain is None:
        return silent or (
            Cause(
                f"{host}, a name outside the cluster, does not resolve",
                "check the cluster's DNS and whether pods may leave the cluster (egress, proxy); or put the fetched "
                "files into the image",
            ),
            LIKELY,
        )
    resolver = _resolver(s, frozenset(c.pod for c in found))
    bare = _bare_name(s, host) if not resolver else None
    if bare is not None and ready is None:
        return bare
    if resolver:
        return Cause(
            f"the pods do not use the cluster's DNS: {resolver[0]}",
            "set dnsPolicy ClusterFirstWithHostNet in the pod templates (ClusterFirst means the node's resolver there)"
            if "hostNetwork" in resolver[0]
            else "set dnsPolicy ClusterFirst in the pod templates",
        ), resolver[1] if host else LIKELY
    if silent is not None and silent[1] is SURE:
        return silent
    missing = _missing_service(s, host)
    if missing is not None:
        return missing, SURE
    if pod is not None and fields.text(pod.last, "spec", "subdomain") != domain and domain:
        had = fields.text(pod.last, "spec", "subdomain") or "none"
        return Cause(
            f"{host} can never resolve: the subdomain of {pod.name} is {had}, not {domain}",
            "leave hostname and subdomain out of the pod template, or make them those of the Service",
        ), SURE
    if (
        pod is not None
        and fields.condition(pod.last, "Ready").get("status") != "True"
        and pod.phase != "Running"
    ):
        return Cause(
            f"{host} does not resolve while {pod.name} is not ready ({pod.blocked() or pod.phase})",
            "find out why that pod does not start; wait for the name before the launcher starts, or "
            f"{_publish(s)}",
        ), SURE
    if ready is not None:
        return Cause(
            f"{host} became resolvable only at t={ready:.0f} s, after the members had looked it up",
            f"wait for the name before the launcher starts, or {_publish(s)}",
        ), SURE
    if silent is not None:
        return silent
    return Cause(
        f"the name {host or 'of a member'} does not resolve",
        f"check the headless Service and its endpoints (kubectl get service,endpointslices{s.space}), and from a "
        f"pod: nslookup {host or 'NAME'}; names appear only when the pod behind them is ready",
    ), LIKELY


def nobody_hosts(s: Situation) -> Iterator[Suspect]:
    """Every member, also the one that the endpoint names, is a client: no store was started."""
    found = complaints(s, UNREACHED, anywhere=True)
    mine = [c for c in found if own(c)]
    if not mine or not is_bad(s, found):
        return
    hosted = re.compile(r"server socket has started|is_host[=: ]+True|hosting the store", re.IGNORECASE)
    if any(hosted.search(str(line.data.get("line") or "")) for line in s.logs.get(mine[0].pod, ())):
        return
    names_ = complaints(s, UNRESOLVED, anywhere=True)
    host, port = mine[0].host, mine[0].port
    if names_ and _missing_service(s, host) is not None:
        # The name that nobody could resolve is why, and no wait for it would ever end.
        return
    ready = ready_at(s, mine[0].pod)
    late = f"; {mine[0].pod} became resolvable at t={ready:.0f} s" if ready is not None else ""
    why = " because it could not resolve its own name when it started" if any(own(c) for c in names_) else ""
    cause = Cause(
        f"no pod hosts the store: the endpoint {host}:{port} names {mine[0].pod}, which connects as a "
        f"client{why}{late}",
        f"start the launcher once the name resolves (an init container that waits for it), or {_publish(s)}, or give "
        f"{mine[0].pod} --rdzv_conf is_host=true",
    )
    clients = sorted({c.pod for c in found})
    seen = f"{wording.listed(clients, 6)} wait for {host}:{port} in vain: {mine[0].said!r}"
    yield fault(
        "nobody-hosts", Stage.CONNECT, cause, seen, where=tuple(f"Pod/{p}" for p in clients[:8]),
        evidence=tuple(c.key for c in (*mine, *names_)[:4]), rows=("RDZV-003", "RDZV-004"),
    )  # fmt: skip


def rendezvous_timeout(s: Situation) -> Iterator[Suspect]:
    """The launcher gave up because too few members came together, and no connection failed."""
    pattern = re.compile(r"RendezvousTimeoutError|rendezvous.*timed? ?out", re.IGNORECASE)
    found = complaints(s, pattern)
    if not found or not is_bad(s, found) or complaints(s, CLOSED):
        return
    if complaints(s, UNREACHED, anywhere=True) or complaints(s, UNRESOLVED, anywhere=True):
        return
    there = [p for p in s.pods if p.phase == "Running" or p.finished is not None]
    cause = Cause(
        f"the rendezvous timed out: fewer members joined than its minimum ({len(there)} pods ran)",
        "find out which members are missing; join_timeout of --rdzv_conf limits the wait",
    )
    seen = f"{wording.listed(sorted({c.pod for c in found}), 4)}: {found[0].said!r}"
    yield fault(
        "rendezvous-timeout", Stage.CONNECT, cause, seen, LIKELY, evidence=tuple(c.key for c in found[:4]),
        rows=("ELA-003", "RDZV-004"),
    )  # fmt: skip


CLOSED = re.compile(r"RendezvousClosedError|[Rr]endezvous for run_id=(?P<run>\S+) is closed")


def rendezvous_closed(s: Situation) -> Iterator[Suspect]:
    """The store says that the rendezvous of this run id is over: whoever comes later is turned away."""
    found = complaints(s, CLOSED)
    if not found or not is_bad(s, found):
        return
    runs = {m["run"] for c in found for m in CLOSED.finditer(c.text) if m["run"]}
    pods = sorted({c.pod for c in found})
    run = f" of run id {wording.listed(sorted(runs), 2)}" if runs else ""
    cause = Cause(
        f"RendezvousClosedError: the rendezvous{run} is closed in its store: a run with that id has ended (its "
        "members ended, or one shut it down), and no one can join it",
        "start with a fresh id (--rdzv-id, such as the Job's uid), or remove the old one from the store (etcd); "
        "if this run closed it, find the member that ended first",
    )
    last = found[-1]
    yield fault(
        "rendezvous-closed", Stage.CONNECT, cause, f"{wording.listed(pods, 4)}: {last.said!r}",
        rows=("RDZV-004", "ELA-003"),
        evidence=tuple(c.key for c in found[:4]), where=tuple(f"Pod/{pod}" for pod in pods[:8]),
    )  # fmt: skip


def rank_zero_elsewhere(s: Situation) -> Iterator[Suspect]:
    """Rank 0 is not on the pod that the master's name says: c10d orders ranks by address."""
    words = payload_lines.words(s.evidence)
    zero = next((w for w in words.of("rank") if w.number("rank") == 0), None)
    if zero is None:
        return
    host = str(zero.data.get("host") or zero.pod)
    plan = pytorch_plan.plan_of(s.gang) if s.gang else None
    first = plan.address.partition(".")[0] if plan else re.sub(r"\d+$", "0", host)
    if host.partition(".")[0] == first:
        return
    cause = Cause(
        f"rank 0 is on {host}, not on {first}: c10d orders ranks by address and ignores --node_rank",
        f"do not assume that rank 0 is {first}: storage, ports and logs of rank 0 are on {host}; use "
        "--master_addr (static) if the order matters",
    )
    yield note(
        "rank-zero-elsewhere",
        Stage.CONNECT,
        cause,
        f"{host} reports rank 0",
        evidence=(zero.key,),
        rows=("RDZV-001",),
    )


JOINED = re.compile(
    r"(?<!\d)(?P<came>\d{1,6})/(?P<all>\d{1,6}) (?:clients|workers|nodes|ranks|members) (?:have )?joined",
    re.IGNORECASE,
)


def members_missing(s: Situation) -> Iterator[Suspect]:
    """The store is there and waited for members that never came."""
    found = complaints(s, JOINED, anywhere=True)
    if not found or not is_bad(s, found):
        return
    told = JOINED.search(found[-1].text)
    if told is None or told["came"] == told["all"]:
        return
    spoke = {c.pod for c in found}
    silent = [p.name for p in s.pods if p.name not in spoke and not s.logs.get(p.name)]
    down = [
        f"{p.name} ({p.blocked() or p.phase})"
        for p in s.pods
        if p.phase not in ("Running", "Succeeded") and p.name not in spoke
    ]
    who = down or silent
    cause = Cause(
        f"{told['came']} of {told['all']} members joined the rendezvous"
        + (f"; missing: {wording.listed(who, 4)}" if who else ""),
        "find out why the missing ones do not start or do not reach it; compare --nnodes and WORLD_SIZE with the pods",
    )
    seen = f"{wording.listed(sorted(spoke), 4)}: {found[-1].said!r}"
    yield fault(
        "members-missing", Stage.CONNECT, cause, seen, LIKELY, evidence=tuple(c.key for c in found[:4]),
        where=tuple(f"Pod/{pod}" for pod in sorted(spoke)[:8]), rows=("RDZV-004", "ELA-003"),
    )  # fmt: skip
