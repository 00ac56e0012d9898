"""RDZV-010: a fleet on a second interface or a tunnel meets over it and reduces over it.

Judged by the connections that launchers and ranks have open, as the kernel lists them: what variables ask for, what an
annotation says was attached, and what a name leads to are no evidence of what is used. One connection on another
interface is enough: it carries the very traffic for which the second one was made, or it will where the first is
closed.
"""

import json
from collections.abc import Iterator, Sequence

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "on all members, every open connection of rendezvous and collectives to another member starts from the "
    "declared interface, and the all-reduce is right"
)
STATUS = "k8s.v1.cni.cncf.io/network-status"
PARTS = ("rendezvous", "collective")
"""What each member tells its connections of."""

NAMED = Cause(
    "the endpoint is a name, and a pod's name leads to its first interface; or a launcher announces the address "
    "of its host name",
    "give the address on the declared interface as --rdzv-endpoint, and make each launcher announce its "
    "own: --local-addr",
)
UNSET = Cause(
    "gloo and NCCL use the interface of the address that the pod's host name resolves to, unless another is set",
    "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the declared interface in every member (the entrypoint of the "
    "image, or the pod template)",
)
ROUTE = Cause(
    "the interface has an address but no route to its network, so traffic takes the default route over the first "
    "interface",
    "look at `ip route get PEER` in a pod: the attachment's IPAM must give a prefix or routes of its network, "
    "and a tunnel must set its AllowedIPs",
)
NOT_ATTACHED = Cause(
    "the pod did not get the interface: the annotation k8s.v1.cni.cncf.io/networks is missing or names another "
    "network, Multus is not there, or the tunnel does not come up",
    "look at the pod's events and its annotation k8s.v1.cni.cncf.io/network-status; declare the name seen in pods",
)
NOT_FORMED = Cause(
    "members do not reach each other over the declared interface: no route, a network policy, or layers that do "
    "not match (VLAN, keys of the mesh)",
    "try one member's port from another over the interface by hand, then look at the launchers' last lines",
)
COLLECTIVE = Cause(
    "the collective mixed or lost contributions",
    "look at the backend's log; run the same program with all members in one pod to compare",
)


@subjects.judge
def over_declared(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-010."""
    declared = str(fields.sub(given, "secondary").get("interface") or "")
    if not declared:
        # Of a recording nobody says what was declared.
        verdict = Verdict.NOT_APPLICABLE if given else Verdict.INCONCLUSIVE
        text = "the profile declares no second interface (secondary.interface)"
        return wording.finding(verdict, REQUIRED, text)
    named = subjects.cast(evidence, given, "subject")
    gangs = subjects.everyone(evidence) if named is None else named
    gang = next(
        (one for one in gangs if _words(evidence, one, "wiring", "wired")), gangs[0] if gangs else None
    )
    told = _newest(_words(evidence, gang, "wired"))
    keys = tuple(word.key for word in told)[:12]
    right = sum(not list(_strays(word, declared)) for word in told)
    number = Number(
        f"members on {declared} alone", float(right) if told else None, "members", float(_expected(given, told)),
        "profile secondary.interface",
    )  # fmt: skip
    found = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))

    if gang is None:
        return found.inconclusive(subjects.nothing(evidence, "fleet that reports its connections"))
    wrong = [w for w in told if w.data.get("ok") is not True or w.data.get("got") != w.data.get("expected")]
    if wrong:
        text = ", ".join(
            f"{_who(w)} got {w.data.get('got')}, expected {w.data.get('expected')}" for w in wrong
        )
        return found.fail(f"all-reduce: {text}", COLLECTIVE, where=_places(gang, wrong), violation=True)
    lacking = [w for w in _words(evidence, gang, "wiring") if declared not in fields.sub(w.data, "has")]
    if lacking:
        has = ", ".join(sorted(fields.sub(lacking[0].data, "has"))) or "none"
        text = f"{wording.listed([w.pod for w in lacking])} has no interface {declared}; it has {has}"
        return found.fail(text, NOT_ATTACHED, where=_places(gang, lacking))
    astray = [(word, *stray) for word in told for stray in _strays(word, declared)]
    if astray:
        text = "; ".join(dict.fromkeys(f"{_who(word)}: {said}" for word, said, _ in astray[:4]))
        causes = tuple(dict.fromkeys(cause for _, _, cause in astray))
        where = _places(gang, [word for word, _, _ in astray])
        return found.fail(f"declared is {declared}: {text}", *causes, where=where, violation=True)
    other = [text for pod in gang.pods for text in _told_otherwise(evidence, pod, declared)]
    if other:
        return found.fail(other[0], NOT_ATTACHED)
    short = _whole(evidence, given, gang, told)
    if short is not None:
        verdict, text, causes = short
        return found.of(verdict, text, *causes)
    count = {part: sum(len(_open(word, part)) for word in told) for part in PARTS}
    text = (
        f"{len(told)} members: {count['rendezvous']} connections of the rendezvous and {count['collective']} of "
        f"collectives, all from {declared}; sum {told[0].data.get('got')} right on all"
    )
    return found.passed(text)


def meeting_told(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether members learned from the first one where to meet, which they ask by its name."""
    name = "the first member's name leads to it"
    words = [
        word
        for gang in subjects.cast(evidence, given, "subject") or ()
        for word in _words(evidence, gang, "asked")
    ]
    failed = [word for word in words if word.data.get("ok") is not True]
    if failed:
        text = f"{failed[0].pod}: {failed[0].data.get('error')}"
        causes = (name_resolution.NO_SERVER, name_resolution.NOT_READY)
        return wording.presupposed(name, held=False, observed=text, causes=causes, evidence=(failed[0].key,))
    held = True if words or not subjects.of(evidence, given).arranged else None
    return wording.presupposed(name, held=held, observed=f"{len(words)} members got a meeting place")


def _words(evidence: Evidence, gang: Gang | None, *events: str) -> list[Word]:
    said = payload_lines.words(evidence)
    uids = subjects.uids(gang)
    return [w for event in events for w in said.of(event) if uids is None or w.uid in uids]


def _newest(words: Sequence[Word]) -> list[Word]:
    return list({word.uid: word for word in words}.values())


def _expected(given: subjects.Given, told: Sequence[Word]) -> int:
    worlds = [word.number("world") or 0 for word in told]
    return subjects.count(given, "world") or max(worlds, default=0)


def _who(word: Word) -> str:
    return f"rank {word.number('rank')} on {word.pod}"


def _places(gang: Gang, words: Sequence[Word]) -> tuple[str, ...]:
    by_uid = {pod.uid: pod.where for pod in gang.pods}
    return tuple(dict.fromkeys(by_uid.get(word.uid, f"Pod/{word.pod}") for word in words))


def _open(word: Word, part: str) -> list[tuple[str, str, str]]:
    """Return (interface, local address, remote address) of the connections of one part to other members."""
    listed = word.data.get(part)
    found = []
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, list) and len(one) == 3:
            name, local, remote = (str(value) for value in one)
            if local != remote and not local.startswith("127."):
                found.append((name, local, remote))
    return found


def _strays(word: Word, declared: str) -> Iterator[tuple[str, Cause]]:
    """Yield the connections of a member that begin at another interface, with the likeliest reason."""
    has = {str(name): str(address) for name, address in fields.sub(word.data, "has").items()}
    asked = {str(name): str(value) for name, value in fields.sub(word.data, "asked").items()}
    for part in PARTS:
        for name, local, remote in _open(word, part):
            if name == declared:
                continue
            text = f"its {part} is connected from {name or local} to {remote}"
            if _alike(remote, has.get(declared, "")) > _alike(remote, local):
                yield f"{text}, an address of the network of {declared}", ROUTE
            elif part == "rendezvous":
                yield text, NAMED
            else:
                unset = [variable for variable, value in asked.items() if value != declared]
                yield f"{text}{' (' + ', '.join(unset) + ' not set to it)' if unset else ''}", UNSET


def _alike(one: str, other: str) -> int:
    """Return how many leading parts two IPv4 addresses share."""
    count = 0
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if left != right:
            break
        count += 1
    return count


def _told_otherwise(evidence: Evidence, pod: PodStory, declared: str) -> Iterator[str]:
    """Yield where the annotation with the result says another address of the interface than the pod sees."""
    word = payload_lines.words(evidence).last("wired", pod.uid)
    text = str(pod.annotations.get(STATUS) or "")
    if word is None or not text:
        return
    try:
        entries = json.loads(text)
    except ValueError:
        return
    seen = str(fields.sub(word.data, "has").get(declared) or "")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("interface") == declared:
            ips = [str(ip) for ip in entry.get("ips") or ()]
            if ips and seen and seen not in ips:
                yield f"{pod.where}: {STATUS} says {', '.join(ips)} for {declared}, the pod has {seen}"


def _whole(
    evidence: Evidence, given: subjects.Given, gang: Gang, told: Sequence[Word]
) -> tuple[Verdict, str, tuple[Cause, ...]] | None:
    """Return what is wrong or open where not all members told enough, None where they did."""
    said, expected = payload_lines.words(evidence), _expected(given, told)
    missing = payload_lines.absent(expected, {word.number("rank") for word in told})
    if not missing and told:
        mute = [f"{_who(word)} no {part}" for part in PARTS for word in told if not _open(word, part)]
        if mute:
            return (
                Verdict.INCONCLUSIVE,
                f"{wording.listed(mute, 4)} connection to another member was open",
                (),
            )
        return None
    text = (
        f"rank {wording.listed([str(rank) for rank in missing]) or 'of any number'} reported no connections"
    )
    torn = [pod.name for pod in gang.pods if said.torn.get(pod.uid)]
    failed = [(pod, code) for pod in gang.pods for _, code in pod.exit_codes if code]
    expired = subjects.timed_out(evidence, gang.created)
    if torn:
        return Verdict.INCONCLUSIVE, f"{text}; a line of {wording.listed(torn)} is cut", ()
    if failed and said.of("wiring"):
        pod, code = failed[0]
        return Verdict.FAIL, f"{text}; {pod.where} ended with {code}", (NOT_FORMED,)
    if expired and said.of("wiring"):
        return Verdict.FAIL, f"{text}; waited for {expired[0]}", (NOT_FORMED,)
    return Verdict.INCONCLUSIVE, text, ()
