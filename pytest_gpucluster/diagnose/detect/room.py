"""Refused for want of room: at enqueue, before there are pods, or at placement, where they all wait."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose import machines, words
from pytest_gpucluster.diagnose.detect import nodes
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
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.owners import Said
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
    nowhere = [r for r in short if "/" in r and s.advertised and not s.advertised.get(r)]
    if nowhere:
        yield _nowhere(s, nowhere, said)
        return
    # A gang that can never fit is called so first, whatever else the scheduler is short of at the moment.
    for question, resources in ((_own_size, (*short, *s.wanted)), (queue_full, short)):
        for resource in dict.fromkeys(resources):
            found = question(s, resource, said)
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


def _nowhere(s: Situation, resources: Sequence[str], said: Refused) -> Suspect:
    known = [r for r in s.advertised if "/" in r]
    near = names.nearest(resources[0], known)
    hint = f"; did you mean {near!r}?" if near else ""
    cause = Cause(
        f"no node advertises {wording.listed(resources)}",
        "check the GPU Operator or device plugin (kubectl get pods -A | grep -e gpu-operator -e device-plugin), and "
        f"the resource's name: nodes advertise {wording.listed(sorted(known), 6) or 'no such resource'}{hint}",
    )
    seen = f"{said.text}; {len(s.objects('Node'))} nodes, but none has {resources[0]} in status.allocatable"
    look = ("kubectl get nodes -o custom-columns=NAME:.metadata.name,ALLOCATABLE:.status.allocatable",)
    return fault(
        "resource-nowhere", said.stage, cause, seen, evidence=said.keys, rows=("INV-002",), look=look
    )


def _own_size(s: Situation, resource: str, said: Refused) -> Suspect | None:
    """Return why the gang can never fit: above its queue's capability, or above all nodes together."""
    where = (s.title, *((f"Queue/{s.queue_name}",) if s.queue_name else ()))
    asked = s.wanted.get(resource, Fraction(0))
    over = over_capability(s, resource, said)
    if over is not None:
        return over
    total = sum((node.allocatable for node in open_nodes(s, resource)), Fraction(0))
    if resource in s.advertised and asked > total and not nodes.shut(s):
        cause = Cause(
            f"the gang asks for {amount(asked)} {resource}, but all usable nodes together have {amount(total)}",
            "reduce replicas or minAvailable, or add nodes; the gang scheduler is right to hold it",
        )
        return refusal(
            "over-cluster", said.stage, cause, said.text, where=where, evidence=said.keys, rows=("REF-001",)
        )
    return None


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
    for pod in every_pod(s.evidence):
        if (
            pod.uid in mine
            or pod.bound is None
            or pod.deleted is not None
            or pod.phase in ("Succeeded", "Failed")
        ):
            continue
        held = fields.requested(pod.last, resource)
        if held:
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
    room, fits = room_words(s) if said.stage is Stage.PLACE and not named else ("", False)
    if fits:
        yield over_deserved(s, said) or _fits(s, room, said)
        return
    if holding and (named or (rooms and asked > free)):
        cause = Cause(
            f"the room is taken: the gang asks for {want}, and others hold {held}",
            "wait for them, add nodes, or reduce replicas or minAvailable; the gang scheduler is right to hold it",
        )
        yield refusal("room-taken", said.stage, cause, said.text, evidence=said.keys, rows=("REF-001",))
        return
    if not named and not NO_PLACE.search(said.words):
        cause = Cause(
            "the scheduler does not place the gang, and its message does not name the missing resource",
            "check its log, the quotas and the nodes: kubectl describe the PodGroup and the pods; the scheduler "
            "may also have stopped",
        )
        yield fault(
            "no-reason",
            said.stage,
            cause,
            said.text,
            POSSIBLE,
            evidence=said.keys,
            look=wording.repeat(s.gang) if s.gang else (),
        )
        return
    closed = nodes.shut(s)
    if closed is not None and closed[2]:
        return  # with nodes that are closed it would fit: another detector names them
    if said.stage is Stage.PLACE and free >= asked > 0 and not _divides(s, resource):
        cause = Cause(
            f"the gang asks for {want}, and {amount(free)} are free, but spread so that not every member finds a node",
            f"choose {resource} per member so that a node holds whole members, free a node, or add one; the "
            "gang scheduler is right to hold it",
        )
    else:
        cause = Cause(
            f"the gang asks for {want}, more than its queue or the cluster has for it",
            "reduce replicas or minAvailable, add nodes, or raise the queue's capability; the gang scheduler is right "
            "to hold it",
        )
    yield refusal(
        "no-room", said.stage, cause, said.text, LIKELY, evidence=said.keys, rows=("REF-001", "REF-002")
    )


def _divides(s: Situation, resource: str) -> bool:
    """Report whether every member that has no place yet finds room for a resource on a node."""
    rooms = [room for room in open_nodes(s, resource) if room.fits_selector]
    return machines.fits(rooms, machines.lacking(s), resource)


NO_PLACE = re.compile(
    r"[1-9]\d* Unschedulable\b|nodes are (?:un)?available|insufficient|overused", re.IGNORECASE
)
"""How a scheduler says that at least one member has no place."""


def _fits(s: Situation, room: str, said: Refused) -> Suspect:
    """Return that the gang would fit by what nodes and pods show, and is not placed."""
    sure = machines.everywhere(s)
    cause = Cause(
        f"the gang would fit but is not placed: {room}",
        "check whether the scheduler still runs and what it reports now (kubectl -n volcano-system get pods; its "
        "log): its last message may be old; then check pods of other namespaces and the pods' other requests",
    )
    more = {"evidence": said.keys, "rows": ("GANG-001",), "look": wording.repeat(s.gang) if s.gang else ()}
    return fault("fits-and-waits", said.stage, cause, said.text, LIKELY if sure else POSSIBLE, **more)


def _placed(gang: Gang) -> int:
    return sum(p.bound is not None and p.deleted is None for p in gang.pods)


def held_without_reason(s: Situation) -> Iterator[Suspect]:
    """The PodGroup waits at enqueue and nobody says why."""
    group, reading = s.group, s.reading
    if group is None or reading is None or not group.phases or group.phases[-1][1] != "Pending" or s.pods:
        return
    if reading.enqueue or s.now - group.phases[-1][0] <= s.silent or s.ended:
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
    seen = f"PodGroup {group.name} is Pending for {s.now - group.phases[-1][0]:.0f} s without a reason"
    look = (
        f"kubectl get queues.scheduling.volcano.sh {s.queue_name} -o yaml",
        "kubectl -n volcano-system logs deploy/volcano-scheduler",
    )
    yield fault("held-silently", Stage.ENQUEUE, cause, seen, LIKELY, evidence=(group.key,), look=look)
