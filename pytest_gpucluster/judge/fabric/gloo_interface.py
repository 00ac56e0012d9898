"""FAB-013: without GPUs gloo uses the declared interface, and gives the right result.

Judged by the connections between the members, as the kernel lists them: what a variable asks for is no evidence of
what is used.
"""

import re
from collections.abc import Sequence

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "gloo's connections between members use the declared interface, and the all-reduce is right"
UNSET = Cause(
    "without GLOO_SOCKET_IFNAME gloo uses the interface of the address that the pod's host name resolves to",
    "set GLOO_SOCKET_IFNAME to the declared interface in every member",
)
ABSENT = Cause(
    "the pod has no interface of the declared name",
    "declare the name that pods see (`ip -brief address` in a pod), or attach the network to the pods (Multus)",
)
COLLECTIVE = Cause(
    "the collective mixed or lost contributions",
    "look at gloo's log; run the same program with both members in one pod to compare",
)
NO_INTERFACE = re.compile(r"Unable to find (?:address|interface) for: (?P<name>\S+)")


@subjects.judge
def on_declared_interface(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-013."""
    declared = str(given.get("interface") or "")
    named = subjects.cast(evidence, given, "subject")
    uids = None if named is None else {pod.uid for gang in named for pod in gang.pods}
    gang = named[0] if named else None
    said = [w for w in payload_lines.words(evidence).of("reduced") if uids is None or w.uid in uids]
    told = list({word.uid: word for word in said}.values())
    keys = tuple(word.key for word in told)[:12]
    found = wording.Findings(REQUIRED, gang, evidence=keys)

    wrong = [w for w in told if w.data.get("ok") is not True or w.data.get("got") != w.data.get("expected")]
    if wrong:
        text = ", ".join(f"{w.pod} got {w.data.get('got')}, expected {w.data.get('expected')}" for w in wrong)
        return found.fail(f"all-reduce: {text}", COLLECTIVE, violation=True)
    absent = _absent(evidence)
    if absent is not None:
        pod, text, key = absent
        verdict = Verdict.FAIL if declared else Verdict.INCONCLUSIVE
        return found.of(verdict, f"{pod}: {text}", ABSENT, evidence=(key,))
    if not told:
        return found.inconclusive("no member reported its sum and its interface")
    used = {word.uid: sorted(fields.sub(word.data, "interfaces")) for word in told}
    measured = ", ".join(dict.fromkeys(name for names_ in used.values() for name in names_)) or "none"
    if not declared:
        text = (
            f"no interface is declared; {wording.count(len(told), 'member')} connected over {measured}, "
            "with the right sum"
        )
        return found.not_applicable(text)
    number = _number(declared, used)
    strays = [word for word in told if set(used[word.uid]) - {declared}]
    if strays:
        text = ", ".join(_stray(word, used[word.uid]) for word in strays)
        absent_here = declared not in fields.sub(strays[0].data, "has").values()
        return found.fail(
            f"{declared} is declared: {text}",
            ABSENT if absent_here else UNSET,
            violation=True,
            numbers=(number,),
            where=tuple(f"Pod/{word.pod}" for word in strays),
        )
    mute = [word.pod for word in told if not used[word.uid]]
    expected = subjects.count(given, "world") or len(told)
    if mute or len(told) < expected:
        text = (
            f"{wording.listed(mute)} had no connection to another member when it looked"
            if mute
            else f"{len(told)} of {expected} members reported their connections"
        )
        return found.inconclusive(text, numbers=(number,))
    value = told[0].data.get("got")
    text = f"all {len(told)} members are connected over {declared}, sum {value} right on all"
    return found.passed(text, numbers=(number,))


def _number(declared: str, used: dict[str, list[str]]) -> Number:
    right = sum(names_ == [declared] for names_ in used.values())
    return Number(
        f"members on {declared} alone", float(right), "members", float(len(used)), "profile interface"
    )


def _stray(word: Word, used: Sequence[str]) -> str:
    asked = str(word.data.get("asked") or "")
    variable = f"GLOO_SOCKET_IFNAME is {asked}" if asked else "GLOO_SOCKET_IFNAME is not set"
    return f"{word.pod} is connected over {', '.join(used)} ({variable})"


def _absent(evidence: Evidence) -> tuple[str, str, str] | None:
    """Return pod, text and key of a log line by which gloo says that there is no such interface."""
    for line in evidence.logs():
        match = NO_INTERFACE.search(str(line.data.get("line") or ""))
        if match:
            return str(line.data.get("pod") or ""), f"gloo finds no interface {match['name']}", line.key
    return None
