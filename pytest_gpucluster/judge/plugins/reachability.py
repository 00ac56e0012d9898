"""PLG-011: members can open a TCP connection to the master's port, told apart from names that do not resolve.

A connection can fail in four ways, and each points elsewhere: the name does not resolve (DNS, judged by other rows);
refused (nobody listens, or something rejects); timed out (something drops: a NetworkPolicy, a security group); reset
or closed after it was taken (something in between speaks another protocol: a service mesh).
"""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import interception
from pytest_gpucluster.judge.plugins.name_resolution import addresses_of
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "every member opens a TCP connection to the master's address and port"

NOBODY = Cause(
    "nothing listens at the port: the master has not started to listen, has ended, or listens on loopback "
    "or another port",
    "read the master's log; make it listen on the pod's address at MASTER_PORT",
)
UNRESOLVED = Cause(
    "the master's name did not resolve, so no connection could be tried",
    "see the row about names first (PLG-003): the Job's headless Service and the cluster's DNS",
)

_KINDS = (
    ("timed out", re.compile(r"timed? ?out|ETIMEDOUT|EAGAIN", re.IGNORECASE)),
    ("reset", re.compile(r"reset|ECONNRESET|EPIPE|broken pipe|closed by|empty reply", re.IGNORECASE)),
    ("refused", re.compile(r"refused|ECONNREFUSED", re.IGNORECASE)),
    ("unreachable", re.compile(r"no route|unreach|prohibited|not permitted|EACCES|EPERM", re.IGNORECASE)),
)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What became of one member's connection.

    Attributes:
        member: name of the pod that tried.
        pod: the pod, where it is in the evidence.
        address, port: where to.
        ok: whether it came about.
        kind: how it failed: timed out, reset, refused, unreachable, or the words of the error.
        master: the pod with that address, where it is in the evidence.
    """

    member: str
    pod: PodStory | None
    address: str
    port: str
    ok: bool
    kind: str
    tries: int | None
    master: PodStory | None
    key: str

    @property
    def text(self) -> str:
        """Return the attempt in a few words."""
        to = f"{self.address}:{self.port}"
        return f"{self.member} to {to}: {'open' if self.ok else self.kind}"


def attempts(evidence: Evidence, gang: Gang | None = None) -> list[Attempt]:
    """Return the last connection that each pod tried, of one gang or of all pods."""
    everybody = pods(evidence)
    by_uid = {pod.uid: pod for pod in everybody}
    wanted = subjects.uids(gang)
    found: dict[str, Attempt] = {}
    for word in payload_lines.words(evidence).of("connected"):
        if wanted is not None and word.uid not in wanted:
            continue
        address, _, port = str(word.data.get("to") or "").rpartition(":")
        address = address.strip("[]")
        said = f"{word.data.get('kind') or ''} {word.data.get('error') or ''}"
        found[word.uid or word.pod] = Attempt(
            member=word.pod,
            pod=by_uid.get(word.uid),
            address=address,
            port=port,
            ok=word.data.get("ok") is True,
            kind=next((kind for kind, shape in _KINDS if shape.search(said)), said.strip()),
            tries=word.number("tries"),
            master=next((pod for pod in everybody if address in addresses_of(pod)), None),
            key=word.key,
        )
    return list(found.values())


def listening(evidence: Evidence, attempt: Attempt) -> bool | None:
    """Report whether the master was seen to listen at the port, None where it was not to be seen."""
    words = payload_lines.words(evidence)
    if attempt.master is None:
        return None
    said = words.of("listening", attempt.master.uid)
    if any(str(word.data.get("port")) == attempt.port for word in said):
        return True
    if attempt.master.running is None and not attempt.master.exit_codes:
        return False
    # A master of ours says so; of another nothing is known but that it runs.
    ours = bool(words.of("env", attempt.master.uid))
    return False if ours or said or attempt.master.finished is not None else None


def blocked(evidence: Evidence, attempt: Attempt) -> bool:
    """Report whether something between the two pods stopped a connection: not a master that does not listen."""
    return not attempt.ok and (attempt.kind != "refused" or listening(evidence, attempt) is not False)


@subjects.judge
def master_answers(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-011."""
    named = subjects.cast(evidence, given, "subject")
    gang = named[0] if named else None
    if named is not None and gang is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence))
    tried = attempts(evidence, gang)
    keys = tuple(one.key for one in tried)[:8]
    stopped = [one for one in tried if blocked(evidence, one)]
    number = Number(
        "tries until the port answered", max((one.tries or 1 for one in tried), default=None), "tries",
        origin="worst member",
    )  # fmt: skip
    if stopped:
        return _stopped(evidence, gang, stopped)
    missed = _missed(evidence, gang, tried)
    if missed is not None:
        return missed
    first = tried[0]
    text = f"{len(tried)} members reached {first.address}:{first.port}"
    where = tuple(f"Pod/{one.member} to {one.address}:{one.port}" for one in tried)[: wording.MANY]
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, where=where, numbers=(number,), evidence=keys)


def _stopped(evidence: Evidence, gang: Gang | None, stopped: list[Attempt]) -> Finding:
    one = stopped[0]
    causes = tuple(interception.causes(evidence, one.pod, one.master, one.port, one.kind))
    if one.kind == "refused":
        causes = (*causes, NOBODY) if listening(evidence, one) is None else causes
    resolved = [w for w in payload_lines.words(evidence).of("resolved") if w.data.get("ok") is True]
    name = f"{resolved[0].data.get('name')} resolves, but " if resolved else ""
    text = f"{name}{wording.listed([each.text for each in stopped], 4)}"
    where = [f"Pod/{each.member}" if each.pod is None else each.pod.where for each in stopped]
    space = f" -n {one.pod.namespace}" if one.pod is not None and one.pod.namespace else ""
    return wording.finding(
        Verdict.FAIL, REQUIRED, text, gang, violation=True, where=tuple(where[: wording.MANY]), causes=causes,
        evidence=tuple(each.key for each in stopped[:8]),
        repeat=(
            f"kubectl exec{space} {one.member} -- nc -z -w 2 {one.address} {one.port}",
            f"kubectl get networkpolicies{space}",
        ),
    )  # fmt: skip


def _missed(evidence: Evidence, gang: Gang | None, tried: list[Attempt]) -> Finding | None:
    """Return why nothing can be said, None where every member connected."""
    keys = tuple(one.key for one in tried)[:8]
    failed = [one for one in tried if not one.ok]
    if failed:
        text = f"{failed[0].text}: the master was not seen to listen"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, causes=(NOBODY,), evidence=keys)
    unresolved = [
        w for w in _resolved(evidence, gang) if w.data.get("ok") is False or not w.data.get("addresses")
    ]
    if unresolved:
        word = unresolved[0]
        text = f"{word.data.get('name')} did not resolve from {word.pod}"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, gang, causes=(UNRESOLVED,), evidence=(word.key,)
        )
    if not tried:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no member's attempt on the master's port was recorded", gang
        )
    masters = {one.master.uid for one in tried if one.master is not None}
    seen = {one.pod.uid for one in tried if one.pod is not None}
    mute = [pod.name for pod in (gang.pods if gang else ()) if pod.uid not in seen | masters]
    if mute:
        text = f"no attempt of {wording.listed(mute)} could be read"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    return None


def _resolved(evidence: Evidence, gang: Gang | None) -> Iterator[payload_lines.Word]:
    uids = subjects.uids(gang)
    for word in payload_lines.words(evidence).of("resolved"):
        if uids is None or word.uid in uids:
            yield word
