"""TRN-006: a later replicated Job of a JobSet has no pod before the earlier one is as far as it must be.

What decides is read from the watch of pods, in which nothing can overtake anything: when a pod was made, became ready,
or had succeeded. Whether a Job was Complete is another watch, which may be late by a little.
"""

from collections.abc import Iterable, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import jobsets, volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.jobsets import Child, Replicated
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.judge.trainer import jobset_cases
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "with startupPolicy InOrder, or dependsOn Ready, a replicated Job has no pod before all pods of the earlier one "
    "are ready; with dependsOn Complete none before the earlier one has completed; then it gets its pods"
)
ROLES: Mapping[str, str] = {"in-order": "Ready", "after-ready": "Ready", "after-complete": "Complete"}
"""Role of a set -> what its later Job waits for."""
IGNORED = Cause(
    "JobSet's controller did not follow the order: its version does not know the field, or somebody else resumed the "
    "Jobs",
    "read spec.startupPolicy and spec.replicatedJobs[].dependsOn of the JobSet as stored (kubectl get jobset -o yaml): "
    "an older CRD drops dependsOn",
)
STANDS = Cause(
    "JobSet's controller did not go on: it stands still, or counts the earlier Job's pods as not ready",
    "compare status.replicatedJobsStatus with the pods (kubectl get jobset -o yaml; kubectl get pods), and read the "
    "controller's log",
)


@subjects.judge
def in_order(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge TRN-006."""

    def one(gang: Gang, made: Sequence[Child]) -> Finding | str:
        return _judged(evidence, given, gang, made)

    return jobset_cases.decide(evidence, given, tuple(ROLES), one, REQUIRED)


def _judged(evidence: Evidence, given: subjects.Given, gang: Gang, made: Sequence[Child]) -> Finding | str:
    job = gang.job
    assert job is not None  # noqa: S101 (narrowed by jobset_cases)
    by_name = {one.name: one for one in jobsets.replicated(job)}
    edges = [(by_name.get(name), later, how) for later in by_name.values() for name, how in later.after]
    if not edges:
        return f"{gang.title} asks for no order"
    if any(child.attempt for child in made):
        return f"{gang.title} was restarted: which attempt a pod waited for is not judged"
    if evidence.gaps("Pod", job.created, volcano_jobs.end_of_story(evidence)):
        return f"{gang.title}: its pods were not watched all the time"
    parts = []
    for earlier, later, how in edges:
        if earlier is None or how not in ("Ready", "Complete"):
            return f"{gang.title}: what {later.name} waits for is not known"
        asked = jobset_cases.asked_by_role(evidence, given, gang, ROLES)
        if asked and how != asked:
            return f"{gang.title}: {later.name} is stored as waiting for {how}, {asked} was asked for"
        part = _edge(evidence, given, gang, (earlier, later, how))
        if how == "Complete" and not isinstance(part, str):
            jobs = [child for child in made if child.replicated == earlier.name]
            part = _after_jobs(gang, jobs, _pods(made, later), part)
        if isinstance(part, str):
            return part
        parts.append(part)
    return job_cases.together(parts, REQUIRED, every=True)


def _edge(
    evidence: Evidence, given: subjects.Given, gang: Gang, edge: tuple[Replicated, Replicated, str]
) -> Finding | str:
    earlier, later, how = edge
    made = jobsets.children(evidence, gang)
    before, after = _pods(made, earlier), _pods(made, later)
    mute = [pod.name for pod in before if how == "Ready" and not _says_ready(evidence, pod)]
    if mute:
        return f"{gang.title}: {wording.listed(mute, 3)} ran and never said whether it was ready"
    reached = _reached(evidence, before, how)
    first = min((pod.created for pod in after), default=None)
    word = "ready" if how == "Ready" else "complete"
    keys = (*(key for _, key in sorted(reached.values())[-2:]), *(pod.keys["created"] for pod in after[:2]))
    whole = len(reached) >= earlier.size > 0
    t = max((at for at, _ in reached.values()), default=0.0) if whole else None
    margin = None if first is None or t is None else first - t
    number = Number(
        f"{later.name} of {gang.name} after {earlier.name} was {word}", margin, "s", 0.0, REQUIRED
    )
    found = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))
    told = f"{gang.title}: {len(reached)} of {earlier.size} pods of {earlier.name} {word}"
    grain = subjects.of(evidence, given).grain
    if first is not None and (t is None or first < t - grain):
        when = f"t={t:.2f} s" if t is not None else "no time"
        text = f"{told} at {when}, and {later.name} had a pod at t={first:.2f} s"
        return found.fail(text, IGNORED, violation=True, where=wording.places(after))
    if t is None:
        why = job_cases.expired(evidence, gang)
        return f"{told}: the order was not put to the test" + (f" (waited for {why})" if why else "")
    if first is None:
        limit = job_cases.due(evidence, given, gang, t)
        if volcano_jobs.end_of_story(evidence) >= limit:
            return found.fail(f"{told} at t={t:.2f} s, and {later.name} got no pod", STANDS)
        return f"{told}; the evidence ends before {later.name} had to get pods"
    if len(reached) > earlier.size:
        return f"{told}: it has more pods than it asks for"
    if how == "Ready" and not _at_once(evidence, before, earlier.size, first):
        return (
            f"{told}, but never all at once before {later.name} had a pod: which of them counted is not known"
        )
    if first > job_cases.due(evidence, given, gang, t):
        return found.fail(f"{told}, and {later.name} got pods only {first - t:.1f} s later", STANDS)
    if len({pod.slot for pod in after}) < later.size:
        return f"{told}; {later.name} has {len({pod.slot for pod in after})} of {later.size} pods"
    return found.passed(f"{told}, then {later.name} got its pods {first - t:.2f} s later")


def _after_jobs(
    gang: Gang, jobs: Sequence[Child], after: Sequence[PodStory], found: Finding
) -> Finding | str:
    """Return a finding on an order by pods, unless the earlier Jobs tell of their end otherwise than their pods."""
    if found.verdict is not Verdict.PASS:
        return found
    done = [child.complete for child in jobs if child.complete is not None and child.failed is None]
    if len(done) < len(jobs) or not jobs:
        return f"{gang.title}: not each Job that others wait for was seen Complete, whatever its pods say"
    t, key = max(done)
    first = min((pod.created for pod in after), default=t)
    if first < t - jobset_cases.RECEIPT:
        text = f"{gang.title}: the Jobs to wait for were Complete at t={t:.2f} s, the next had a pod at t={first:.2f} s"
        of = wording.Findings(REQUIRED, gang, evidence=(key,))
        return of.fail(text, IGNORED, violation=True, where=wording.places(after))
    return found


def _at_once(evidence: Evidence, pods: Iterable[PodStory], size: int, until: float) -> bool:
    """Report whether so many places were ready (or had succeeded) at one time before the next Job had a pod."""
    slots = {pod.uid: pod.slot for pod in pods}
    lines = sorted(
        (line for uid in slots for line in evidence.history(uid)), key=lambda line: (line.t, line.index)
    )
    ready: set[str] = set()
    for line in lines:
        if line.t > until:
            break
        if fields.text(line.object, "status", "phase") == "Succeeded" or (
            line.type != "DELETED" and _is(line, "Ready")
        ):
            ready.add(line.uid)
        else:
            ready.discard(line.uid)
        if len({slots[uid] for uid in ready}) >= size:
            return True
    return False


def _pods(made: Sequence[Child], one: Replicated) -> tuple[PodStory, ...]:
    mine = [pod for child in made if child.replicated == one.name for pod in child.pods]
    return tuple(sorted(mine, key=lambda pod: pod.created))


def _reached(evidence: Evidence, pods: Iterable[PodStory], how: str) -> dict[str, tuple[float, str]]:
    """Return when each place of a replicated Job was first ready (or had succeeded), with the key of the line."""
    found: dict[str, tuple[float, str]] = {}
    for pod in pods:
        for line in evidence.history(pod.uid):
            if pod.slot not in found and _is(line, how):
                found[pod.slot] = (line.t, line.key)
    return found


def _says_ready(evidence: Evidence, pod: PodStory) -> bool:
    """Report whether a pod ever said whether it was ready, once it ran."""
    return any(
        fields.text(fields.condition(line.object, "Ready"), "status") for line in evidence.history(pod.uid)
    )


def _is(line: Line, how: str) -> bool:
    if fields.text(line.object, "status", "phase") == "Succeeded":
        return True
    return how == "Ready" and fields.text(fields.condition(line.object, "Ready"), "status") == "True"
