"""Presuppositions: what must have been observed before a judge's word counts (catalogue, rule 6)."""

import re

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.evidence.scheduling import gates
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.judge.plugins import interception, name_resolution, pytorch_env, reachability
from pytest_gpucluster.judge.refusal import over_large
from pytest_gpucluster.requirement import Cause, Presupposed, Verdict

UNRESOLVED = re.compile(
    r"Name or service not known|Temporary failure in name resolution|gai error|Could not resolve"
)
"""What resolvers and torch print when a name is not known (glibc, c10d)."""

HOSTED = re.compile(r"hosts? the (?:TCP ?)?store|is_host|server socket has started", re.IGNORECASE)

IMAGE = Cause(
    "the containers did not start",
    "check the image name and pull secrets of the profile, and that the node can pull",
)
QUOTA = Cause(
    "a ResourceQuota of the namespace stops the creation of members; it counts pods that wait like those that run",
    "raise the ResourceQuota above what all members ask for, or run where there is none: the queue limits what runs",
)
NOT_CREATED = Cause(
    "the API server refuses the pods that the Job's controller creates",
    "read the FailedCreate events of the Job: the message names the admission or quota that refuses",
)
FORBIDDEN = re.compile(r'pods "(?P<pod>[^"]+)" is forbidden: (?P<why>.*)', re.DOTALL)
EXCEEDED = re.compile(r"exceeded quota: (?P<quota>[^,\s]+)")

REJECTED = Cause(
    "the kubelet rejected the pod after it was bound (devices, topology, volumes)",
    "read `kubectl describe pod`: reason and message of the pod's status",
)
EVICTION = Cause(
    "the eviction was refused: by permission (403), or by a PodDisruptionBudget (429)",
    "grant `create` on pods/eviction, and leave the suite's namespace without PodDisruptionBudgets",
)
COMMANDS = Cause(
    "the command was refused: by permission (403), or its API is not there (404)",
    "grant `create` on commands.bus.volcano.sh, and install the CRDs of Volcano",
)


def _subjects(evidence: Evidence, given: subjects.Given) -> tuple[Gang, ...]:
    roles = tuple(role for role in subjects.ROLE_KEYS if role not in ("blocker", "control"))
    named = subjects.cast(evidence, given, *roles)
    return named if named is not None else subjects.everyone(evidence)


def gang_gate_reached(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether some gang was held at the gang gate: all members made, unbound, and the gang scheduler said why."""
    name = "the gang gate was reached"
    refused = ""
    limits = subjects.of(evidence, given)
    for gang in _subjects(evidence, given):
        for gen in gang.generations:
            reading = gates.read(evidence, gang, gen)
            held = reading.held
            tried = held is not None and (held.seconds > limits.period or not held.bound_after)
            if held and held.said and tried and reading.scheduler.whole and gang.minimum > 1:
                text = (
                    f"{gang.name} was held at the gang gate from t={held.said.t:.2f} s ({held.seconds:.1f} s)"
                )
                return wording.presupposed(name, held=True, observed=text, evidence=(held.said.key,))
            if reading.enqueue:
                said = reading.enqueue[0]
                refused = f"{gang.name} was refused before the gang gate: at enqueue, {said.message}"
    return wording.presupposed(name, held=None, observed=refused or "no gang was held at the gang gate")


def members_made(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the members of the gangs under judgement could be created at all."""
    name = "the members can be created"
    gangs = _subjects(evidence, given)
    there = {(pod.namespace, pod.name) for gang in gangs for pod in gang.pods}
    titles = {(gang.namespace, gang.name) for gang in gangs}
    refused: dict[str, tuple[str, str]] = {}
    for said in owners.all_said(evidence):
        namespace, about = said.namespace, said.obj.partition("/")[2]
        match = FORBIDDEN.search(said.message) if said.reason == "FailedCreate" else None
        if match and (namespace, about) in titles and (namespace, match["pod"]) not in there:
            refused[match["pod"]] = (match["why"], said.key)
    if refused:
        why, key = next(iter(refused.values()))
        quota = EXCEEDED.search(why)
        by = f"ResourceQuota {quota['quota']} stops" if quota else "the API server refuses"
        text = f"{by} the creation of {wording.listed(list(refused), 4)}: {' '.join(why.split())[:160]}"
        causes = (QUOTA if quota else NOT_CREATED,)
        return wording.presupposed(name, held=False, observed=text, causes=causes, evidence=(key,))
    made = sum(len(gang.pods) for gang in gangs)
    return wording.presupposed(name, held=True if made else None, observed=f"{made} members were created")


def pods_ran(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether containers of the gangs under judgement ran at all."""
    name = "pods run"
    gangs = _subjects(evidence, given)
    pods = [pod for gang in gangs for pod in gang.pods]
    if not gangs and not subjects.of(evidence, given).arranged:
        pods = list(stories.pods(evidence))  # A recording of pods that nobody made as a gang.
    blocked = [(pod, pod.blocked()) for pod in pods if pod.blocked() and pod.running is None]
    if blocked:
        pod, why = blocked[0]
        cause = REJECTED if fields.text(pod.last, "status", "reason") else IMAGE
        keys = (pod.keys.get("bound") or pod.keys["created"],)
        return wording.presupposed(
            name, held=False, observed=f"{pod.where}: {why}", causes=(cause,), evidence=keys
        )
    logged = payload_lines.words(evidence).logged
    ran = [pod for pod in pods if pod.running is not None or pod.exit_codes or pod.uid in logged]
    if ran:
        text = f"{len(ran)} of {len(pods)} pods were seen to run"
        seen = tuple(pod.keys["running"] for pod in ran[:2] if "running" in pod.keys)
        return wording.presupposed(name, held=True, observed=text, evidence=seen)
    text = f"none of {len(pods)} pods was seen to run"
    return wording.presupposed(name, held=None, observed=text if pods else f"{text}{_not_made(evidence)}")


def _not_made(evidence: Evidence) -> str:
    """Say which creation the API server refused or failed to answer, where none was made for that."""
    failed = [
        line
        for line in evidence.responses()
        if (fields.number(line.data, "code") or 0) >= 400
        and fields.text(line.data, "request").startswith("create ")
        and not line.data.get("dry_run")
    ]
    if not failed:
        return ""
    first = failed[0].data
    why = " ".join(fields.text(first, "status", "message").split())
    return f": {fields.text(first, 'request')} was answered {fields.number(first, 'code')}: {why[:200]}"


def ranks_wired(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the pytorch plugin wired the ranks: what rows that need a working world stand on."""
    name = "the ranks are wired"
    env = pytorch_env.pytorch_env(evidence, given)
    held = {Verdict.PASS: True, Verdict.FAIL: False}.get(env.verdict)
    return wording.presupposed(
        name, held=held, observed=env.observed, causes=env.causes, evidence=env.evidence
    )


def master_name_resolves(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the master's name resolved where it was looked up."""
    name = "the master's name resolves"
    words = payload_lines.words(evidence)
    uids = {pod.uid for gang in _subjects(evidence, given) for pod in gang.pods}
    looked = [w for w in words.of("resolved") if w.uid in uids or not uids]
    # What a pod found at last counts, not the tries before it.
    last = {(w.uid, str(w.data.get("name"))): w for w in looked}
    failed = [w for w in last.values() if name_resolution.not_found(w)]
    asked = name_resolution.cluster_dns_asked(evidence, given)
    if failed and asked.held is False:
        return wording.presupposed(
            name, held=False, observed=asked.observed, causes=asked.causes, evidence=asked.evidence
        )
    if failed:
        word = failed[0]
        text = (
            f"{word.data.get('name')} did not resolve from {word.pod} ({word.number('tries') or '?'} tries)"
        )
        causes = (name_resolution.NOT_READY, name_resolution.DNS)
        return wording.presupposed(name, held=False, observed=text, causes=causes, evidence=(word.key,))
    if looked:
        text = f"{len(looked)} look-ups answered"
        return wording.presupposed(name, held=True, observed=text, evidence=(looked[0].key,))
    met = [w for w in (*words.of("sum"), *words.of("barrier")) if w.data.get("ok") is not False]
    formed = [w for w in met if w.uid in uids or not uids]
    if formed:
        text = "the members met, so the name was found"
        return wording.presupposed(name, held=True, observed=text, evidence=(formed[0].key,))
    if not words.logged and not subjects.of(evidence, given).arranged:
        return wording.presupposed(
            name, held=True, observed="a recording without logs: nothing in it stands on a look-up"
        )
    return _torch_could_not_resolve(evidence, name)


def _torch_could_not_resolve(evidence: Evidence, name: str) -> Presupposed:
    """Read what torch itself printed: a name unknown at the start decides that nobody hosts the store."""
    lines = [(line, str(line.data.get("line") or "")) for line in evidence.lines if line.type == "LOG"]
    unknown = next(((line, text) for line, text in lines if UNRESOLVED.search(text)), None)
    if unknown is None:
        return wording.presupposed(name, held=None, observed="no look-up of the master's name was recorded")
    line, text = unknown
    hosted = any(HOSTED.search(text) for _, text in lines)
    seen = f"{line.data.get('pod')} could not resolve the endpoint at t={line.t:.0f} s ({text.strip()[:160]})"
    if not hosted:
        seen += "; no agent says that it hosts the store"
    return wording.presupposed(
        name, held=False, observed=seen, causes=(name_resolution.NOT_READY,), evidence=(line.key,)
    )


def master_port_open(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether nothing stood between the members and the master's port: what rows about meeting stand on."""
    name = "nothing stands between members and the master's port"
    uids = {pod.uid for gang in _subjects(evidence, given) for pod in gang.pods}
    tried = [
        one for one in reachability.attempts(evidence) if one.pod is None or one.pod.uid in uids or not uids
    ]
    stopped = [one for one in tried if reachability.blocked(evidence, one)]
    if stopped:
        one = stopped[0]
        causes = tuple(interception.causes(evidence, one.pod, one.master, one.port, one.kind))
        return wording.presupposed(name, held=False, observed=one.text, causes=causes, evidence=(one.key,))
    if any(one.ok for one in tried):
        return wording.presupposed(name, held=True, observed=f"{len(tried)} members tried it")
    if any(word.data.get("ok") is not False for word in payload_lines.words(evidence).of("barrier")):
        return wording.presupposed(name, held=True, observed="the members met, so they reached it")
    if not tried and not subjects.of(evidence, given).arranged:
        return wording.presupposed(
            name, held=True, observed="no member's try of it was recorded, so none failed"
        )
    return wording.presupposed(name, held=None, observed="no member's try of the master's port was recorded")


def members_find_each_other(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether members found the names of the others before they formed a group."""
    name = "the members' names resolve"
    uids = {pod.uid for gang in _subjects(evidence, given) for pod in gang.pods}
    waits = [word for word in payload_lines.words(evidence).of("waited") if word.uid in uids or not uids]
    over = list({word.uid: word for word in waits}.values())
    lost = [word for word in over if word.data.get("ok") is not True]
    if lost:
        text = f"{lost[0].pod}: {lost[0].data.get('error') or 'a name was not found'}"
        told = fields.sub(lost[0].data, "names").values()
        silent = any(isinstance(one, dict) and one.get("kind") == "no-answer" for one in told)
        causes = (name_resolution.NO_SERVER,) if silent else (name_resolution.NOT_READY, name_resolution.DNS)
        asked = name_resolution.cluster_dns_asked(evidence, given)
        causes = (*asked.causes, *causes)
        return wording.presupposed(name, held=False, observed=text, causes=causes, evidence=(lost[0].key,))
    held = True if over or not subjects.of(evidence, given).arranged else None
    keys = tuple(word.key for word in over[:2])
    return wording.presupposed(
        name, held=held, observed=f"{len(over)} members found all names", evidence=keys
    )


def no_interception(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether an endpoint out of reach is so because nobody hosts it, and not because something stands between."""
    name = "nothing stands between members and the endpoint"
    uids = {pod.uid for gang in _subjects(evidence, given) for pod in gang.pods}
    tried = [
        one for one in reachability.attempts(evidence) if one.pod is None or one.pod.uid in uids or not uids
    ]
    stopped = [one for one in tried if not one.ok and one.kind != "refused"]
    if stopped:
        one = stopped[0]
        causes = tuple(interception.causes(evidence, one.pod, one.master, one.port, one.kind))
        return wording.presupposed(name, held=False, observed=one.text, causes=causes, evidence=(one.key,))
    text = (
        f"{len(tried)} tries were refused or open"
        if tried
        else "no try that was dropped or reset was recorded"
    )
    held = True if tried or not subjects.of(evidence, given).arranged else None
    return wording.presupposed(name, held=held, observed=text, evidence=tuple(one.key for one in tried[:2]))


def scheduler_answers(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the gang scheduler looked at what was submitted."""
    name = "the gang scheduler answers"
    phase = scheduler_parts.phase_given(evidence, given)
    held = {Verdict.PASS: True, Verdict.FAIL: False}.get(phase.verdict)
    return wording.presupposed(
        name, held=held, observed=phase.observed, causes=phase.causes, evidence=phase.evidence
    )


def control_ran(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether a fitting control ran on the same queue as the refused gang."""
    name = "a fitting control ran"
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else [g for g in subjects.everyone(evidence) if g.whole is None]
    if not gangs:
        return wording.presupposed(name, held=None, observed="no refused gang in the evidence")
    held, why = over_large.control_of(evidence, given, gangs[0])
    return wording.presupposed(
        name, held=held, observed=why, causes=(over_large.BLOCKED,) if held is False else ()
    )


def eviction_permitted(evidence: Evidence, given: subjects.Given) -> Presupposed:  # noqa: ARG001
    """Say whether the API server took our request for an eviction; where none was made nothing stands on it."""
    return _taken(evidence, "evict", "pods may be evicted", EVICTION)


def commands_permitted(evidence: Evidence, given: subjects.Given) -> Presupposed:  # noqa: ARG001
    """Say whether the API server took our commands to Jobs; where none was given nothing stands on it."""
    return _taken(evidence, "command", "Jobs may be given commands", COMMANDS)


def _taken(evidence: Evidence, case: str, name: str, cause: Cause) -> Presupposed:
    answers = [line for line in evidence.responses() if line.data.get("case") == case]
    refused = [line for line in answers if int(line.data.get("code") or 0) >= 400]
    if refused:
        code, request = refused[0].data.get("code"), refused[0].data.get("request")
        text = f"{request}: refused, HTTP {code}"
        return wording.presupposed(
            name, held=False, observed=text, causes=(cause,), evidence=(refused[0].key,)
        )
    keys = tuple(line.key for line in answers[:2])
    return wording.presupposed(name, held=True, observed=f"{len(answers)} requests were taken", evidence=keys)
