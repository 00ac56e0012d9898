"""ELA-004: a rank that fails again and again is started again only so often as its agents may.

Attempts are counted by what ranks say when they start, in each pod. A job that still restarts, one whose pods are
started again beyond its agents, one that ended for another reason and one that hides its failure are told apart.
"""

import math

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Training
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a rank that always fails is started at most max-restarts times again in each agent; then its agent ends with a "
    "non-zero exit code, the others end or are ended with the job, and no pod is started again; a job that meets at "
    "the same store notices nothing"
)
MORE = Cause(
    "something starts pods or containers again beyond the agents, each with all its restarts: the Job's backoffLimit, "
    "restartPolicy Always or OnFailure, or the controller of a training operator",
    "leave restarts to one layer: --max-restarts with restartPolicy Never and backoffLimit 0, or the controller with "
    "--max-restarts=0",
)
OTHER_LIMIT = Cause(
    "the agents were given another number than --max-restarts says, such as one by the environment (PET_MAX_RESTARTS)",
    "look at the arguments and the environment of the launcher in the pod",
)
STILL = Cause(
    "the failing rank is not noticed, or its agent waits for others without a bound",
    "look at the last lines of the named pods; set join_timeout in --rdzv-conf",
)
SAME_ID = Cause(
    "two jobs meet at one store under the same id (--rdzv-id, `none` by default), so that what ends one ends the other",
    'give every job its own id, --rdzv-id="${JOB_ID}" (its name or uid)',
)
HIDDEN = Cause(
    "the exit code is lost: a wrapper around torchrun swallows it, or the node reports another",
    "make torchrun the container's first process (`exec torchrun`)",
)


@subjects.judge
def bounded(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-004."""
    story, missing = shared.training(evidence, given, "storm")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    allowed = subjects.count(given, "attempts")
    crashes = story.crashed
    counts = attempts(story)
    most = max(counts.values(), default=0)
    number = Number(
        "attempts of one agent",
        float(most),
        "",
        None if allowed is None else float(allowed),
        "--max-restarts and one",
    )
    ended = [pod.finished for pod in story.gang.pods if pod.finished is not None]
    seconds = Number(
        "time from the first failure to the end of the job",
        round(max(ended) - crashes[0].t, 3) if ended and crashes else None,
        "s",
        origin=shared.MEASURED,
    )
    told = wording.Findings(
        REQUIRED,
        story.gang,
        start=f"{story.gang.title}: ",
        evidence=tuple(word.key for word in crashes)[:8],
        numbers=(number, seconds),
    )
    if not crashes or allowed is None:
        return told.inconclusive("no rank was seen to fail")
    fault = _too_often(story, counts, allowed, told)
    if fault is not None:
        return fault
    pods = story.gang.pods
    open_ = [pod for pod in pods if pod.finished is None and not (ended and pod.going(evidence.end))]
    if open_:
        waited = evidence.end - crashes[0].t
        text = f"{open_[0].name} has not ended {waited:.1f} s after the first failure"
        late = subjects.timed_out(evidence, crashes[0].t) is not None
        return told.fail(text, STILL, violation=True) if late else told.inconclusive(text)
    over = [pod for pod in pods if pod.finished is not None]
    untold = [pod for pod in over if not pod.exit_codes]
    if untold:
        return told.inconclusive(f"nobody reported the exit code of {untold[0].where}")
    well = [pod for pod in over if all(code == 0 for _, code in pod.exit_codes)]
    if well:
        return told.fail(f"{well[0].name} ended with 0 although a rank failed", HIDDEN, violation=True)
    if most < allowed:
        return told.inconclusive(
            f"it ended after {most} of {allowed} attempts: what ended it was not its restarts"
        )
    failed = {uid: sum(word.uid == uid for word in crashes) for uid in {word.uid for word in crashes}}
    if len(failed) > 1:
        return told.inconclusive(f"{len(failed)} members failed, and not one alone each time")
    if max(failed.values()) < most:
        return told.inconclusive(f"a rank was seen to fail {len(crashes)} times, and started {most} times")
    beside = _beside(evidence, given, story, told)
    if beside is not None:
        return beside
    word = crashes[-1]
    pod = story.pod(word.uid)
    text = (
        f"rank {word.number('rank')} in {pod.where if pod else word.pod} failed {len(crashes)} times; no agent made "
        f"more than {most} of {allowed} attempts, and {wording.count(len(ended), 'agent')} ended with an error"
    )
    return shared.unless_contradicted(story, given, told.passed(text))


def _beside(
    evidence: Evidence, given: subjects.Given, story: Training, told: wording.Findings
) -> Finding | None:
    """Return what befell the job that meets at the same store, None where it went on in its one world."""
    if not subjects.roles(evidence, given).get("neighbour"):
        return None
    other, missing = shared.training(evidence, given, "neighbour")
    if other is None or not other.worlds:
        return told.inconclusive(f"of the job beside it: {missing or 'no world formed'}")
    end = max((pod.finished for pod in story.gang.pods if pod.finished is not None), default=evidence.end)
    if len(other.worlds) > 1:
        return told.fail(f"{other.gang.title}, at the same store, formed anew", SAME_ID, violation=True)
    ended = elastic.ended(other, [pod.uid for pod in other.gang.pods], 0.0)
    if ended:
        pod, code = ended[0]
        return told.inconclusive(
            f"{pod.where}, at the same store, ended with {'?' if code is None else code}"
        )
    last = max((step.t for step in other.worlds[0].steps), default=0.0)
    if last < end:
        return told.inconclusive(
            f"{other.gang.title}, at the same store, was not seen to go on after the end"
        )
    return None


def attempts(story: Training) -> dict[str, int]:
    """Return how often the rank of each pod was started, by uid: as often as it said so, or as its agent counts."""
    counts: dict[str, int] = {}
    for word in story.began:
        counts[word.uid] = counts.get(word.uid, 0) + 1
    return {uid: max(count, story.restarts(uid, math.inf) + 1) for uid, count in counts.items()}


def _containers_again(pod: PodStory) -> int:
    """Return how often containers of a pod were started again, which no agent does."""
    own = containers.own_names(pod.last)
    return sum(
        fields.number(status, "restartCount") or 0
        for status in fields.items(pod.last, "status", "containerStatuses")
        if not own or str(status.get("name")) in own
    )


def _too_often(
    story: Training, counts: dict[str, int], allowed: int, told: wording.Findings
) -> Finding | None:
    """Return the failure of a job that is started more often than it may be, None for none."""
    for uid, count in counts.items():
        pod = story.pod(uid)
        if count > allowed and pod is not None:
            limits = {word.number("most") for word in story.began if word.uid == uid}
            cause = MORE if limits == {allowed - 1} else OTHER_LIMIT
            return told.fail(
                f"the rank in {pod.where} was started {count} times, allowed are {allowed}",
                cause,
                violation=True,
            )
    for pod in story.gang.pods:
        times = _containers_again(pod)
        if times:
            text = f"the container of {pod.where} was started again {wording.count(times, 'time')}"
            return told.fail(text, MORE, violation=True)
    slots: dict[str, list[str]] = {}
    for pod in story.gang.pods:
        slots.setdefault(pod.slot, []).append(pod.name)
    again = next((names for names in slots.values() if len(names) > 1), None)
    if again is not None:
        text = f"the member of {again[0]} was made again as {again[1]} after its agents had given up"
        return told.fail(text, MORE, violation=True)
    return None
