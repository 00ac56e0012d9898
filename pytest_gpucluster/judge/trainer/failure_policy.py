"""TRN-005: the failure policy of a JobSet restarts the whole set, at most maxRestarts times, and then fails it."""

import math
import re
from collections.abc import Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import jobsets, volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.jobsets import Child
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.judge.trainer import jobset_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "each failure of a Job makes all Jobs of the JobSet anew, at most maxRestarts times; the next failure, or a rule "
    "FailJobSet, makes it Failed with nothing left running"
)
ROLES = ("bounded", "recovers", "fails-at-once")
UNCOUNTED = Cause(
    "JobSet's controller restarts the set without counting, or counts restarts that a rule "
    "(RestartJobSetAndIgnoreMaxRestarts) leaves out",
    "compare spec.failurePolicy as stored with status.restarts and status.restartsCountTowardsMax (kubectl get jobset "
    "-o yaml), and the version of jobset-controller-manager",
)
IGNORED = Cause(
    "JobSet's controller did not follow spec.failurePolicy: it stands still, it may not delete or create Jobs, or "
    "something holds the old Jobs (finalizers, pods that do not end)",
    "read the controller's log (kubectl -n jobset-system logs deployment/jobset-controller-manager), and what holds "
    "the Jobs of the earlier attempt (kubectl get jobs,pods -l jobset.sigs.k8s.io/jobset-name=NAME)",
)

UNREAD = "a pattern that cannot be read"
"""Instead of an action: which rule fits depends on a pattern that is none to us; the controller reads RE2."""

FAIL, RESTART, UNBOUNDED = "FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"


@subjects.judge
def restarts_bounded(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge TRN-005."""

    def one(gang: Gang, made: Sequence[Child]) -> Finding | str:
        return _Life(evidence, given, gang, made).judged()

    return jobset_cases.decide(evidence, given, ROLES, one, REQUIRED)


def action(policy: fields.Object, failed: Sequence[Child]) -> str:
    """Return what a failure policy says of failed Jobs: the action of the first rule that fits one of them."""
    for rule in fields.items(policy, "rules"):
        if not all(_readable(each) for each in _listed(rule, "onJobFailureMessagePatterns")):
            return UNREAD
        if any(_fits(rule, child) for child in failed):
            return fields.text(rule, "action")
    return RESTART


def _listed(rule: fields.Object, key: str) -> list[str]:
    value: object = rule.get(key)
    return [str(each) for each in value] if isinstance(value, list) else []


def _readable(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _fits(rule: fields.Object, child: Child) -> bool:
    reasons, patterns, targets = (
        _listed(rule, key)
        for key in ("onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
    )
    message = fields.text(child.failure, "message")
    return (
        (not reasons or fields.text(child.failure, "reason") in reasons)
        and (not patterns or any(re.search(each, message) for each in patterns))
        and (not targets or child.replicated in targets)
    )


class _Life:
    """The attempts of one set, one after the other."""

    def __init__(self, evidence: Evidence, given: subjects.Given, gang: Gang, made: Sequence[Child]) -> None:
        assert gang.job is not None  # noqa: S101 (narrowed by jobset_cases)
        self._evidence, self._given, self._gang, self._made = evidence, given, gang, made
        self._job = gang.job
        self._policy = fields.sub(self._job.last, "spec", "failurePolicy")
        self._last = max(child.attempt or 0 for child in made)
        most = fields.number(self._policy, "maxRestarts")
        self._most = -1 if most is None else most
        number = Number(
            f"restarts of {gang.name}", self._last, "", self._most, "spec.failurePolicy.maxRestarts"
        )  # fmt: skip
        keys = (
            *(child.failed[1] for child in made if child.failed),
            *(child.job.key for child in made[:4]),
            *(key for _, _, key in self._job.phases),
        )
        self._found = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))
        self._counted = 0

    def judged(self) -> Finding | str:
        """Follow the attempts; return at the first that does not go on as it must, or at the end."""
        title = self._gang.title
        if self._most < 0:
            return f"{title} has no failure policy with maxRestarts"
        if self._evidence.gaps(names.BATCH_JOB, self._job.created, volcano_jobs.end_of_story(self._evidence)):
            return f"{title}: its Jobs were not watched all the time"
        parts: list[str] = []
        for attempt in range(self._last + 1):
            jobs = jobsets.of_attempt(self._made, attempt)
            wrong = self._incomplete(attempt, jobs)
            if wrong is not None:
                return wrong
            failed = [child for child in jobs if child.failed is not None]
            if not failed:
                return self._unfailed(attempt, parts)
            first = min(failed, key=lambda child: child.failed or (0.0, ""))
            t = first.failed[0] if first.failed else 0.0
            does = action(self._policy, [first])
            told = f"{title}: attempt {attempt} failed (Job {first.job.name})"
            if action(self._policy, failed) != does:
                return f"{told}, and so did others: which of them the controller went by is not known"
            if does == FAIL or (does == RESTART and self._counted >= self._most):
                if attempt < self._last:
                    why = "a rule says FailJobSet" if does == FAIL else f"maxRestarts is {self._most}"
                    text = f"{told}, {why}, and it was restarted {wording.count(self._last, 'time')}"
                    return self._found.fail(text, UNCOUNTED, violation=True)
                return self._failed(t, told)
            if does not in (RESTART, UNBOUNDED):
                return f"{told}; what the rule {does!r} does is not known"
            self._counted += does == RESTART
            if attempt == self._last:
                return self._not_restarted(t, told)
            wrong = self._untimely(attempt + 1, t, told)
            if wrong is not None:
                return wrong
            parts.append(told)
        return f"{title}: no attempt was seen"

    def _incomplete(self, attempt: int, jobs: Sequence[Child]) -> Finding | str | None:
        """Return what is wrong with an attempt that lacks Jobs, or runs beside the one before it; None for nothing."""
        wanted = set(jobsets.job_names(self._job))
        lacks = sorted(wanted - {child.job.name for child in jobs})
        told = f"{self._gang.title}: attempt {attempt}"
        begun = min((child.job.created for child in jobs), default=None)
        if begun is None:
            return self._found.fail(
                f"{told} has no Job, and attempt {self._last} has", UNCOUNTED, violation=True
            )
        limit = job_cases.due(self._evidence, self._given, self._gang, begun)
        stop = volcano_jobs.end_of_story(self._evidence)
        if lacks:
            text = f"{told} lacks the Job {wording.listed(lacks, 3)}: the set was not made anew as a whole"
            # A set that ends meanwhile makes no more of its Jobs.
            ended = bool(self._job.phase) or attempt < self._last
            return self._found.fail(text, IGNORED) if stop >= limit or ended else text
        late = [
            pod
            for child in jobsets.of_attempt(self._made, attempt - 1)
            for pod in child.pods
            if min(job_cases.ended(self._evidence, pod), pod.deleting or float("inf")) > limit
        ]
        if late:
            text = (
                f"{told} began, and of the one before it goes on: {wording.listed([p.name for p in late], 3)}"
            )
            return self._found.fail(text, IGNORED, violation=stop >= limit, where=wording.places(late))
        return None

    def _untimely(self, attempt: int, t: float, told: str) -> Finding | None:
        """Return what is wrong with when an attempt was begun after the failure before it; None for nothing."""
        begun = min(
            (child.job.created for child in jobsets.of_attempt(self._made, attempt)), default=math.inf
        )
        # Both are told by the watch of Jobs, in which nothing can overtake anything.
        if begun < t - subjects.of(self._evidence, self._given).grain:
            text = f"{told} at t={t:.2f} s, and attempt {attempt} had begun {t - begun:.1f} s before"
            return self._found.fail(text, UNCOUNTED, violation=True)
        if math.isfinite(begun) and begun > job_cases.due(self._evidence, self._given, self._gang, t):
            return self._found.fail(f"{told}, and was made anew only {begun - t:.1f} s later", IGNORED)
        return None

    def _unfailed(self, attempt: int, parts: Sequence[str]) -> Finding | str:
        """Judge an attempt of which no Job failed: the last one, which has to come to a good end."""
        told = f"{self._gang.title}: no Job of attempt {attempt} was seen to fail"
        if attempt < self._last:
            return self._found.fail(f"{told}, and it was restarted", UNCOUNTED, violation=True)
        if not parts:
            return f"{told}: the failure policy was not put to the test"
        if self._job.phase == "Failed":
            return self._found.fail(f"{'; '.join(parts)}; {told}, and it is Failed", IGNORED, violation=True)
        done = [child.complete for child in jobsets.of_attempt(self._made, attempt) if child.complete]
        if not done:
            return f"{'; '.join(parts)}; no Job of attempt {attempt} came to an end"
        told = f"{'; '.join(parts)}; a Job of attempt {attempt} completed"
        return self._ended("Completed", (min(done)[0], told))

    def _failed(self, t: float, told: str) -> Finding:
        return self._ended("Failed", (t, f"{told} after {wording.count(self._counted, 'restart')}"))

    def _not_restarted(self, t: float, told: str) -> Finding | str:
        limit = job_cases.due(self._evidence, self._given, self._gang, t)
        stop = volcano_jobs.end_of_story(self._evidence)
        if self._job.phase == "Failed" or stop >= limit:
            state = self._job.phase or "not made anew"
            text = f"{told}, maxRestarts is {self._most}, and {stop - t:.1f} s later it is {state}"
            return self._found.fail(text, IGNORED, violation=self._job.phase == "Failed")
        return f"{told}; the evidence ends before it had to be made anew"

    def _ended(self, phase: str, at: tuple[float, str]) -> Finding:
        stated = fields.number(self._job.last, "status", "restarts") or 0
        end = jobset_cases.End(phase, *at, IGNORED)
        found = jobset_cases.ended_as(self._evidence, self._given, self._gang, end, self._found)
        if found.verdict == "pass" and stated != self._last:
            text = f"status.restarts of {self._gang.title} is {stated}, and {self._last} were seen"
            return self._found.inconclusive(text)
        towards = fields.number(self._job.last, "status", "restartsCountTowardsMax")
        if found.verdict == "pass" and towards not in (None, self._counted):
            text = f"status.restartsCountTowardsMax of {self._gang.title} is {towards}, not {self._counted}"
            return self._found.inconclusive(text)
        return found
