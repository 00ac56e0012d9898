"""PLG-003: the svc plugin is forced on, and the master's name resolves from every member."""

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects import resolvers
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import late_names, pytorch_plan
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "the headless Service of the Job exists, pods have their own names in it, and MASTER_ADDR resolves to the master's "
    "pod IP from every member"
)
NOT_READY = Cause(
    "names of a headless Service appear when the pod behind them is ready; a look-up before that fails",
    "retry the look-up, or give the svc plugin --publish-not-ready-addresses=true",
)
NO_SVC = Cause(
    "the admission did not add the svc plugin to a Job with the pytorch plugin",
    "check the mutating webhook for Jobs, or add `svc: []` to the Job's plugins",
)
NO_SERVICE = Cause(
    "the controllers did not make the Job's headless Service (a quota, or an object of that name, prevents it), or "
    "somebody deleted it",
    "look at the events of the Job (kubectl describe vcjob) and at the log of vc-controller-manager",
)
DNS = Cause(
    "the cluster's DNS gives no answer, or a wrong one, for the Job's headless Service",
    "look at the Service and its EndpointSlices, and at the DNS pods of the cluster",
)
NO_SERVER = Cause(
    "no DNS server of the cluster answers: CoreDNS is scaled to zero or not ready, or its Service has no endpoints",
    "look at `kubectl -n kube-system get deployment coredns` and at the EndpointSlices of the Service kube-dns",
)
ELSEWHERE = Cause(
    "the pod asks a resolver that does not know the cluster's names: {}",
    "set dnsPolicy: ClusterFirstWithHostNet on pods with hostNetwork, ClusterFirst on all others",
)
_POLICIES = {
    "Default": "the DNS policy Default means the resolver of the pod's node, on any network",
    "None": "the DNS policy None means the servers of the pod's own dnsConfig, and no other",
}
_ON_HOST = "on the host network the DNS policy ClusterFirst means the node's own resolver"


@subjects.judge
def master_resolves(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-003."""
    found = pytorch_plan.pytorch_gangs(evidence, given)
    if not found:
        return _without_job(evidence)
    findings = [_judge(evidence, gang, plan) for gang, plan in found]
    return wording.gravest(findings)


def _service(evidence: Evidence, gang: Gang) -> Line | None:
    lines = evidence.of_kind("Service")
    return next(
        (
            line for line in lines
            if line.name == gang.name and fields.text(line.object, "metadata", "namespace") == gang.namespace
        ),
        None,
    )  # fmt: skip


def _judge(evidence: Evidence, gang: Gang, plan: pytorch_plan.Plan) -> Finding:
    service = _service(evidence, gang)
    plugins = gang.job.plugins if gang.job else {}
    if "svc" not in plugins:
        text = f"{gang.title} has plugins {wording.listed(sorted(map(str, plugins)))}: svc was not added"
        return wording.finding(Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(NO_SVC,))
    if service is None:
        first = min((pod.created for pod in gang.pods), default=evidence.end)
        if not gang.pods or evidence.gaps("Service", first, evidence.end):
            return wording.finding(
                Verdict.INCONCLUSIVE, REQUIRED, "Services were not watched, or no pod was made", gang
            )
        text = f"no Service {gang.name} in namespace {gang.namespace}"
        return wording.finding(Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(NO_SERVICE,))
    if fields.text(service.object, "spec", "clusterIP") != "None":
        text = f"Service {gang.name} is not headless (clusterIP {fields.text(service.object, 'spec', 'clusterIP')})"
        return wording.finding(Verdict.FAIL, REQUIRED, text, gang, violation=True, evidence=(service.key,))
    nameless = [
        pod.name for pod in gang.pods
        if fields.text(pod.last, "spec", "subdomain") != gang.name or not fields.text(pod.last, "spec", "hostname")
    ]  # fmt: skip
    if nameless:
        text = (
            f"{wording.listed(nameless)} have no hostname and subdomain {gang.name}, so no name of their own"
        )
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(NO_SVC,), evidence=(service.key,)
        )
    return _lookups(evidence, gang, plan.address, service)


def _lookups(evidence: Evidence, gang: Gang, address: str, service: Line) -> Finding:
    masters = [pod for pod in gang.pods if address.partition(".")[0] == pod.name]
    ips = {ip for pod in masters for ip in addresses_of(pod)}
    words = payload_lines.words(evidence)
    bad: list[str] = []
    unread: list[str] = []
    keys: list[str] = [service.key]
    tries = 0
    for pod in _latest(gang):
        word = words.last("resolved", pod.uid)
        if word is None:
            unread.append(pod.name)
            continue
        keys.append(word.key)
        tries = max(tries, word.number("tries") or 1)
        got = [str(a) for a in word.data.get("addresses") or ()]
        name = str(word.data.get("name") or "")
        if name and name.rstrip(".") != address and not name.startswith(f"{address}."):
            bad.append(f"{pod.name} looked up {name} instead of {address}")
        elif not_found(word) and resolvers.elsewhere(pod):
            unread.append(pod.name)
        elif not_found(word):
            bad.append(f"{pod.name}: {address} did not resolve ({word.number('tries') or '?'} tries)")
        elif ips and not ips & set(got):
            bad.append(
                f"{pod.name}: {address} is {', '.join(got)}, the master's pod IP is {', '.join(sorted(ips))}"
            )
    number = Number("tries until the name resolved", tries or None, "tries", origin="worst member")
    if bad:
        return wording.finding(
            Verdict.FAIL, REQUIRED, wording.listed(bad, 4), gang, causes=(NOT_READY, DNS), evidence=tuple(keys),
            numbers=(number,), violation=True,
        )  # fmt: skip
    if unread or not ips:
        missing = (
            f"no look-up of {wording.listed(unread)} could be read"
            if unread
            else "the master's pod IP was not seen"
        )
        text = f"Service {gang.name} is headless and pods are named; {missing}"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=tuple(keys[:8]))
    where = ", ".join(sorted(ips))
    text = f"{address} resolves to {where} from all {len(_latest(gang))} members ({tries} tries at most)"
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, evidence=tuple(keys[:12]), numbers=(number,))


def addresses_of(pod: PodStory) -> set[str]:
    """Return every pod IP of a pod."""
    ips = {fields.text(ip, "ip") for ip in fields.items(pod.last, "status", "podIPs")} | {pod.ip}
    return {ip for ip in ips if ip}


def _latest(gang: Gang) -> list[PodStory]:
    """Return the pods of the newest attempt that ran."""
    ran = [
        gen
        for gen in gang.generations
        if any(p.running is not None or p.finished is not None for p in gen.members)
    ]
    gen = ran[-1] if ran else gang.generations[-1]
    return list({pod.slot: pod for pod in gen.members}.values())


def _without_job(evidence: Evidence) -> Finding:
    """Judge look-ups of pods that no Volcano Job made: only that a pod's name gives that pod's IP."""
    lookups = payload_lines.words(evidence).of("resolved")
    told = late_names.decide(evidence, REQUIRED, DNS) if not lookups else None
    if told is not None:
        return told
    if not lookups:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no Volcano Job with the pytorch plugin in the evidence"
        )
    by_name = {pod.name: pod for pod in pods(evidence)}
    by_uid = {pod.uid: pod for pod in by_name.values()}
    shown: list[str] = []
    open_: list[str] = []
    # What a pod found at last counts, not the tries before it.
    for word in {(word.uid, str(word.data.get("name"))): word for word in lookups}.values():
        name = str(word.data.get("name") or "")
        pod = by_name.get(name.partition(".")[0])
        got = {str(a) for a in word.data.get("addresses") or ()}
        why = _too_soon(evidence, word, name, pod) or resolvers.elsewhere(by_uid.get(word.uid))
        if not_found(word) and why:
            open_.append(f"{name} was not found by {word.pod}, which {why}")
            continue
        if not_found(word) or (pod is not None and not got & addresses_of(pod)):
            text = f"{name} gives {wording.listed(sorted(got)) or 'nothing'} from {word.pod}"
            return wording.finding(
                Verdict.FAIL, REQUIRED, text, causes=(NOT_READY, DNS), evidence=(word.key,)
            )
        if pod is not None:
            shown.append(f"{name} resolves to {', '.join(sorted(got))} from {word.pod}")
    if open_ or not shown:
        text = wording.listed(open_, 4) or "look-ups of names that belong to no pod in the evidence"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, evidence=tuple(w.key for w in lookups[:8])
        )
    keys = tuple(word.key for word in lookups[:8])
    return wording.finding(
        Verdict.PASS, REQUIRED, wording.listed(list(dict.fromkeys(shown)), 4), evidence=keys
    )


def not_found(word: Word) -> bool:
    """Report whether a look-up gave nothing."""
    return word.data.get("ok") is False or not word.data.get("addresses")


def _too_soon(evidence: Evidence, word: Word, name: str, pod: PodStory | None) -> str:
    """Return why a look-up that gave nothing says nothing of DNS: nobody had published the name; "" where one had."""
    if evidence.of_kind("EndpointSlice"):
        told = late_names.listed_at(evidence, name, word.t)
        return "" if told else "looked it up while no EndpointSlice listed its pod as ready"
    ready = pod is not None and pod.running is not None and pod.running <= word.t
    return "" if ready else "looked it up while its pod was not seen to run"


def _policy(pod: PodStory) -> str:
    return fields.text(pod.last, "spec", "dnsPolicy") or "ClusterFirst"


def _elsewhere(policy: str) -> Cause:
    """Return why a pod of this DNS policy does not ask the cluster's DNS."""
    return Cause(ELSEWHERE.text.format(_POLICIES.get(policy, _ON_HOST)), ELSEWHERE.fix)


def cluster_dns_asked(evidence: Evidence, given: subjects.Given) -> Presupposed:  # noqa: ARG001
    """Say whether the pods that did not find a name asked the cluster's DNS at all."""
    name = "the cluster's DNS is asked"
    stories = {pod.uid: pod for pod in pods(evidence)}
    words = payload_lines.words(evidence)
    failed = [word for word in words.of("resolved") if not_found(word)]
    failed += [word for word in words.of("waited") if word.data.get("ok") is not True]
    found = {word.uid: word.key for word in failed if resolvers.elsewhere(stories.get(word.uid))}
    found |= {pod.uid: pod.keys["created"] for pod in late_names.misdirected(evidence)}
    if not found:
        return wording.presupposed(name, held=True, observed="no pod that asks others missed a name")
    shown = [f"{stories[uid].name} {resolvers.elsewhere(stories[uid])}" for uid in found]
    return wording.presupposed(
        name,
        held=False,
        observed=wording.listed(shown, 4),
        causes=tuple(_elsewhere(policy) for policy in sorted({_policy(stories[uid]) for uid in found})),
        evidence=tuple(found.values())[:8],
    )
