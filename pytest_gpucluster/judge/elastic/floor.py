"""ELA-003: below its minimum an elastic job stands still, says so, and does not stand for ever.

The workers that are left wait for others. No step may be taken in a world that is too small; each must end with an
error within its declared time, and say in its log that it waited in vain.
"""

import re

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.training.elastic import Training
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.judge.elastic.shrink import GHOST, TOO_SMALL, Loss, loss_of
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "with fewer workers than the minimum no step is taken; each worker that is left ends with a non-zero exit code "
    "within join_timeout of the loss, and its log says that it waited in vain"
)
NOTICE = 5.0
"""Seconds from the loss to a new wait of an agent: its rank fails, is ended, and it joins again."""
OVERSHOOT = 1.5
"""Part of join_timeout that a wait may take at most: an agent looks at the clock between two tries to write."""
WAITED = re.compile(r"Rendezvous(Timeout|Closed)Error|rendezvous\b.{0,80}\btimed? ?-?out", re.IGNORECASE)
"""How torchrun says that others did not come, or that another agent gave up first."""

NO_BOUND = Cause(
    "nothing bounds the wait for others: join_timeout is long (600 s by default), or pods that end are started again "
    "and wait anew",
    "set join_timeout in --rdzv-conf, and let the workload's own limits end it (backoffLimit, restartPolicy Never, "
    "activeDeadlineSeconds)",
)
SILENT = Cause(
    "the agent's error does not reach the log: standard error is lost, or the pod was killed before the agent spoke",
    "keep standard error of the workers, and give pods more grace than --shutdown-timeout",
)
HIDDEN = Cause(
    "the exit code is lost: a wrapper around torchrun swallows it, or the node reports another",
    "make torchrun the container's first process (`exec torchrun`)",
)


@subjects.judge
def stalls_bounded(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-003."""
    story, missing = shared.training(evidence, given, "training")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    smallest, wait = shared.declared(given, "min"), shared.declared(given, "join_timeout")
    below = [
        loss
        for change in story.changes
        if smallest is not None
        and (loss := loss_of(story, change, evidence.end)) is not None
        and len(loss.left) < smallest
    ]
    if not below or wait is None or smallest is None:
        text = f"{story.gang.title}: its workers never fell below the minimum"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, story.gang)
    judged = _judged(evidence, given, story, below[-1], (int(smallest), wait))
    return shared.unless_contradicted(story, given, judged)


def _judged(
    evidence: Evidence, given: subjects.Given, story: Training, loss: Loss, declared: tuple[int, float]
) -> Finding:
    """Judge the time after a loss that leaves too few."""
    smallest, wait = declared
    bound = wait * OVERSHOOT + NOTICE + subjects.of(evidence, given).grain
    left = [pod for uid in loss.left if (pod := story.pod(uid)) is not None]
    ends = [pod.finished for pod in left if pod.finished is not None]
    longest = max(ends) - loss.change.t if left and len(ends) == len(left) else None
    number = Number(
        "time until the last worker gives up", None if longest is None else round(longest, 3), "s", round(bound, 1),
        f"elastic.join_timeout {wait:g} s, half of it more, and {NOTICE:g} s to notice",
    )  # fmt: skip
    start = f"{story.gang.title}: {wording.count(len(left), 'worker')} left of at least {smallest}; "
    told = wording.Findings(
        REQUIRED,
        story.gang,
        start=start,
        where=wording.places(left),
        evidence=(loss.change.key,),
        numbers=(number,),
    )
    small = next((w for w in loss.new if w.size < smallest and w.steps), None)
    if small is not None:
        return told.fail(f"a world of {small.size} trains", TOO_SMALL, violation=True, evidence=(small.key,))
    ghosts = [step for step in loss.old.steps if step.t > loss.change.t + NOTICE]
    if ghosts:
        text = f"the world of {loss.old.size} took steps for {ghosts[-1].t - loss.change.t:.1f} s more"
        return told.fail(text, GHOST, violation=True, evidence=(ghosts[-1].key,))
    grown = next((w for w in loss.new if w.size >= smallest), None)
    if grown is not None:
        return told.inconclusive(
            f"a world of {grown.size} formed: others came, so the minimum was reached again"
        )
    return _ended(evidence, loss, left, told, (wait, bound))


def _ended(
    evidence: Evidence, loss: Loss, left: list[PodStory], told: wording.Findings, bounds: tuple[float, float]
) -> Finding:
    """Judge how the workers that were left came to their end."""
    wait, bound = bounds
    open_ = [pod for pod in left if pod.finished is None]
    watched = loss.end - loss.change.t
    late = [pod for pod in left if pod.finished is not None and pod.finished - loss.change.t > bound]
    if late or (open_ and watched > bound):
        pods = late or open_
        text = f"{wording.listed([p.name for p in pods])} waited longer than {bound:.1f} s"
        return told.fail(text, NO_BOUND, violation=True)
    if open_:
        names = wording.listed([pod.name for pod in open_])
        return told.inconclusive(
            f"{names} still waited when the evidence ends, after {watched:.1f} s of at most {bound:.1f} s"
        )
    untold = [pod for pod in left if not pod.exit_codes]
    if untold:
        return told.inconclusive(f"nobody reported the exit code of {untold[0].where}")
    well = [pod for pod in left if all(code == 0 for _, code in pod.exit_codes)]
    if well:
        return told.fail(f"{well[0].name} ended with 0, as if training were done", HIDDEN, violation=True)
    said = {pod.uid: line for pod in left if (line := _said(evidence, pod.uid, loss.change.t)) is not None}
    mute = [pod for pod in left if pod.uid not in said and evidence.logs(pod.uid)]
    if mute:
        return told.fail(f"{mute[0].name} ended and its log does not say that it waited in vain", SILENT)
    unread = [pod.name for pod in left if pod.uid not in said]
    if unread:
        return told.inconclusive(f"the log of {wording.listed(unread)} was not read")
    last = max((pod.finished or 0.0) for pod in left) - loss.change.t
    words, key = next(iter(said.values()))
    text = f"no step was taken, and the last gave up {last:.1f} s after the loss (join_timeout {wait:g} s): "
    return told.passed(f"{text}{wording.short(words, 120)}", evidence=(loss.change.key, key))


def _said(evidence: Evidence, uid: str, since: float) -> tuple[str, str] | None:
    """Return the last line after a time in which a worker says that it waited in vain, and its key."""
    found = [
        (text.strip(), line.key)
        for line in evidence.logs(uid)
        if line.t > since and WAITED.search(text := str(line.data.get("line") or ""))
    ]
    return found[-1] if found else None
