"""ELA-002: a world below its maximum grows when there is room for the missing worker again.

Told apart: no pod is made for the missing member, none is placed, it runs and is never taken in, or it is taken in too
late. The time counts from the newcomer's start: that a controller waits before it makes a pod again is its own matter
and is told beside it.
"""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Change, Training, World
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.judge.elastic.shrink import SHARED_STORE, SLOW
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "when the missing worker can run again, a larger world forms with it and takes its next step within the declared "
    "time of the worker's start"
)
NOT_MADE = Cause(
    "the controller of the workers makes no pod for the missing member: its limit of failed pods is used up "
    "(backoffLimit of a Job, maxRetry of Volcano), or it does not replace lost members at all",
    "raise the limit above the losses that you expect, or count only those that are the program's fault "
    "(podFailurePolicy: Ignore on DisruptionTarget)",
)
NOT_PLACED = Cause(
    "the scheduler does not place the new worker although there is room for it",
    "read the condition PodScheduled of the named pod (kubectl describe pod)",
)
NOT_STARTED = Cause(
    "the new worker is placed but its container does not start",
    "read the state of its container (kubectl describe pod)",
)
ENDED = Cause(
    "the newcomer's agent ended before it was taken in: it cannot reach the store, or waited longer than join_timeout",
    "read its last lines; the store's port must be open for new pods too",
)


@subjects.judge
def grows(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-002."""
    story, missing = shared.training(evidence, given, "training")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    tries = [
        (change, old)
        for change in story.changes
        if change.what == elastic.BACK
        and (old := story.before(change.t)) is not None
        and not _whole(given, story, change, old)
    ]
    if not tries:
        text = f"{story.gang.title}: room never came back while a smaller world trained"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, story.gang)
    judged = wording.together([_judged(evidence, given, story, change, old) for change, old in tries])
    return shared.unless_contradicted(story, given, judged)


def _whole(given: subjects.Given, story: Training, change: Change, old: World) -> bool:
    """Report whether no worker was missing when room came back, or the world had lost one and not formed anew yet."""
    most = shared.declared(given, "max")
    lost = {uid for one in story.changes if old.whole <= one.t < change.t for uid in one.uids}
    return (most is not None and old.size >= most) or bool(lost & set(old.formed))


def _judged(
    evidence: Evidence, given: subjects.Given, story: Training, change: Change, old: World
) -> Finding:
    end = story.until(change, evidence.end)
    fresh = [
        pod
        for pod in story.gang.pods
        if pod.uid not in old.formed
        and (pod.deleted is None or pod.deleted > change.t)
        and pod.created <= end
    ]
    running = [pod for pod in fresh if pod.running is not None and pod.running <= end]
    larger = next((w for w in story.after(change.t, end) if w.size > old.size), None)
    # Of several newcomers those count that were taken in: one that failed before was not to be waited for.
    taken = [pod for pod in running if larger is not None and pod.uid in larger.formed] or running
    since = (max if larger is not None else min)(
        (pod.running for pod in taken if pod.running is not None), default=change.t
    )
    numbers = (
        Number(
            "time until the missing worker runs",
            round(since - change.t, 3) if running else None,
            "s",
            origin="measured, from the room to the start of the pod",
        ),
        *shared.numbers(story, given, shared.Reform(since, old, larger, evidence.end)),
    )
    keys = (change.key, *((larger.key,) if larger is not None else ()))
    told = wording.Findings(
        REQUIRED, story.gang, start=f"{story.gang.title}: ", evidence=keys, numbers=numbers
    )
    waited = end - change.t
    if larger is None:
        return _not_larger(shared.patience(given), fresh, running, told, (old, since, waited, end))
    first = larger.first_step if larger.complete else None
    if first is None:
        text = f"a world of {larger.size} formed, but not all of its ranks reported a step in {waited:.1f} s"
        late = end - since > shared.patience(given) and not larger.contradiction
        return told.fail(text, shared.NO_STEP, violation=True) if late else told.inconclusive(text)
    bound, took = shared.declared(given, "reform"), first - since
    text = f"a world of {larger.size} took its first step {took:.1f} s after the missing worker ran"
    if bound is not None and took > bound + subjects.of(evidence, given).grain:
        return told.fail(f"{text}, the bound is {bound:g} s", SLOW, violation=True)
    return told.passed(text)


def _not_larger(
    patience: float,
    fresh: list[PodStory],
    running: list[PodStory],
    told: wording.Findings,
    watched: tuple[World, float, float, float],
) -> Finding:
    """Say why no larger world was seen."""
    old, since, waited, end = watched
    failed = [pod for pod in running if pod.finished is not None and pod.finished <= end]
    if failed:
        code = max((code for _, code in failed[0].exit_codes), default=0)
        ran = (failed[0].finished or end) - since
        text = f"{failed[0].where} ended with {code} after {ran:.1f} s and was never taken in"
        return told.fail(text, ENDED, SHARED_STORE, violation=True)
    if running:
        text = (
            f"{running[0].where} has run for {end - since:.1f} s; the world of {old.size} did not take it in"
        )
        over = end - since > patience
        return told.fail(text, SHARED_STORE, violation=True) if over else told.inconclusive(text)
    bound = [pod for pod in fresh if pod.bound is not None and pod.bound <= end]
    if waited <= patience:
        return told.inconclusive(f"no further worker ran in the {waited:.1f} s that were watched")
    if bound:
        why = bound[0].blocked()
        text = f"{bound[0].where} did not run in {waited:.1f} s{f': {why}' if why else ''}"
        return told.fail(text, NOT_STARTED, violation=True)
    if fresh:
        return told.fail(f"{fresh[0].where} was not placed in {waited:.1f} s", NOT_PLACED, violation=True)
    return told.fail(f"no pod was made for the missing member in {waited:.1f} s", NOT_MADE, violation=True)
