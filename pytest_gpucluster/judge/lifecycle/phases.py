"""LIFE-008: the phases of a Job follow each other as documented."""

from collections.abc import Mapping

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import completion, job_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Verdict

REQUIRED = "every change of the Job's phase is documented, and the last phase is Completed"

STARTED: frozenset[str] = frozenset({"Restarting", "Aborting", "Terminating", "Completing"})

AFTER: Mapping[str, frozenset[str]] = {
    "": frozenset({"Pending"}),
    "Pending": STARTED | {"Running"},
    # Back to Pending when pods that were lost are made again.
    "Running": STARTED | {"Pending", "Completed", "Failed"},
    "Restarting": frozenset({"Pending", "Failed"}),
    # Restarting by ResumeJob.
    "Aborting": frozenset({"Aborted", "Restarting"}),
    "Aborted": frozenset({"Restarting"}),
    "Completing": frozenset({"Completed"}),
    "Terminating": frozenset({"Terminated"}),
    "Completed": frozenset(),
    "Failed": frozenset(),
    "Terminated": frozenset(),
}
"""Phase -> phases that may follow it (Volcano v1.11 to v1.15)."""

UNDOCUMENTED = Cause(
    "the controllers wrote a phase that the documented state machine does not allow there",
    "check the version of vc-controller-manager, and that only one of them runs (leader election)",
)
NOT_COMPLETED = Cause(
    "the Job should have completed and did not",
    "look at the log of vc-controller-manager and at `kubectl describe vcjob`",
)


@subjects.judge
def documented_path(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-008."""
    known = subjects.cast(evidence, given, "subject")
    gangs = tuple(
        g for g in (known if known is not None else subjects.everyone(evidence)) if g.kind == names.VC_JOB
    )
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence, "Volcano Job"))
    return job_cases.together([_path(evidence, gang) for gang in gangs], REQUIRED, every=known is not None)


def _path(evidence: Evidence, gang: Gang) -> Finding:
    stop = volcano_jobs.end_of_story(evidence)
    phases = [one for one in (gang.job.phases if gang.job else ()) if one[0] <= stop]
    if not phases:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{gang.title} was not seen in any phase", gang
        )
    shown = " -> ".join(name for _, name, _ in phases)
    keys = tuple(key for _, _, key in phases)
    start = gang.job.created if gang.job else phases[0][0]
    gaps = evidence.gaps(names.VC_JOB, start, phases[-1][0])
    begun = _seen_from_the_start(evidence, gang)
    steps = list(zip(["" if begun else phases[0][1], *(name for _, name, _ in phases)], phases, strict=False))
    for before, (t, name, key) in steps:
        if before != name and name not in AFTER.get(before, frozenset()):
            text = f"{gang.title} went from {before or 'its creation'} to {name} at t={t:.2f} s ({shown})"
            if gaps or evidence.clock == "object":
                text += "; it was not watched all the time, so phases may have been missed"
                return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=(key,))
            return wording.finding(
                Verdict.FAIL, REQUIRED, text, gang, evidence=(key,), violation=True, causes=(UNDOCUMENTED,)
            )
    last = phases[-1][1]
    if gaps:
        text = f"{gang.title}: {shown}; the Job was not watched all the time"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    if not begun and phases[0][1] != "Pending":
        text = f"{gang.title}: {shown}; it was not watched from its creation"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    if last == "Completed":
        return wording.finding(Verdict.PASS, REQUIRED, f"{gang.title}: {shown}", gang, evidence=keys)
    return _not_completed(evidence, gang, shown, keys)


def _seen_from_the_start(evidence: Evidence, gang: Gang) -> bool:
    lines = evidence.history(gang.uid)
    return bool(lines) and lines[0].type == "ADDED" and not lines[0].object.get("status")


def _not_completed(evidence: Evidence, gang: Gang, shown: str, keys: tuple[str, ...]) -> Finding:
    """Judge a Job whose path is documented and did not end Completed: did it have a reason to?"""
    why = job_cases.expired(evidence, gang) or (subjects.timed_out(evidence) or ("",))[0]
    policy = [one for one in completion.ended_tasks(gang) if one.policy]
    if policy and (why or shown.rpartition(" ")[2] in volcano_jobs.FINAL):
        text = f"{gang.title}: {shown}, although the task {policy[0].task} ended with 0 and completes the Job"
        text += f" (waited for {why})" if why else ""
        return wording.finding(Verdict.FAIL, REQUIRED, text, gang, evidence=keys, causes=(NOT_COMPLETED,))
    text = f"{gang.title}: {shown}; nothing happened that completes it"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
