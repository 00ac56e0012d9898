"""Refused for want of room: at enqueue, before there are pods, or at placement, where they all wait."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose import machines, reckoning, words
from pytest_gpucluster.diagnose.detect import contradiction, never
from pytest_gpucluster.diagnose.detect.limits import (
    Refused,
    amount,
    over_capability,
    over_deserved,
    promised,
    queue_full,
    queue_over,
    reserving,
)
from pytest_gpucluster.diagnose.detect.scheduling import room_words
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.objects.pods import pods as every_pod
from pytest_gpucluster.evidence.scheduling import capacity
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import wording
from pytest_gpucluster.judge.gang.runs_whole import MISCOUNTED
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause

SHORT = re.compile(r"(?:insufficient|overused)\s+([\w./-]*[\w/-])", re.IGNORECASE)
"""Resources that a refusal names, at enqueue and at placement."""


def open_nodes(s: Situation, resource: str) -> list[machines.Machine]:
    """Return the nodes that have some of a resource and take the pods: cordons, taints and tolerations counted."""
    return [node for node in machines.machines(s, resource) if not node.shut]


def refused_at_enqueue(s: Situation) -> Iterator[Suspect]:
    """The scheduler refuses the gang before pods are made: why is told from what it asks for and what there is."""
    said = _enqueue_refusal(s)
    if said is None or s.gang is None:
        return
    short = list(dict.fromkeys(SHORT.findall(said.message)))
    base = f"refused at enqueue by {said.reporter} ({words.short(said.message)}); no pod was created"
    yield from why_short(s, short, Refused(Stage.ENQUEUE, base, (said.key,), said.message))


def _enqueue_refusal(s: Situation) -> Said | None:
    if s.reading is None or not s.reading.enqueue or s.pods or s.group is None or s.ended:
        return None
    phase = s.group.phases[-1][1] if s.group.phases else ""
    return s.reading.enqueue[-1] if phase in ("", "Pending") else None


def why_short(s: Situation, short: Sequence[str], said: Refused) -> Iterator[Suspect]:
    """Yield the one thing that explains why resources do not suffice.

    Args:
        s: the situation.
        short: the resources that the scheduler names; where it names none, nodes and queues tell which it may be.
        said: what it said, and where.
    """
    named = list(short)
    short = named or sorted(s.wanted, key=lambda one: "/" not in one)
    nowhere = [r for r in short if "/" in r and s.advertised and not _somewhere(s, r)]
    if nowhere:
        yield _nowhere(s, nowhere, said)
        return
    # What can never fit is called so first, whatever else the scheduler is short of at the moment.
    found = next(
        (one for r in dict.fromkeys((*short, *s.wanted)) if (one := over_capability(s, r, said))), None
    )
    found = found or never.larger_than_the_cluster(s, short, said)
    found = found or next((one for r in dict.fromkeys(short) if (one := queue_full(s, r, said))), None)
    if found is not None:
        yield found
        return
    over = queue_over(s, named)
    if over is not None and said.stage is Stage.ENQUEUE:
        yield promised(s, over, said)
        return
    miscounted = _miscounted(s, said)
    if miscounted is not None:
        yield miscounted
        return
    yield from _others_in_the_way(s, named, short, said)


def _somewhere(s: Situation, resource: str) -> bool:
    """Report whether a node has a resource, or would if its devices were healthy."""
    capacity = (fields.sub(line.object, "status", "capacity").get(resource, 0) for line in s.objects("Node"))
    return bool(s.advertised.get(resource)) or any(fields.quantity(one) for one in capacity)


def _nowhere(s: Situation, resources: Sequence[str], said: Refused) -> Suspect:
    known = [r for r in s.advertised if "/" in r]
    near = names.nearest(resources[0], known, 0.8)
    hint = f"; did you mean {near!r}?" if near else ""
    cause = Cause(
        f"no node advertises {wording.listed(resources)}",
        f"{_maker(resources[0])}, and check the resource's name: nodes advertise "
        f"{wording.listed(sorted(known), 6) or 'no such resource'}{hint}",
    )
    seen = f"{said.text}; {len(s.objects('Node'))} nodes, but none has {resources[0]} in status.allocatable"
    look = ("kubectl get nodes -o custom-columns=NAME:.metadata.name,ALLOCATABLE:.status.allocatable",)
    return fault(
        "resource-nowhere",
        said.stage,
        cause,
        seen,
        evidence=said.keys,
        rows=("INV-002",),
        look=look,
        forever=True,
    )


def _maker(resource: str) -> str:
    """Return where to look for who should advertise a resource, in the words of its vendor."""
    domain, _, name = resource.partition("/")
    if domain == "nvidia.com" and name.startswith("mig-"):
        return (
            "check the MIG strategy of the device plugin (`mixed` names each profile) and the profiles of the nodes "
            "(labels nvidia.com/mig.config and nvidia.com/mig.config.state)"
        )
    if domain == "nvidia.com":
        return "check the GPU Operator or device plugin (kubectl get pods -A | grep -e gpu-operator -e device-plugin)"
    return f"check the device plugin that advertises {domain}/* (kubectl get daemonsets -A)"


def _miscounted(s: Situation, said: Refused) -> Suspect | None:
    """Return the node whose pods use more than it still counts: it makes a gang that fits look too large."""
    fits = capacity.fits_on(s.evidence, s.gang) if s.gang else None
    if fits is None:
        return None
    there, rooms = fits
    odd = [room for room in rooms if room.free < 0]
    if not odd:
        return None
    text = wording.listed(
        [f"{r.node} has capacity {r.capacity}, allocatable {r.allocatable}, {r.used} in use" for r in odd], 3
    )
    return fault(
        "miscounted", said.stage, MISCOUNTED, f"{said.text}; but it fits on {wording.listed(there, 4)}; {text}",
        where=tuple(f"Node/{r.node}" for r in odd), evidence=said.keys, rows=("GANG-001", "INV-002"),
    )  # fmt: skip


def _holding(s: Situation, resource: str) -> list[tuple[str, Fraction]]:
    """Return who holds a resource beside us: gangs by title, and pods that belong to none."""
    found: dict[str, Fraction] = {}
    mine = {p.uid for p in s.pods}
    titles = {p.uid: g.title for g in s.others for p in g.pods}
    asked_by = machines.asked_by_pods(s.evidence)
    for pod in every_pod(s.evidence):
        held = asked_by.get(pod.uid, {}).get(resource)
        if held and pod.uid not in mine:
            title = titles.get(pod.uid, f"Pod/{pod.name}")
            found[title] = found.get(title, Fraction(0)) + held
    return sorted(found.items(), key=lambda one: -one[1])


def _others_in_the_way(
    s: Situation, named: Sequence[str], short: Sequence[str], said: Refused
) -> Iterator[Suspect]:
    resource = short[0] if short else ""
    asked = s.wanted.get(resource, Fraction(0))
    blocking = reserving(s, resource) if said.stage is Stage.ENQUEUE else []
    holding = _holding(s, resource)
    rooms = open_nodes(s, resource)
    free = sum((room.free for room in rooms), Fraction(0))
    if blocking and (not rooms or free >= asked):
        first = blocking[0]
        takes = first.groups[-1]
        size = fields.sub(takes.last, "spec", "minResources").get(resource)
        cause = Cause(
            f"{first.title} in namespace {first.namespace} is enqueued but cannot be placed; its request"
            + (f" ({size} {resource})" if size else "")
            + " stays reserved and blocks others, even in other queues",
            f"delete or shrink {first.name} (its owner), or make room for it; overcommit counts every enqueued gang",
        )
        seen = said.text + (f"; {amount(free)} {resource} are free on the nodes" if rooms else "")
        seen += f"; PodGroup {takes.name} is Inqueue with {wording.part(_placed(first), first.minimum)} members placed"
        certainty = SURE if rooms or not holding else LIKELY
        yield fault(
            "blocked-by-enqueued", said.stage, cause, seen, certainty, evidence=(*said.keys, takes.key),
            rows=("REF-007",),
            where=tuple(g.title for g in blocking[:4]),
            look=("kubectl get podgroups.scheduling.volcano.sh -A -o wide",),
        )  # fmt: skip
        return
    held = wording.listed([f"{title} {amount(value)}" for title, value in holding], 5)
    want = f"{amount(asked)} {resource}" if asked and resource else resource or "room"
    room, fits = room_words(s)
    if fits and not named and contradiction.beyond(said.words):
        yield contradiction.unknown_refusal(s, room, said)
        return
    if fits:
        yield over_deserved(s, said) or contradiction.fits_and_waits(s, room, said, named)
        return
    found = reckoning.reckon(s)
    if found is not None and found.opened >= len(found.members):
        return  # with nodes that are closed, or devices that are ill, it would fit: other detectors name them
    if holding and (named or (rooms and asked > free)):
        yield _taken(s, resource, f"{s.who} asks for {want}, and others hold {held}", said)
        return
    if not named and (not NO_PLACE.search(said.words) or contradiction.beyond(said.words)):
        yield contradiction.unknown_refusal(s, room, said)
        return
    if said.stage is Stage.PLACE and free >= asked > 0 and not _divides(s, resource):
        cause = Cause(
            f"{s.who} asks for {want}, and {amount(free)} are free, but spread so that not every member finds a node",
            f"choose {resource} per member so that a node holds whole members, free a node, or add one; the "
            "scheduler is right to hold it",
        )
    elif not s.objects("Node"):
        cause = Cause(
            f"{s.who} asks for {want}, and the scheduler has no room for it; without nodes in the evidence it is not "
            "known whether others hold the room, or there will never be enough",
            "look at the nodes and the pods on them: kubectl get nodes,pods -A -o wide",
        )
        yield refusal(
            "no-room", said.stage, cause, said.text, LIKELY, evidence=said.keys, rows=("REF-001", "REF-002")
        )
        return
    else:
        cause = Cause(
            f"{s.who} asks for {want}, more than its queue or the cluster has for it",
            f"{s.fewer}, add nodes, or raise the queue's capability; the scheduler is right to hold it",
        )
    yield refusal(
        "no-room", said.stage, cause, said.text, LIKELY, evidence=said.keys, rows=("REF-001", "REF-002")
    )


def _taken(s: Situation, resource: str, taken: str, said: Refused) -> Suspect:
    """Return that others hold the room; those that should have gone long ago are named."""
    late = _overdue(s, resource)
    if late:
        names_ = wording.listed([f"Pod/{pod.name} on {pod.node}" for pod, _ in late], 4)
        pod, since = max(late, key=lambda one: one[1])
        cause = Cause(
            f"the room is taken: {taken}; {names_} should have ended {since:.0f} s ago, and still "
            f"hold{'s' if len(late) == 1 else ''} it",
            f"look at the kubelet of {pod.node} and at the finalizers of the pods (kubectl get pod -n {pod.namespace} "
            f"{pod.name} -o yaml): their deletion was requested, and they do not go",
        )
        return fault(
            "room-held-by-ending", said.stage, cause, said.text, LIKELY, evidence=said.keys,
            where=wording.places([p for p, _ in late]),
        )  # fmt: skip
    cause = Cause(
        f"the room is taken: {taken}",
        f"wait for them, add nodes, or {s.fewer}; the scheduler is right to hold it",
    )
    return refusal("room-taken", said.stage, cause, said.text, evidence=said.keys, rows=("REF-001",))


def _overdue(s: Situation, resource: str) -> list[tuple[PodStory, float]]:
    """Return pods of others that hold a resource and whose grace period is over, with the seconds since."""
    mine = {p.uid for p in s.pods}
    asked_by = machines.asked_by_pods(s.evidence)
    found = []
    for pod in every_pod(s.evidence):
        if pod.deleting is None or pod.uid in mine or not asked_by.get(pod.uid, {}).get(resource):
            continue
        since = s.now - pod.deleting - pod.grace
        if since > s.silent:
            found.append((pod, since))
    return found


def _divides(s: Situation, resource: str) -> bool:
    """Report whether every member that has no place yet finds room for a resource on a node."""
    rooms = [room for room in open_nodes(s, resource) if room.fits_selector]
    return machines.fits(rooms, machines.lacking(s), resource)


NO_PLACE = re.compile(
    r"\b[1-9]\d{0,6} Unschedulable\b|nodes are (?:un)?available|insufficient|overused", re.IGNORECASE
)
"""How a scheduler says that at least one member has no place."""


def _placed(gang: Gang) -> int:
    return sum(p.bound is not None and p.deleted is None for p in gang.pods)


DECIDED = (
    "resource-nowhere",
    "over-capability",
    "over-cluster",
    "queue-full",
    "blocked-by-enqueued",
    "room-taken",
)
"""Causes that nodes, queues and pods tell by themselves, without a word of the scheduler."""


def held_without_reason(s: Situation) -> Iterator[Suspect]:
    """The PodGroup waits at enqueue and nobody says why."""
    group, reading = s.group, s.reading
    if group is None or reading is None or not group.phases or group.phases[-1][1] != "Pending" or s.pods:
        return
    if reading.enqueue or s.now - group.phases[-1][0] <= s.silent or s.ended:
        return
    text = f"PodGroup {group.name} is Pending for {s.now - group.phases[-1][0]:.0f} s without a reason"
    reckoned = [
        one for one in why_short(s, (), Refused(Stage.ENQUEUE, text, (group.key,))) if one.code in DECIDED
    ]
    if reckoned:
        yield from reckoned
        return
    blockers = reserving(s)
    if blockers:
        cause = Cause(
            f"an enqueued gang that cannot be placed may block it: {wording.listed([g.title for g in blockers], 3)}",
            "delete or shrink that gang, or make room for it",
        )
    else:
        cause = Cause(
            "the scheduler knows the PodGroup but does not admit it, and no event gives a reason",
            "check the queue's state and limits, and the scheduler's log",
        )
    look = (
        f"kubectl get queues.scheduling.volcano.sh {s.queue_name} -o yaml",
        "kubectl -n volcano-system logs deploy/volcano-scheduler",
    )
    yield fault("held-silently", Stage.ENQUEUE, cause, text, LIKELY, evidence=(group.key,), look=look)
