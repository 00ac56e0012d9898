"""What rows about ranks presuppose: their wiring, names that resolve, a port that is open."""

import re

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import interception, name_resolution, pytorch_env, reachability
from pytest_gpucluster.requirement import Presupposed, Verdict

UNRESOLVED = re.compile(
    r"Name or service not known|Temporary failure in name resolution|gai error|Could not resolve"
)
"""What resolvers and torch print when a name is not known (glibc, c10d)."""

HOSTED = re.compile(r"hosts? the (?:TCP ?)?store|is_host|server socket has started", re.IGNORECASE)


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
    uids = {pod.uid for gang in subjects.of_the_row(evidence, given) for pod in gang.pods}
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
            name, held=True, observed="a recording without logs: nothing in it depends on a look-up"
        )
    return _torch_could_not_resolve(evidence, name)


AGAIN = re.compile(r"Temporary failure in name resolution|gai error: -3\b|EAI_AGAIN")
"""How resolvers say that no server answered: whether the name exists was not learnt."""


def _torch_could_not_resolve(evidence: Evidence, name: str) -> Presupposed:
    """Read what torch itself printed: a name unknown at the start decides that nobody hosts the store."""
    lines = [(line, str(line.data.get("line") or "")) for line in evidence.lines if line.type == "LOG"]
    unknown = next(((line, text) for line, text in lines if UNRESOLVED.search(text)), None)
    if unknown is None:
        return wording.presupposed(name, held=None, observed="no look-up of the master's name was recorded")
    line, text = unknown
    hosted = any(HOSTED.search(text) for _, text in lines)
    seen = (
        f"{line.data.get('pod')} could not resolve the endpoint at t={line.t:.0f} s ({wording.short(text)})"
    )
    if not hosted:
        seen += "; no agent reports that it hosts the store"
    causes = (name_resolution.NOT_READY, name_resolution.DNS)
    if AGAIN.search(text):
        causes = (name_resolution.NO_SERVER, name_resolution.NOT_READY)
    return wording.presupposed(name, held=False, observed=seen, causes=causes, evidence=(line.key,))


def master_port_open(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether nothing stood between the members and the master's port: what rows about meeting stand on."""
    name = "nothing blocks the way to the master's port"
    uids = {pod.uid for gang in subjects.of_the_row(evidence, given) for pod in gang.pods}
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
            name, held=True, observed="no member's attempt was recorded, so none failed"
        )
    return wording.presupposed(
        name, held=None, observed="no member's attempt on the master's port was recorded"
    )


def members_find_each_other(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether members found the names of the others before they formed a group."""
    name = "the members' names resolve"
    uids = {pod.uid for gang in subjects.of_the_row(evidence, given) for pod in gang.pods}
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
    name = "nothing blocks the way to the endpoint"
    uids = {pod.uid for gang in subjects.of_the_row(evidence, given) for pod in gang.pods}
    tried = [
        one for one in reachability.attempts(evidence) if one.pod is None or one.pod.uid in uids or not uids
    ]
    stopped = [one for one in tried if not one.ok and one.kind != "refused"]
    if stopped:
        one = stopped[0]
        causes = tuple(interception.causes(evidence, one.pod, one.master, one.port, one.kind))
        return wording.presupposed(name, held=False, observed=one.text, causes=causes, evidence=(one.key,))
    text = f"{len(tried)} tries were refused or open" if tried else "no dropped or reset attempt was recorded"
    held = True if tried or not subjects.of(evidence, given).arranged else None
    return wording.presupposed(name, held=held, observed=text, evidence=tuple(one.key for one in tried[:2]))
