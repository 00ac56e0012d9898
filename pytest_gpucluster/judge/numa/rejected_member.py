"""NUMA-008: a gang one of whose members the kubelet rejects ends or restarts in time, and keeps nobody waiting."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.hardware.numa_trials import REJECTED, Trial
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "after a kubelet rejected one member, the others of that attempt end within the bound, and the gang ends or "
    "is attempted again, no more often than allowed"
)
FINAL = frozenset({"Failed", "Terminated", "Aborted", "Completed", "Complete"})
"""Phases in which a gang's object has ended."""
DEFAULT_BOUND = 60.0
"""Seconds for the others to end, where none is declared."""

WAITS = Cause(
    "nothing acts on a Failed member: the others wait for it at their barrier forever and hold their GPUs",
    "give the Job a policy for it (Volcano: `policies: [{event: PodFailed, action: RestartJob}]` with maxRetry; batch "
    "Job: backoffLimit 0), and a timeout to the rendezvous",
)
ENDLESS = Cause(
    "the controller makes rejected members again without counting them",
    "limit the attempts (maxRetry, backoffLimit); never use a Deployment for such pods: it replaces each at "
    "once, hundreds in seconds",
)


@dataclasses.dataclass(frozen=True)
class _Loss:
    """One rejected member, those that were there beside it, and until when nobody of us took them away."""

    trial: Trial
    others: tuple[PodStory, ...]
    until: float

    def ends(self, pod: PodStory) -> float | None:
        """Return when a member was over, or its end was asked for, by somebody else than us."""
        times = [t for t in (pod.finished, pod.deleting, pod.deleted) if t is not None and t < self.until]
        return min(times) if times else None


@subjects.judge
def ends_or_restarts(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-008."""
    named = subjects.cast(evidence, given, "subject")
    chosen = [gang for gang in (named or subjects.everyone(evidence)) if len(gang.pods) > 1]
    bound = (subjects.seconds(given, "finish") or DEFAULT_BOUND) + subjects.of(evidence, given).grain
    hit = [(gang, losses) for gang in chosen if (losses := _losses(evidence, given, gang))]
    if not hit:
        text = "no member of a gang was rejected by a kubelet" if chosen else subjects.nothing(evidence)
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    return wording.gravest([_one(evidence, given, gang, losses, bound) for gang, losses in hit])


def _losses(evidence: Evidence, given: subjects.Given, gang: Gang) -> list[_Loss]:
    uids = {pod.uid: pod for pod in gang.pods}
    rejected = [t for t in reading.trials(evidence, given) if t.pod.uid in uids and t.outcome == REJECTED]
    found = []
    for trial in rejected:
        beside = [
            pod
            for pod in gang.pods
            if pod.uid != trial.pod.uid and pod.created <= trial.since and (pod.deleted or evidence.end) >= trial.since
            and (pod.finished is None or pod.finished >= trial.since)
        ]  # fmt: skip
        found.append(_Loss(trial, tuple(beside), _ours(evidence, gang)))
    return found


def _ours(evidence: Evidence, gang: Gang) -> float:
    """Return when we deleted the gang, the end of the evidence where we did not."""
    own = [note.t for note in evidence.notes("deleted-by-us") if note.data.get("uid") == gang.uid]
    return min(own, default=evidence.end + 1.0)


def _one(
    evidence: Evidence, given: subjects.Given, gang: Gang, losses: Sequence[_Loss], bound: float
) -> Finding:
    waiting: list[PodStory] = []
    slowest = 0.0
    for loss in losses:
        for pod in loss.others:
            end = loss.ends(pod)
            until = min(evidence.end, loss.until)
            slowest = max(slowest, (until if end is None else end) - loss.trial.since)
            if end is None or end - loss.trial.since > bound:
                waiting.append(pod)
    number = Number("time until the last other member ended", slowest, "s", bound, "profile: budgets.finish")
    rejected = wording.listed([loss.trial.title for loss in losses], 3)
    if waiting:
        return _kept_waiting(evidence, gang, losses, waiting, number)
    allowed = subjects.count(given, "attempts")
    tried = max(Counter(loss.trial.pod.slot for loss in losses).values())
    if allowed is not None and tried > allowed:
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"a member of {gang.title} was rejected {tried} times, but {allowed} attempts are allowed: {rejected}",
            gang,
            violation=True,
            causes=(ENDLESS,),
            evidence=tuple(loss.trial.key for loss in losses)[: wording.MANY],
        )
    return _outcome(gang, losses, number)


def _kept_waiting(
    evidence: Evidence, gang: Gang, losses: Sequence[_Loss], waiting: Sequence[PodStory], number: Number
) -> Finding:
    first = losses[0].trial
    seen = min(evidence.end, losses[0].until) - first.since
    over = any(
        loss.ends(pod) is not None
        for loss in losses
        for pod in waiting
        if pod.uid in {one.uid for one in loss.others}
    )
    # What has not ended when the evidence does counts as waiting only if it was given its time.
    decided = (
        over or seen > float(number.bound or 0.0) or subjects.gave_up(evidence, first.since, evidence.end)
    )
    who = wording.count(len({pod.uid for pod in waiting}), "member")
    text = f"{who} of {gang.title} went on for {number.value:.1f} s after "
    return wording.finding(
        Verdict.FAIL if decided else Verdict.INCONCLUSIVE,
        REQUIRED,
        f"{text}{first.title} was rejected ({first.reason})",
        gang,
        violation=decided,
        where=wording.places(waiting),
        causes=(WAITS,),
        evidence=(first.key,),
        numbers=(number,),
    )


def _outcome(gang: Gang, losses: Sequence[_Loss], number: Number) -> Finding:
    last = losses[-1].trial.since
    phases = [(t, name) for t, name, _ in gang.job.phases if t >= losses[0].trial.since] if gang.job else []
    final = next((name for _, name in reversed(phases) if name in FINAL), "")
    again = [pod for pod in gang.pods if pod.created > last and pod.running is not None]
    gone = all(pod.deleted is not None for pod in gang.pods)
    keys = tuple(loss.trial.key for loss in losses)[: wording.MANY]
    told = f"{wording.count(len(losses), 'member')} rejected ({losses[0].trial.reason})"
    if not (final or again or gone):
        return wording.finding(
            Verdict.INCONCLUSIVE,
            REQUIRED,
            f"{told}; {gang.title} neither ended nor was attempted again while it was watched",
            gang,
            evidence=keys,
            numbers=(number,),
        )
    text = "everything was removed"
    if final or again:
        text = f"{gang.title} {f'ended {final}' if final else 'was attempted again'}"
    others = sum(len(loss.others) for loss in losses)
    return wording.finding(
        Verdict.PASS,
        REQUIRED,
        f"{told}; {wording.count(others, 'other member')} ended within {number.value:.1f} s; {text}",
        gang,
        evidence=keys,
        numbers=(number,),
        facts={"rejected": len(losses), "others": others},
    )


def member_rejected(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether a kubelet rejected a member while others were there: else nobody could be kept waiting."""
    name = "a kubelet rejected one member while others ran"
    named = subjects.cast(evidence, given, "subject")
    losses = [
        loss for gang in named or subjects.everyone(evidence) for loss in _losses(evidence, given, gang)
    ]
    if any(loss.others for loss in losses):
        return wording.presupposed(
            name, held=True, observed=losses[0].trial.title, evidence=(losses[0].trial.key,)
        )
    chosen = given.get("tried")
    if isinstance(chosen, list | tuple) and len(chosen) == 1:
        return wording.presupposed(
            name, held=False, observed=f"only {chosen[0]} offers enough GPUs: two nodes are needed"
        )
    vain = subjects.timed_out(evidence)
    text = f"waited in vain: {vain[0]}" if vain else "no member was rejected while others ran"
    return wording.presupposed(name, held=None, observed=text)
