"""Judges of the lifecycle family: how a Job ends when its master does."""

import dataclasses

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import COMPLETED
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

COMPLETES = (
    "when the task with TaskCompleted -> CompleteJob (of a batch Job: the index of its successPolicy) ends with 0, "
    "deletion of every other member is requested, all are gone after their grace period, and the Job is Completed"
)
LINGERS = (
    "without TaskCompleted -> CompleteJob (of a batch Job: a successPolicy) the other members keep running after the "
    "master has ended"
)

FIRST, OTHERS = "first", "others"
"""What stands for tasks in an Indexed Job: its first member, and the others."""

ACT_WITHIN = 10.0
"""Seconds in which the controllers act on a completed task where no budget is given; recorded: 0.03 to 0.4 s."""

POLICY = Cause(
    "no policy tells Volcano to end the Job when the master ends",
    "give the master task `policies: [{event: TaskCompleted, action: CompleteJob}]`",
)
SUCCESS_POLICY = Cause(
    "nothing tells Kubernetes to end the Job when the first member ends",
    "give the Indexed Job `successPolicy: {rules: [{succeededIndexes: '0', succeededCount: 1}]}` (Kubernetes 1.33 and "
    "later)",
)
JOB_CONTROLLER = Cause(
    "the Job controller did not act on the successPolicy",
    "check kube-controller-manager and its log, and that the API server is of 1.33 or later (an older one drops the "
    "field)",
)
CONTROLLERS = Cause(
    "the controllers did not act on TaskCompleted",
    "check vc-controller-manager and its log, and that the policy is on the task that ends",
)


@dataclasses.dataclass(frozen=True)
class Ended:
    """A task of a Job all of whose pods ended with 0 while pods of other tasks were there.

    Attributes:
        t: when the last pod of the task was seen Succeeded.
        others: pods of other tasks that existed then and had not finished.
        policy: the task, or the Job, has TaskCompleted -> CompleteJob; None where the evidence does not say.
    """

    gang: Gang
    task: str
    t: float
    pods: tuple[PodStory, ...]
    others: tuple[PodStory, ...]
    policy: bool | None


def _completes(policies: list[fields.Object]) -> bool:
    return any(
        policy.get("action") == "CompleteJob"
        and "TaskCompleted" in (policy.get("event"), *(policy.get("events") or ()))
        for policy in policies
    )


def policy_of(gang: Gang, task: str) -> bool | None:
    """Return whether the end of a task completes the Job; None where the Job's tasks are not in the evidence."""
    if gang.job is None:
        return None
    if gang.job.kind == names.BATCH_JOB:
        return gang.job.led and task == FIRST
    if not gang.job.tasks:
        return None
    if _completes(fields.items(gang.job.last, "spec", "policies")):
        return True
    return any(
        one.get("name") == task and _completes(fields.items(one, "policies")) for one in gang.job.tasks
    )


def ended_tasks(gang: Gang) -> list[Ended]:
    """Return the tasks that ended with 0 while others ran, by time."""
    by_task: dict[str, list[PodStory]] = {}
    for pod in gang.pods:
        task = _task_of(gang, pod)
        if task:
            by_task.setdefault(task, []).append(pod)
    replicas = {
        str(t.get("name")): fields.number(t, "replicas") or 0 for t in (gang.job.tasks if gang.job else [])
    }
    found = []
    for task, mine in by_task.items():
        done = [
            p
            for p in mine
            if p.finished is not None and p.phase == "Succeeded" and not any(c for _, c in p.exit_codes)
        ]
        if not done or len({p.slot for p in done}) < replicas.get(task, 1):
            continue
        t = max(p.finished or 0.0 for p in done)
        others = tuple(
            p for name, pods in by_task.items() if name != task for p in pods
            if p.created <= t and not p.going(t) and (p.finished is None or p.finished > t)
        )  # fmt: skip
        found.append(Ended(gang, task, t, tuple(done), others, policy_of(gang, task)))
    return sorted(found, key=lambda one: one.t)


def _task_of(gang: Gang, pod: PodStory) -> str:
    if gang.kind != names.BATCH_JOB:
        return pod.task
    return FIRST if pod.slot == "index 0" else OTHERS if pod.slot.startswith("index ") else ""


def _jobs(evidence: Evidence, given: subjects.Given) -> tuple[Gang, ...]:
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.everyone(evidence)
    return tuple(gang for gang in gangs if gang.kind in (names.VC_JOB, names.BATCH_JOB))


def _cause(gang: Gang, of_volcano: Cause, of_kubernetes: Cause) -> Cause:
    return of_kubernetes if gang.kind == names.BATCH_JOB else of_volcano


@subjects.judge
def completes_with_policy(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-001."""
    jobs = _jobs(evidence, given)
    if not jobs:
        return wording.finding(Verdict.INCONCLUSIVE, COMPLETES, subjects.nothing(evidence, "Job"))
    arranged = subjects.of(evidence, given).arranged
    findings: list[Finding] = []
    for gang in jobs:
        acted = bool(gang.job and gang.job.phase_time("Completing") is not None)
        findings += [
            _completed(evidence, given, one)
            for one in ended_tasks(gang)
            if one.others and (one.policy or (one.policy is None and acted))
        ]
    if findings:
        return wording.telling(findings)
    with_policy = [gang for gang in jobs if _any_policy(gang)]
    if not with_policy:
        what = (
            "successPolicy for its first member"
            if jobs[0].kind == names.BATCH_JOB
            else ("TaskCompleted -> CompleteJob policy")
        )
        text = f"{jobs[0].title} has no {what}"
        cause = _cause(jobs[0], POLICY, SUCCESS_POLICY)
        return wording.finding(Verdict.INCONCLUSIVE, COMPLETES, text, jobs[0], causes=(cause,))
    gang = with_policy[0]
    expired = subjects.timed_out(evidence) if arranged else None
    if expired and not any(p.phase == "Succeeded" for p in gang.pods):
        text = f"no task of {gang.title} ended with 0 (waited for {expired[0]}): the policy was not tested"
        return wording.finding(Verdict.INCONCLUSIVE, COMPLETES, text, gang)
    text = f"no task of {gang.title} with the policy ended with 0 while another member was still running"
    return wording.finding(Verdict.INCONCLUSIVE, COMPLETES, text, gang)


def _any_policy(gang: Gang) -> bool:
    if gang.job is None:
        return False
    tasks = gang.job.tasks
    if gang.job.kind == names.BATCH_JOB:
        return gang.job.led
    return _completes(fields.items(gang.job.last, "spec", "policies")) or any(
        _completes(fields.items(task, "policies")) for task in tasks
    )


def _completed(evidence: Evidence, given: subjects.Given, one: Ended) -> Finding:
    budget = subjects.seconds(given, "complete", "finish") or ACT_WITHIN
    until = _due(evidence, given, one, budget)
    master = wording.listed([pod.name for pod in one.pods], 2)
    start = f"{master} ended with 0 at t={one.t:.2f} s"
    alone = tuple(pod for pod in one.others if volcano_jobs.left(pod) is None or _before(pod))
    asked = {
        pod.name: volcano_jobs.left(pod) for pod in one.others if pod not in alone or pod.finished is None
    }
    keys = (*(pod.keys["finished"] for pod in one.pods[:2]), *_end_keys(one.others))
    times = [t - one.t for t in asked.values() if t is not None]
    number = Number("deletion asked after", max(times, default=None), "s", budget, "budget to complete")
    found = wording.Findings(
        COMPLETES,
        one.gang,
        start=f"{start}; ",
        where=wording.places(one.others),
        evidence=keys,
        numbers=(number,),
    )

    ran_on = [pod.name for pod in alone if pod.finished is not None and pod.finished > until]
    idle = [name for name, t in asked.items() if t is None or t > until] + ran_on
    if idle and evidence.end >= until:
        text = f"{wording.listed(idle, 4)} left running {evidence.end - one.t:.1f} s later, no deletion requested"
        cause = _cause(one.gang, CONTROLLERS, JOB_CONTROLLER)
        return found.fail(text, cause, violation=True)
    if idle:
        return found.inconclusive(f"the evidence ends before deletion of {wording.listed(idle, 4)} was due")
    if not asked:
        # Ranks of one job often end together; those that did are no test of what ends the others.
        text = f"{wording.listed([pod.name for pod in alone], 4)} ended without a request"
        return found.inconclusive(f"{text}: the effect of the master's end on the others was not tested")
    return _gone(evidence, (one, until, budget), found)


def _before(pod: PodStory) -> bool:
    """Report whether a pod had ended by itself before anybody asked for its deletion."""
    going = volcano_jobs.left(pod)
    return pod.finished is not None and (going is None or pod.finished < going)


def _due(evidence: Evidence, given: subjects.Given, one: Ended, budget: float) -> float:
    """Return by when deletion must have been asked for: the budget, a window after Completed, or an expired wait."""
    limits = subjects.of(evidence, given)
    due = [one.t + budget + limits.grain]
    completed = one.gang.job.completed if one.gang.job else None
    if completed is not None:
        due.append(completed + limits.window)
    due += [note.t for note in evidence.notes("timed-out") if note.t >= one.t]
    return min(due)


def _end_keys(pods: tuple[PodStory, ...]) -> tuple[str, ...]:
    found = [
        pod.keys[what] for pod in pods for what in ("deleting", "deleted", "finished") if what in pod.keys
    ]
    return tuple(found[:8])


def _gone(evidence: Evidence, at: tuple[Ended, float, float], found: wording.Findings) -> Finding:
    """Judge whether the members whose deletion was asked for are gone, and the Job Completed, each in its time.

    `at` is what ended, by when deletion had to be asked for, and the budget of the controllers.
    """
    one, until, budget = at
    late = job_cases.outlived(evidence, one.others, volcano_jobs.end_of_story(evidence))
    if late:
        pod, over = late[0]
        text = f"{pod.name} was there {over:.0f} s after its grace period of {pod.grace:.0f} s"
        return found.fail(text)
    left = [
        pod
        for pod in one.others
        if pod.deleted is None and pod.finished is None and pod.phase not in ("Succeeded", "Failed")
    ]
    gone = [pod.deleted for pod in one.others if pod.deleted is not None]
    grace = max((pod.grace for pod in one.others), default=0.0)
    text = f"deletion of {wording.listed([pod.name for pod in one.others], 4)} requested within {_longest(one):.1f} s"
    if gone:
        text += f", gone at t={max(gone):.0f} s (grace period {grace:.0f} s)"
    job = one.gang.job
    if left:
        return found.inconclusive(
            f"{text}; {wording.listed([p.name for p in left], 4)} still terminating at the end",
        )
    if job is not None and job.phase in COMPLETED:
        ready = max([until, *gone])
        expired = subjects.timed_out(evidence, one.t, job.completed or 0.0)
        if (job.completed or 0.0) > ready + budget or expired:
            when = f"only {(job.completed or 0.0) - one.t:.1f} s after the master had ended"
            vain = f" (waited for {expired[0]})" if expired else ""
            return found.fail(f"{text}; the Job was {job.phase} {when}{vain}")
        return found.passed(f"{text}; Job {job.phase} at t={job.completed or 0.0:.2f} s")
    if job is not None and job.phase in ("Failed", "Aborted", "Terminated"):
        cause = _cause(one.gang, CONTROLLERS, JOB_CONTROLLER)
        return found.fail(f"{text}; but the Job ended {job.phase}", cause)
    expired = subjects.timed_out(evidence, one.t)
    if expired:
        return found.fail(f"{text}; the Job never became Completed (waited for {expired[0]})")
    return found.inconclusive(f"{text}; the Job was not seen Completed")


def _longest(one: Ended) -> float:
    """Return how long it took until the last of the others was asked to go, or went; those that stayed have none."""
    ends = ([t for t in (p.deleting, p.deleted, p.finished) if t is not None] for p in one.others)
    return max((min(times) - one.t for times in ends if times), default=0.0)


@subjects.judge
def lingers_without_policy_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-002: the control shows workers that outlive their master."""
    limits = subjects.of(evidence, given)
    jobs = _jobs(evidence, given)
    best: tuple[float, Ended] | None = None
    for gang in jobs:
        for one in ended_tasks(gang):
            if one.policy is not False or not one.others:
                continue
            stay = min(_stays(evidence, one, pod) for pod in one.others)
            if best is None or stay > best[0]:
                best = (stay, one)
    if best is None:
        text = "no task without the policy ended while other members ran"
        return wording.finding(Verdict.INCONCLUSIVE, LINGERS, text, jobs[0] if jobs else None)
    stay, one = best
    text = (
        f"{wording.listed([p.name for p in one.pods], 2)} ended with 0 at t={one.t:.2f} s; "
        f"{wording.listed([p.name for p in one.others], 4)} ran on for {stay:.1f} s, no deletion was requested"
    )
    gaps = evidence.gaps("Pod", one.t, one.t + stay)
    shown = stay >= limits.window and not gaps
    more = (
        ""
        if shown
        else f"; shorter than the window of {limits.window:.2f} s"
        if not gaps
        else "; gap in the watch"
    )
    return wording.finding(
        Verdict.PASS if shown else Verdict.INCONCLUSIVE,
        LINGERS,
        f"{'shown: ' if shown else ''}{text}{more}",
        one.gang,
        where=wording.places(one.others),
        causes=(_cause(one.gang, POLICY, SUCCESS_POLICY),),
        evidence=tuple(pod.keys["finished"] for pod in one.pods[:4]),
        numbers=(Number("lingered", stay, "s", limits.window, "three scheduler periods or the window"),),
    )


def _stays(evidence: Evidence, one: Ended, pod: PodStory) -> float:
    if pod.running is None:
        return 0.0
    ends = [t for t in (pod.finished, pod.deleting, pod.deleted) if t is not None and t > one.t]
    return min([*ends, evidence.end]) - one.t
