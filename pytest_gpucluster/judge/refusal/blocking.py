"""REF-005 and REF-007: what a gang that waits does to others, refused before its pods exist, or enqueued for ever."""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import capacity, gates, schedulers
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.gates import Held
from pytest_gpucluster.judge import controls, subjects, wording
from pytest_gpucluster.judge.gang.all_or_nothing import EPSILON
from pytest_gpucluster.judge.refusal import refusals
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

HARMLESS = (
    "while a gang is refused at enqueue, a fitting Job of its own queue and one of another queue start, and no "
    "pod loses its place to it"
)
BLOCKS = (
    "control: an enqueued gang that cannot be placed keeps a fitting gang of another queue from starting; that "
    "gang starts once the enqueued one is gone"
)

RESERVES = Cause(
    "the refused gang still counts as promised: the scheduler's gates at enqueue reserve room for it",
    "look at the queue's reservation (kubectl get queue QUEUE -o yaml: status) and at the plugins overcommit and "
    "proportion of volcano-scheduler.conf; update the scheduler",
)
PREEMPTS = Cause(
    "an action of the scheduler (preempt, reclaim) takes places for a gang that is not enqueued",
    "look for preempt and reclaim in the actions of volcano-scheduler.conf, and at the Evict events of the pods",
)
OVERCOMMIT = Cause(
    "the gang passed the gates at enqueue, and overcommit keeps its whole request reserved (of 1.2 x the cluster's "
    "total) for as long as it exists, although no node can hold it",
    "delete the gang that cannot be placed (kubectl get podgroups -A: Inqueue for long), or make it ask for what "
    "a node has; give each queue a capability; the plugin sla with a waiting time does not free it",
)


@dataclasses.dataclass(frozen=True)
class _Waits:
    """A gang that was refused at enqueue for a while, with what it was told."""

    gang: Gang
    said: tuple[Said, ...]
    start: float
    end: float


def _ends(evidence: Evidence, gang: Gang) -> float:
    """Return when a gang went away, or the evidence's end."""
    group = gang.groups[-1] if gang.groups else None
    times = (gang.job.deleted if gang.job else None, group.deleted if group else None, evidence.end)
    return min(t for t in times if t is not None)


def _waits(evidence: Evidence, gang: Gang) -> _Waits | None:
    """Return how a gang was refused at enqueue, up to its first pod or its end."""
    gen = gang.generations[-1]
    said = gates.read(evidence, gang, gen).enqueue
    if not said:
        return None
    first_pod = min((pod.created for pod in gen.members), default=evidence.end)
    return _Waits(gang, said, said[0].t, min(_ends(evidence, gang), first_pod))


def _stuck(evidence: Evidence, gang: Gang) -> Held | None:
    """Return the span in which a gang had all its pods and none of them a place, by the word of its scheduler."""
    held = gates.read(evidence, gang, gang.generations[-1]).held
    return held if held is not None and held.said is not None else None


# -- REF-005 ---------------------------------------------------------------------------------------------------------


@subjects.judge
def refused_harms_nobody(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-005."""
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.everyone(evidence)
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, HARMLESS, subjects.nothing(evidence))
    waits = [one for gang in gangs if (one := _waits(evidence, gang)) is not None]
    findings = [_harms(evidence, given, one, arranged=named is not None) for one in waits]
    if findings:
        return wording.telling(findings)
    text = f"no gang was refused at enqueue ({gangs[0].title}), so no pod could be harmed by one"
    return wording.finding(Verdict.INCONCLUSIVE, HARMLESS, text, gangs[0])


def _harms(evidence: Evidence, given: subjects.Given, one: _Waits, *, arranged: bool) -> Finding:
    limits = subjects.of(evidence, given)
    others = (
        subjects.cast(evidence, given, "control", "neighbour") if arranged else subjects.everyone(evidence)
    )
    others = tuple(gang for gang in others or () if gang.uid != one.gang.uid)
    seconds = one.end - one.start
    text = f"{one.gang.name} was refused at enqueue for {seconds:.1f} s ({one.said[0].message})"
    keys = (one.said[0].key, one.said[-1].key)
    found = wording.Findings(
        HARMLESS, one.gang, start=text, evidence=keys,
        where=wording.places(pod for gang in others for pod in gang.pods) or (one.gang.title,),
        refusal=wording.refusal(schedulers.ENQUEUE, one.said[-1], one.said[-1].reporter),
        currency=subjects.currency(evidence, given, one.gang),
    )  # fmt: skip

    if arranged:
        evicted = _evicted(evidence, one, others)
        if evicted is not None:
            more = f"; {evicted.where} lost its place at t={evicted.deleting or evicted.deleted or 0.0:.2f} s meanwhile"
            return found.fail(more, PREEMPTS, violation=True, evidence=(*keys, evicted.keys["created"]))
    stuck = next(
        (g for g in subjects.everyone(evidence) if g.uid != one.gang.uid and _overlaps(evidence, g, one)),
        None,
    )
    if stuck is not None:
        more = (
            f"; {stuck.name} was enqueued and had no place meanwhile: it is what blocks the others (REF-007)"
        )
        return found.inconclusive(more, OVERCOMMIT)
    started = {
        gang.uid: t
        for gang in others
        if (t := gang.whole) is not None
        and one.start <= t <= one.end
        and controls.ran(evidence, given, gang)[0]
    }
    late = [gang for gang in others if gang.uid not in started and _waited_in_vain(evidence, gang, one)]
    if arranged and late:
        gang = late[0]
        said = _waits(evidence, gang)
        more = f"; {gang.name}, which fits, did not start on queue {gang.queue}"
        more += f" ({said.said[-1].message})" if said else ""
        return found.fail(more, RESERVES, violation=True)
    same = [gang for gang in others if gang.uid in started and gang.queue == one.gang.queue]
    other = [gang for gang in others if gang.uid in started and gang.queue != one.gang.queue]
    if not same or not other:
        missing = "in its own queue" if not same else "in another queue"
        return found.inconclusive(f"; no fitting Job was seen to start {missing} meanwhile")
    if seconds < limits.window - EPSILON:
        return found.inconclusive(f"; shorter than the window of {limits.window:.2f} s")
    gaps = evidence.gaps("Pod", one.start, one.end)
    if gaps:
        return found.inconclusive(f"; pods were not watched from t={gaps[0][0]:.2f} to {gaps[0][1]:.2f} s")
    kept = one.end - max(started.values())
    if arranged and kept < limits.window - EPSILON:
        more = f"; the others were watched for {kept:.2f} s after their start, less than the window"
        return found.inconclusive(more)
    more = "".join(
        f"; {gang.name} started on queue {gang.queue} within {started[gang.uid] - gang.created:.2f} s"
        for gang in (same[0], other[0])
    )
    number = Number(
        "places kept beside it", kept, "s", limits.window, "three scheduler periods or the window"
    )
    return found.passed(f"{more}; no pod lost its place", numbers=(number,))


def _overlaps(evidence: Evidence, gang: Gang, one: _Waits) -> bool:
    """Report whether a gang was enqueued without a place while another was refused."""
    held = _stuck(evidence, gang)
    return held is not None and not held.bound_after and held.start < one.end and held.end > one.start


def _waited_in_vain(evidence: Evidence, gang: Gang, one: _Waits) -> bool:
    """Report whether our own wait for a gang expired while the refused one was there."""
    return gang.created < one.end and subjects.timed_out(evidence, gang.created, one.end) is not None


def _evicted(evidence: Evidence, one: _Waits, others: tuple[Gang, ...]) -> PodStory | None:
    """Return a pod that lost its place while the gang waited, though we deleted nothing of its gang."""
    ours = {
        str(note.data.get("uid")): note.t
        for word in ("deleted-by-us", "room-made")
        for note in evidence.notes(word)
    }
    for gang in others:
        for pod in gang.pods:
            ends = [t for t in (pod.deleting, pod.deleted) if t is not None]
            if not ends or pod.bound is None or not one.start <= min(ends) <= one.end:
                continue
            asked = ours.get(gang.uid)
            if asked is None or asked > min(ends):
                return pod
    return None


# -- REF-007 ---------------------------------------------------------------------------------------------------------


@subjects.judge
def enqueued_blocks_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-007: whether the documented failure shows here; it is never a violation."""
    holders = subjects.cast(evidence, given, "enqueued")
    arranged = holders is not None
    gangs = holders if holders is not None else subjects.everyone(evidence)
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, BLOCKS, subjects.nothing(evidence))
    stuck = [
        (gang, held)
        for gang in gangs
        if (held := _stuck(evidence, gang)) is not None and not held.bound_after
    ]
    if not stuck:
        return wording.finding(Verdict.INCONCLUSIVE, BLOCKS, _never_stuck(evidence, gangs[0]), gangs[0])
    findings = [_blocks(evidence, given, gang, held, arranged=arranged) for gang, held in stuck]
    return min(findings, key=lambda finding: [Verdict.PASS, Verdict.INCONCLUSIVE].index(finding.verdict))


def _never_stuck(evidence: Evidence, gang: Gang) -> str:
    if gang.whole is not None:
        return f"{gang.title} was placed: no gang was enqueued without a place"
    waits = _waits(evidence, gang)
    if waits is not None:
        return (
            f"{gang.title} was refused at enqueue ({waits.said[0].message}), so nothing was reserved for it"
        )
    return f"no gang was seen to be enqueued without a place ({gang.title})"


def _blocks(evidence: Evidence, given: subjects.Given, gang: Gang, held: Held, *, arranged: bool) -> Finding:
    """Judge one gang that was enqueued without a place, against those that came after it."""
    limits = subjects.of(evidence, given)
    others = subjects.cast(evidence, given, "blocked") if arranged else subjects.everyone(evidence)
    later = [g for g in others or () if g.uid != gang.uid and g.created >= gang.created and g.minimum > 1]
    asked = refusals.asked_by(gang)
    text = f"{gang.name} ({gang.minimum} members, none bound) was enqueued for {held.seconds:.1f} s"
    if held.said is not None:
        text += f" ({wording.short(held.said.message)})"
    best: Finding | None = None
    for other in later:
        one = _waits(evidence, other)
        if one is None:
            continue
        begin, end = _together(evidence, held, one)
        number = Number(
            "kept waiting", end - begin, "s", limits.window, "three scheduler periods or the window"
        )
        found = wording.Findings(
            BLOCKS, other, start=f"{text}; {other.name} on queue {other.queue} ",
            evidence=(*((held.said.key,) if held.said else ()), one.said[0].key), numbers=(number,),
            refusal=wording.refusal(schedulers.ENQUEUE, one.said[-1], one.said[-1].reporter),
            currency=subjects.currency(evidence, given, gang),
            facts={"reserved": {name: str(amount) for name, amount in asked.items()}},
            repeat=(*wording.repeat(gang), *wording.repeat(other)),
        )  # fmt: skip

        why = f"was kept from starting for {end - begin:.1f} s ({one.said[-1].message})"
        fits = _fits(evidence, other, held.end)
        gaps = evidence.gaps("Pod", begin, end)
        if end - begin < limits.window - EPSILON:
            best = best or found.inconclusive(f"{why}, shorter than the window of {limits.window:.2f} s")
        elif gaps:
            best = best or found.inconclusive(f"{why}, but pods were not watched all the time")
        elif not fits:
            best = best or found.inconclusive(f"{why}, but nothing shows that it would have fitted")
        else:
            return found.passed(f"{why}, and {fits}", OVERCOMMIT)
    if best is not None:
        return best
    started = [g for g in later if g.whole is not None and g.whole <= held.end]
    if started:
        more = f"; {started[0].name} started beside it: this scheduler does not block (no overcommit, or room to spare)"
        return wording.finding(Verdict.INCONCLUSIVE, BLOCKS, text + more, started[0])
    return wording.finding(Verdict.INCONCLUSIVE, BLOCKS, f"{text}; no other gang was tried meanwhile", gang)


def _together(evidence: Evidence, held: Held, one: _Waits) -> tuple[float, float]:
    """Return for how long both waited: over a noted window in which the reason was given, else from that reason on.

    A reason counts from the gang's creation on: schedulers say it once and then only count it up.
    """
    end = min(one.end, held.end)
    start = max(one.gang.created, held.start)
    noted = [w for w in subjects.windows(evidence) if start <= w[0] and one.start <= w[1] <= end]
    return noted[0] if noted else (max(one.start, held.start), end)


def _fits(evidence: Evidence, other: Gang, gone: float) -> str:
    """Return what shows that the blocked gang fits: it started once the enqueued one was gone, or the nodes' room."""
    if other.whole is not None and other.whole >= gone:
        return f"it started {other.whole - gone:.2f} s after the enqueued gang was gone"
    room = capacity.fits_on(evidence, other)
    return f"it would fit on {wording.listed(room[0], 4)}" if room is not None else ""
