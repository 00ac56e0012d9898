"""What the scheduler says does not agree with what nodes and pods show: its view is old or narrow, or ours is."""

import re
from collections.abc import Sequence

from pytest_gpucluster.diagnose import machines, words
from pytest_gpucluster.diagnose.detect import scheduling
from pytest_gpucluster.diagnose.detect.limits import Refused
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, fault, refusal
from pytest_gpucluster.diagnose.model import Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

COUNTED = re.compile(r"\b0/(?P<nodes>\d{1,6}) nodes are (?:un)?available")
"""How a scheduler says how many nodes it looked at."""

PODS = "kubectl get pods -A -o wide --field-selector=status.phase!=Succeeded,status.phase!=Failed"


def fits_and_waits(s: Situation, room: str, said: Refused, named: Sequence[str]) -> Suspect:
    """Return that it would fit by what nodes and pods show, and is not placed."""
    sees = _sees_fewer(s, said)
    whole = machines.everywhere(s)
    look = wording.repeat(s.gang) if s.gang else ()
    more = {"evidence": said.keys, "rows": ("GANG-001",), "look": look}
    if sees:
        cause = Cause(
            f"the scheduler looks at {sees} nodes, and {s.who} would fit on all: {room}",
            "find out why it does not see the others: a node selector or shard in its configuration, its right to list "
            f"nodes, or a cache that is out of date ({scheduling.log_of(s)}; restart it)",
        )
        return fault("scheduler-sees-fewer", said.stage, cause, said.text, LIKELY, **more)
    if named and not whole:
        cause = Cause(
            f"the scheduler lacks {wording.listed(named, 3)}, but {s.who} would fit on what the evidence shows: "
            f"{room}. Either pods of other namespaces hold the rest, or the scheduler's view is out of date",
            f"look at the pods of all namespaces ({PODS}): if they leave that room, look at the scheduler "
            f"({scheduling.log_of(s)})",
        )
        return refusal("room-unknown", said.stage, cause, said.text, POSSIBLE, **more)
    against = f", although the scheduler lacks {wording.listed(named, 3)}" if named else ""
    cause = Cause(
        f"{s.who} would fit but is not placed: {room}{against}{scheduling.last_word(s)}",
        f"check whether the scheduler still runs and what it reports now ({scheduling.log_of(s)}): its last message "
        "may be old; then check pods of other namespaces and the pods' other requests",
    )
    return fault("fits-and-waits", said.stage, cause, said.text, LIKELY if whole else POSSIBLE, **more)


def _sees_fewer(s: Situation, said: Refused) -> str:
    """Return `1 of 3` where the scheduler counts fewer nodes than are Ready, "" otherwise."""
    there = sum(
        fields.condition(n.object, "Ready").get("status", "True") == "True" for n in s.objects("Node")
    )
    counted = [int(m["nodes"]) for m in COUNTED.finditer(said.words)]
    return f"{max(counted)} of {there}" if counted and max(counted) < there else ""


def unknown_refusal(s: Situation, room: str, said: Refused) -> Suspect:
    """Return that the scheduler refuses it in words that are not known here."""
    told = words.short(said.words)
    cause = Cause(
        f"the scheduler does not place {s.who}, and its message does not name the missing resource: {told}",
        "check its log, the quotas and the nodes: kubectl describe the PodGroup and the pods; the scheduler may also "
        "have stopped" + (f" (by nodes and pods: {room})" if room else ""),
    )
    return fault(
        "no-reason", said.stage, cause, said.text, POSSIBLE, evidence=said.keys,
        look=wording.repeat(s.gang) if s.gang else (),
    )  # fmt: skip


KNOWN = re.compile(
    r"\b\d{1,6} node\(s\)[^,.|]*(?:taint|affinity|selector|unschedulable|free ports|volume|topology spread)[^,.|]*"
    r"|\b\d{1,6}/\d{1,6} (?:tasks in gang unschedulable|nodes are (?:un)?available)"
    r"|\bpod group is (?:not |un)?(?:ready|schedulable)|\bOrigin reason is \S+|\bPending:"
    r"|(?:\b\d{1,6} )?(?:node\(s\) )?(?:insufficient|overused) [\w./-]+"
    r"|\b\d{1,6} [A-Z]?\w*minAvailable|\b\d{1,6} [A-Z][a-z]+\b"
    r"|\bresource in cluster is overused|\bqueue resource quota insufficient|\bno new claims to deallocate"
    r"|\b(?:pod group )?preemption: .*|\b[Tt]ask \S+ with role spec \S+ has already predicated failed, skip"
    r"|\b[Pp]od \S+ can possibly be assigned to \S+, once .* satisfied|\bminCount \(\d{1,6}\) cannot be satisfied"
    r"|\b\d{1,6} (?:scheduled|remaining)\b|\bPodGroup \S+ unschedulable, reason|\bnot enough resources?\b"
    r"|\bNotEnoughResources\b|\bUnschedulable\b|\bSchedulable\b",
    re.IGNORECASE,
)
"""What schedulers say of a gang that waits for room: the rest of a message is about something else."""


def beyond(text: str) -> str:
    """Return what a scheduler says beside the words that are known, "" where that is nothing to speak of."""
    rest = " ".join(KNOWN.sub(" ", words.plain(text)).split()).strip(" ,;:.|-")
    return rest if len(re.findall(r"[^\W\d_]{3,}", rest)) > 1 else ""
