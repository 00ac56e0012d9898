"""The scheduler itself: one that goes by another name, one that has stopped, one that may not do what it decides."""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose import machines, reckoning, words
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault
from pytest_gpucluster.diagnose.history import when
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.scheduling import schedulers
from pytest_gpucluster.judge import wording
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause

BURST = 25
"""Events of one component about one object after which client-go drops all but one in five minutes."""

LEAST = 30.0
"""Seconds of silence below which nothing is concluded, whatever the rhythm was."""

MISSED = 10
"""How many of its turns a scheduler misses before it counts as stopped."""

SPOKEN = 3
"""Times that a scheduler must have spoken for its rhythm to be known."""

RBAC = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: (?:in the namespace "(?P<space>[^"]+)"|at the cluster scope))?'
)
BIND = re.compile(r"[Ff]ailed to bind|[Bb]inding rejected|error (?:in )?binding|running (?:Pre)?Bind plugin")

VOLCANO = ("kubectl -n volcano-system get pods",)
LOG = "kubectl -n volcano-system logs deploy/volcano-scheduler --tail=50"


@dataclasses.dataclass(frozen=True)
class Rhythm:
    """How a scheduler spoke about a PodGroup.

    Attributes:
        times: how often.
        period: seconds between two of its words.
        last: when it spoke last.
    """

    who: str
    times: int
    period: float
    last: float
    key: str


def speakers(s: Situation) -> tuple[str, ...]:
    """Return the schedulers that spoke about the PodGroup, by the name that they go by."""
    group = s.group
    if group is None:
        return ()
    said = s.said("PodGroup", group.namespace, group.name, group.uid)
    return tuple(dict.fromkeys(x.reporter for x in said if x.reporter and "controller" not in x.reporter))


def other_name(s: Situation) -> Iterator[Suspect]:
    """The scheduler that looks at the PodGroup goes by another name than the one that the pods ask for."""
    spoke = speakers(s)
    mute = [
        p for p in s.unbound
        if not p.waiting and p.scheduler not in spoke and s.now - p.created > s.silent
        and not any(x.reporter == p.scheduler for x in s.said_of_pod(p))
        and not fields.items(p.last, "spec", "schedulingGates")
    ]  # fmt: skip
    served = {p.scheduler for gang in s.others for p in gang.pods if p.bound is not None}
    if not spoke or not mute or len(mute) < len(s.unbound) or s.whole or s.ended:
        return
    if schedulers.DEFAULT_NAME in {p.scheduler for p in mute} or {p.scheduler for p in mute} & served:
        return  # a name that is served: the field that sends pods there is another detector's
    asked = wording.listed(sorted({p.scheduler for p in mute}))
    cause = Cause(
        f"no scheduler called {asked} answers: the one that handles the PodGroup is called {wording.listed(spoke)}",
        f"start the scheduler with --scheduler-name={asked}, or set spec.schedulerName of the Job to {spoke[0]} "
        "(the admission has an option --scheduler-name for its default)",
    )
    seen = f"{wording.count(len(mute), 'pod')} set schedulerName {asked}, but no message is about them; "
    seen += f"{spoke[0]} reported about "
    seen += f"PodGroup {s.group.name if s.group else ''}"
    yield fault(
        "scheduler-unknown", Stage.SCHEDULER, cause, seen, SURE, where=wording.places(mute),
        rows=("REF-008", "INV-001"),
        evidence=tuple(p.keys["created"] for p in mute[:4]), look=VOLCANO,
    )  # fmt: skip


def rhythm(s: Situation) -> Rhythm | None:
    """Return how the scheduler spoke about the PodGroup, None where too little is known, or it may have been muted."""
    group = s.group
    if group is None or group.native:
        return None  # kube-scheduler speaks when something changes, not at every turn
    told: dict[str, tuple[int, float, float, str, str]] = {}
    for line in s.evidence.of_kind("Event"):
        obj = line.object
        about = fields.sub(obj, "involvedObject") or fields.sub(obj, "regarding")
        who = fields.text(obj, "source", "component") or fields.text(obj, "reportingComponent")
        if about.get("uid") != group.uid or "controller" in who:
            continue
        count = fields.number(obj, "count") or fields.number(obj, "series", "count") or 1
        told[line.uid] = (count, _lasted(obj), line.t, who, line.key)
    if not told or sum(count for count, *_ in told.values()) >= BURST - 1:
        return None
    last = max(told.values(), key=lambda one: one[2])
    count, lasted, t, who, key = max(told.values(), key=lambda one: one[0])
    if count < SPOKEN or lasted <= 0:
        return None
    return Rhythm(who, sum(one[0] for one in told.values()), lasted / (count - 1), max(last[2], t), key)


def _lasted(event: fields.Object) -> float:

    first, last = when(event.get("firstTimestamp")), when(event.get("lastTimestamp"))
    return (last - first).total_seconds() if first is not None and last is not None else 0.0


def stopped(s: Situation) -> Iterator[Suspect]:
    """The scheduler spoke about the gang at every turn, and then no more, while the gang waits."""
    if s.gang is None or s.whole or s.ended or not s.unbound or s.was_whole:
        return
    spoke = rhythm(s)
    if spoke is None:
        return
    silence = s.proven - max(spoke.last, *(w.t for p in s.unbound for w in p.waiting[-1:]), 0.0)
    if silence <= max(LEAST, MISSED * spoke.period):
        return
    room, fits = room_words(s)
    cause = Cause(
        f"the scheduler {spoke.who} has stopped: it reported about the gang every {spoke.period:.0f} s, "
        f"{spoke.times} times, but has been silent for {silence:.0f} s",
        f"check whether it runs and its last message ({VOLCANO[0]}; {LOG}); that message may no longer be true",
    )
    seen = (
        f"its last message is {silence:.0f} s old; {room}"
        if room
        else f"its last message is {silence:.0f} s old"
    )
    yield fault(
        "scheduler-stopped", Stage.SCHEDULER, cause, seen, SURE if fits else LIKELY, evidence=(spoke.key,),
        where=(f"PodGroup/{s.group.name}",) if s.group else (), rows=("INV-001",), look=(*VOLCANO, LOG),
    )  # fmt: skip


def room_words(s: Situation) -> tuple[str, bool]:
    """Return what is free of what the gang asks for, in words, and whether its members fit by that."""
    needed = machines.lacking(s) or [p.last for p in s.unbound]
    found = reckoning.reckon(s)
    parts = []
    for resource in machines.scarce(s):
        nodes = [n for n in machines.machines(s, resource) if n.fits_selector and not n.shut]
        if not nodes:
            continue
        free, all_ = sum(n.free for n in nodes), sum(n.allocatable for n in nodes)
        wants = (
            sum(fields.demands(one).get(resource, 0) for one in needed)
            if needed
            else s.wanted.get(resource, 0)
        )
        parts.append(
            f"{float(free):g} of {float(all_):g} {resource} are free, {float(wants):g} are asked for"
        )
    if found is not None and not parts:
        members = wording.count(len(found.members), "member")
        parts.append(f"{found.now} of {members} would find cpu and memory on a node")
    if parts and not machines.everywhere(s):
        parts[-1] += " (as far as the pods in the evidence show)"
    return "; ".join(parts), found is not None and found.fits


def last_word(s: Situation) -> str:
    """Return how old the scheduler's last word about the waiting pods is, "" where it is fresh or not known."""
    told = [w.t for p in s.unbound for w in p.waiting[-1:]]
    told += [x.t for p in s.unbound for x in s.said_of_pod(p) if x.reason == "FailedScheduling"]
    if s.group is not None:
        told += [c.t for c in s.group.conditions]
        told += [x.t for x in s.said("PodGroup", s.group.namespace, s.group.name, s.group.uid)]
    age = s.proven - max(told, default=s.proven)
    return f"; the scheduler's last word about it is {age:.0f} s old" if age > LEAST else ""


def log_of(s: Situation) -> str:
    """Return how to look at the scheduler that the pods ask for."""
    asked = {p.scheduler for p in s.unbound} or ({s.gang.scheduler} if s.gang else set())
    if any(name.startswith("volcano") for name in asked):
        return f"{VOLCANO[0]}; its log"
    if asked <= {schedulers.DEFAULT_NAME}:
        return "kubectl -n kube-system get pods -l component=kube-scheduler; its log"
    return f"the pods and the log of the scheduler {wording.listed(sorted(asked))}"


def may_not(s: Situation) -> Iterator[Suspect]:
    """The scheduler decided, and the API server did not let it do so: its rights, or the bind itself."""
    if s.ended or s.whole or not s.unbound:
        return
    for pod in s.unbound:
        told = [
            (w.message, w.key)
            for w in pod.waiting[-1:]
            if w.reason == "SchedulerError" or BIND.search(w.message)
        ]
        told += [
            (x.message, x.key) for x in s.said_of_pod(pod)[-1:]
            if x.reason in ("FailedScheduling", "FailedBinding") and BIND.search(x.message)
        ]  # fmt: skip
        if not told:
            continue
        text, key = words.plain(told[0][0]), told[0][1]
        denied = RBAC.search(text)
        if denied is not None:
            cause, look = rights(denied, "the scheduler")
        else:
            what = "chose a node but could not bind the pod" if BIND.search(text) else "ended with an error"
            cause = Cause(
                f"for {pod.name} the scheduler {what}: {words.short(text)}",
                "follow the message; if it names no cause, check the scheduler's log and at webhooks on "
                "pods/binding (kubectl get validatingwebhookconfigurations)",
            )
            look = (LOG,) if names.nearest(pod.scheduler, ["volcano"]) else ()
        seen = f"{wording.part(s.held, s.minimum)} members placed; {pod.name}: {words.short(text)}"
        yield fault(
            "scheduler-denied", Stage.SCHEDULER, cause, seen, where=wording.places(s.unbound), evidence=(key,),
            rows=("GANG-001", "INV-001"), look=look,
        )  # fmt: skip
        return


def rights(denied: re.Match[str], who: str) -> tuple[Cause, tuple[str, ...]]:
    """Return what an account lacks, and how to look for it."""
    resource, _, sub = denied["resource"].partition("/")
    group = f".{denied['group']}" if denied["group"] else ""
    part = f" --subresource={sub}" if sub else ""
    space = f" -n {denied['space']}" if denied["space"] else ""
    look = f"kubectl auth can-i {denied['verb']} {resource}{group}{part}{space} --as={denied['user']}"
    where = f"in namespace {denied['space']}" if denied["space"] else "in the cluster"
    return Cause(
        f"{who} may not carry out its decisions: {denied['user']} may not {denied['verb']} "
        f"{denied['resource']} {where}",
        f"restore {denied['verb']} on {denied['resource']} in its ClusterRole (RBAC): install the chart's roles "
        f"again, and check that {look} says yes",
    ), (look,)
