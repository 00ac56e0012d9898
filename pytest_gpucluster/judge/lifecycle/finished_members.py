"""LIFE-010: the work of a member that has succeeded is not done again when its pod is taken away."""

import dataclasses
from collections.abc import Sequence

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a member that has succeeded is not run again if its pod is deleted, collected or lost with its node while "
    "the Job goes on"
)

NO_MEMORY = Cause(
    "Volcano remembers a finished member only by its pod: without the pod it makes the member again",
    "keep finished pods until the Job has ended (no clean-up by hand, a high terminated-pod-gc-threshold), or "
    "run work that must not repeat as an Indexed batch Job, which records completed indexes",
)
FORGOTTEN = Cause(
    "the Job controller did not count the member before its pod was gone, or lost the count",
    "look at status.completedIndexes and status.succeeded of the Job, and at the finalizers of its pods "
    "(batch.kubernetes.io/job-tracking)",
)


@dataclasses.dataclass(frozen=True)
class Gone:
    """A pod that had succeeded and was taken away while its Job went on.

    Attributes:
        again: the pods that were made in its place afterwards.
        seen: seconds for which its absence was watched.
    """

    gang: Gang
    pod: PodStory
    t: float
    again: tuple[PodStory, ...]
    seen: float


def gone_members(evidence: Evidence, gang: Gang) -> list[Gone]:
    """Return the finished members of a Job that somebody took away while it went on."""
    stop = volcano_jobs.end_of_story(evidence)
    if gang.job is not None:
        ends = [
            t
            for t, name, _ in gang.job.phases
            if name in (*volcano_jobs.FINAL, "Complete", "Aborting", "Completing")
        ]
        stop = min([stop, *ends, *((gang.job.deleted,) if gang.job.deleted is not None else ())])
    found = []
    for pod in volcano_jobs.removals(evidence, gang):
        t = pod.deleted
        if t is None or t > stop or pod.finished is None or pod.phase != "Succeeded":
            continue
        again = tuple(
            p for p in gang.pods if p.slot == pod.slot and p.uid != pod.uid and p.created >= pod.finished
        )
        found.append(Gone(gang, pod, t, again, stop - t))
    return found


@subjects.judge
def not_run_again(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-010.

    Where a batch Job is the subject it decides, and what Volcano makes of the same is reported beside it; else the
    Jobs that are there decide.
    """
    known = subjects.roles(evidence, given)
    everyone = [g for g in subjects.everyone(evidence) if g.kind in (names.VC_JOB, names.BATCH_JOB)]
    judged = [g for g in everyone if subjects.plays(g, known.get("subject", ()))] or everyone
    beside = [g for g in everyone if subjects.plays(g, known.get("contrast", ()))]
    judged = [g for g in judged if g not in beside]
    found = [one for gang in judged for one in gone_members(evidence, gang)]
    if not found:
        text = (
            subjects.nothing(evidence, "Job")
            if not judged
            else (f"no succeeded member of {judged[0].title} was removed while the Job went on")
        )
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, judged[0] if judged else None)
    finding = job_cases.together([_judged(evidence, given, one) for one in found], REQUIRED, every=True)
    return _with_contrast(evidence, beside, finding)


def _judged(evidence: Evidence, given: subjects.Given, one: Gone) -> Finding:
    pod = one.pod
    start = f"{pod.name} of {one.gang.title} had ended with 0 and was removed at t={one.t:.2f} s"
    keys = tuple(pod.keys[what] for what in ("finished", "deleted")) + tuple(
        p.keys["created"] for p in one.again[:2]
    )
    number = Number(
        f"runs of {pod.slot}", 1 + len(one.again), "", 1, "a member that succeeded has done its work"
    )
    found = wording.Findings(REQUIRED, one.gang, start=f"{start}; ", evidence=keys, numbers=(number,))

    if one.again:
        cause = NO_MEMORY if one.gang.kind == names.VC_JOB else FORGOTTEN
        text = f"it was made again at t={one.again[0].created:.2f} s"
        return found.fail(text, cause, violation=True, where=wording.places(one.again))
    window = subjects.of(evidence, given).window
    if one.seen < window:
        return found.inconclusive(f"watched for {one.seen:.2f} s; the window is {window:.2f} s")
    if evidence.gaps("Pod", one.t, one.t + one.seen):
        return found.inconclusive("pods were not watched all the time")
    return found.passed(f"it was not made again for {one.seen:.1f} s")


def _with_contrast(evidence: Evidence, beside: Sequence[Gang], finding: Finding) -> Finding:
    """Report what Volcano made of the same beside the finding; it does not decide."""
    told, numbers, causes = [], [], list(finding.causes)
    for one in (gone for gang in beside for gone in gone_members(evidence, gang)):
        runs = 1 + len(one.again)
        numbers.append(
            Number(f"runs of {one.pod.slot} (Volcano)", runs, "", None, "reported only, does not decide")
        )
        if one.again:
            told.append(
                f"reported: {one.pod.name} of {one.gang.title} was made again: Volcano does not remember it"
            )
            causes.append(NO_MEMORY)
        else:
            told.append(f"reported: {one.pod.name} of {one.gang.title} was not made again either")
    if not told:
        return finding
    return dataclasses.replace(
        finding,
        observed="; ".join([finding.observed, *told]),
        numbers=(*finding.numbers, *numbers),
        causes=tuple(dict.fromkeys(causes)),
    )
