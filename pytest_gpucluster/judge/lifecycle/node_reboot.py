"""LIFE-011: after a restart of their node members are replaced once, and no rejected pod is left behind."""

import dataclasses
from collections.abc import Sequence

from pytest_gpucluster.evidence.hardware import numa_trials
from pytest_gpucluster.evidence.hardware.numa_trials import REJECTED
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status, owners
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import creating, subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "after a restart of their node every lost member is replaced exactly once, and no replacement is rejected by the "
    "kubelet"
)

LATE_PLUGIN = Cause(
    "the node takes pods before its device plugin is back: it still offers the devices from before the restart",
    "keep the node out of scheduling until its devices are there (a taint that the GPU operator or node feature "
    "discovery removes), and run the device plugin with priorityClassName system-node-critical",
)
NOT_REPLACED = Cause(
    "nothing replaced the lost member: its owner gave up, or the node did not come back with all its devices",
    "look at the Job's backoffLimit and conditions, and at what the node offers (kubectl describe node NODE)",
)
SURVIVED = Cause(
    "the containers ran on, or were started again in the same pod: the restart did not reach them",
    "restart the machine itself, not only its kubelet",
)


@dataclasses.dataclass(frozen=True)
class _Drill:
    """One restart of a node: when, where, who was lost, who was made after it."""

    t: float
    node: str
    lost: tuple[PodStory, ...]
    made: tuple[PodStory, ...]

    def replacements(self, pod: PodStory) -> list[PodStory]:
        """Return the pods that were made in the place of a lost one."""
        return [new for new in self.made if new.slot == pod.slot]


def _drills(evidence: Evidence, given: subjects.Given) -> list[tuple[Gang, _Drill]]:
    """Return every restart of a node under a running Job: the first counts as much as the last."""
    found = []
    named = subjects.cast(evidence, given, "subject")
    notes = evidence.notes("rebooted-by-us")
    for note in notes:
        node = str(note.data.get("node") or "")
        following = min((other.t for other in notes if other.t > note.t), default=evidence.end)
        for gang in named or subjects.everyone(evidence):
            until = min(
                (n.t for n in evidence.notes("deleted-by-us") if n.data.get("uid") == gang.uid),
                default=evidence.end,
            )
            until = min(until, following)
            there = [p for p in gang.pods if p.node == node and p.running is not None and p.running < note.t]
            lost = [p for p in there if _ended(p, note.t, until)]
            made = [p for p in gang.pods if note.t < p.created < until]
            if there:
                found.append((gang, _Drill(note.t, node, tuple(lost), tuple(made))))
    return found


def _ended(pod: PodStory, start: float, until: float) -> bool:
    times = [t for t in (pod.finished, pod.deleting, pod.deleted) if t is not None]
    return bool(times) and start <= min(times) <= until


@subjects.judge
def replaced_once(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-011."""
    found = _drills(evidence, given)
    if not found:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no node was restarted under a running Job")
    return wording.gravest([_judge(evidence, given, gang, drill) for gang, drill in found])


def _judge(evidence: Evidence, given: subjects.Given, gang: Gang, drill: _Drill) -> Finding:
    if not drill.lost:
        text = f"no member on {drill.node} ended when it was restarted"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, causes=(SURVIVED,))
    trials = {t.pod.uid: t for t in numa_trials.trials(evidence, given)}
    rejected = [p for p in drill.made if (t := trials.get(p.uid)) is not None and t.outcome == REJECTED]
    if rejected:
        return _rejected(gang, drill, rejected, trials[rejected[0].uid].reason)
    counts = {pod.slot: len(drill.replacements(pod)) for pod in drill.lost}
    if max(counts.values()) > 1:
        many = max(counts, key=lambda slot: counts[slot])
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"{many} of {gang.title} was made {counts[many]} times after {drill.node} was restarted",
            gang,
            violation=True,
            evidence=tuple(p.keys["created"] for p in drill.made)[: wording.MANY],
            numbers=_numbers(drill, counts),
        )
    open_ = [pod for pod in drill.lost if not any(new.running is not None for new in drill.replacements(pod))]
    if open_:
        return _open(evidence, gang, drill, open_, counts)
    return _replaced(evidence, given, gang, drill, counts)


def _numbers(drill: _Drill, counts: dict[str, int]) -> tuple[Number, ...]:
    del drill
    return (
        Number("times that a lost member was made again", max(counts.values()), "pods", 1, "exactly once"),
    )


def _rejected(gang: Gang, drill: _Drill, rejected: Sequence[PodStory], reason: str) -> Finding:
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"{wording.count(len(rejected), 'replacement')} of {gang.title} rejected by the kubelet of {drill.node} "
        f"({reason}): {wording.listed([pod.name for pod in rejected], 4)}",
        gang,
        violation=True,
        where=wording.places(rejected),
        causes=(LATE_PLUGIN,),
        evidence=tuple(pod.keys["created"] for pod in rejected)[: wording.MANY],
    )


def _open(
    evidence: Evidence, gang: Gang, drill: _Drill, open_: Sequence[PodStory], counts: dict[str, int]
) -> Finding:
    vain = subjects.timed_out(evidence, drill.t)
    told = [said for said in owners.all_said(evidence) if said.reason == "FailedCreate" and said.t >= drill.t]
    refused = next((said for said in told if said.obj.partition("/")[2] == gang.name), None)
    keys = () if refused is None else (refused.key,)
    text = (
        f"{wording.count(len(open_), 'lost member')} of {gang.title} had no running replacement when the evidence "
        "ends"
    )
    return wording.finding(
        Verdict.INCONCLUSIVE if vain is None else Verdict.FAIL,
        REQUIRED,
        text if vain is None else f"{text}: waited for {vain[0]}",
        gang,
        violation=vain is not None,
        where=wording.places(open_),
        causes=(NOT_REPLACED,) if refused is None else (_refused(refused),),
        evidence=(*keys, *(pod.keys["created"] for pod in open_))[: wording.MANY],
        numbers=_numbers(drill, counts),
    )


def _refused(said: owners.Said) -> Cause:
    text = f"the API server let no replacement be made: {wording.short(said.message)}"
    if "failed calling webhook" not in said.message:
        return Cause(text, creating.why(403, said.message).fix)
    return Cause(
        text,
        "keep what admission needs (webhooks, their managers) off the nodes that jobs run on, or run two of "
        "each: one on the restarted node is lost with it",
    )


def _replaced(
    evidence: Evidence, given: subjects.Given, gang: Gang, drill: _Drill, counts: dict[str, int]
) -> Finding:
    for start, end in evidence.gaps("Pod", drill.t, evidence.end):
        text = f"the watch of pods was not in sync from t={start:.2f} s to {end:.2f} s: a pod may have been missed"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang)
    back = max(new.running - drill.t for new in drill.made if new.running is not None)
    resource = numa_trials.resource_of(given)
    offers = next(
        (m.offers(resource)[1] for m in node_status.machines(evidence) if m.name == drill.node), None
    )
    reasons = sorted({why for pod in drill.lost if (why := pod.blocked())})
    text = f"{wording.count(len(drill.lost), 'member')} on {drill.node} lost"
    text += f" ({', '.join(reasons)})" if reasons else ""
    text += f" and replaced once each, running again {back:.1f} s after the restart"
    text += "" if offers is None else f"; the node offers {offers} {resource}"
    return wording.finding(
        Verdict.PASS,
        REQUIRED,
        text,
        gang,
        where=wording.places(drill.made),
        evidence=tuple(pod.keys["created"] for pod in drill.made)[: wording.MANY],
        numbers=(
            *_numbers(drill, counts),
            Number("time until all run again", back, "s", None, "none declared"),
        ),
        facts={"lost": len(drill.lost), "reasons": reasons},
    )


def restarted(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether a node was restarted while members ran on it."""
    name = "a node was restarted under a running Job"
    notes = evidence.notes("rebooted-by-us")
    found = _drills(evidence, given)
    if found:
        return wording.presupposed(name, held=True, observed=f"{found[0][1].node} at t={found[0][1].t:.2f} s")
    chosen = given.get("tried")
    if isinstance(chosen, list | tuple) and not chosen:
        return wording.presupposed(name, held=False, observed="no node offers enough GPUs")
    vain = subjects.timed_out(evidence)
    text = "no node was restarted" if not notes else "no member ran on the node that was restarted"
    return wording.presupposed(name, held=None, observed=f"waited in vain: {vain[0]}" if vain else text)
