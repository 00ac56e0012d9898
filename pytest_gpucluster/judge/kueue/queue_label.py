"""KUE-008: a Job without queue label runs outside of the quota; one that names an unknown LocalQueue is held."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.evidence.scheduling import half_placement, kueue, kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Refusal, Verdict

REQUIRED = (
    "a Job without the label kueue.x-k8s.io/queue-name runs outside the quota, with no Workload; one that "
    "names an unknown LocalQueue stays suspended without a pod, and its Workload reports this"
)
NO_LABEL = Cause(
    "the Job does not carry the label kueue.x-k8s.io/queue-name: Kueue leaves it alone, and no quota bounds it",
    "put the label on the Job (metadata.labels), make a LocalQueue called `default` in the namespace, or set "
    "manageJobsWithoutQueueName: true in kueue-manager-config",
)
UNKNOWN = Cause(
    "there is no LocalQueue of that name in the Job's namespace",
    "name one that exists (kubectl get localqueues), or create it; the waiting Job is admitted as soon as it exists",
)
MANAGES_ALL = Cause(
    "this Kueue manages Jobs without a queue label too (manageJobsWithoutQueueName), or labels them itself",
    "nothing then runs outside the quota; the contrast does not apply to this cluster",
)


@subjects.judge
def label_decides(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-008."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    bare = shared.named(evidence, given, "unlabelled")
    lost = shared.named(evidence, given, "unknown-queue")
    arranged = bare is not None
    if bare is None or lost is None:
        there = bool(kueue_workloads.workloads(evidence) or evidence.of_kind(kueue_workloads.LOCAL_QUEUE))
        bare = tuple(job for job in kueue.held(evidence) if there and not job.queue and not job.workloads)
        lost = tuple(job for job in shared.labelled(evidence) if _unknown(evidence, job))
    findings = [
        *(_outside(evidence, given, job) for job in bare[:1]),
        *(_held(evidence, given, job) for job in lost[:1]),
    ]
    if not findings or (arranged and len(findings) < 2):
        return shared.nothing(evidence, REQUIRED, "Job without a queue label, or with an unknown queue")
    worst = wording.gravest(findings)
    if worst.verdict is not Verdict.PASS or len(findings) < 2:
        return worst
    return wording.finding(
        Verdict.PASS, REQUIRED, "; ".join(one.observed for one in findings), bare[0].gang, currency="quota",
        causes=(NO_LABEL, UNKNOWN), evidence=tuple(key for one in findings for key in one.evidence),
        refusal=findings[1].refusal, repeat=tuple(line for one in findings for line in one.repeat),
    )  # fmt: skip


def _unknown(evidence: Evidence, job: Held) -> bool:
    """Report whether a Job names a LocalQueue that is not there, as the list of them shows.

    The queue of one that was over when it was first seen may have been deleted since.
    """
    if half_placement.was_over(job.gang) or not node_status.listed(evidence, kueue_workloads.LOCAL_QUEUE):
        return False
    return not any(
        line.name == job.queue
        and line.object.get("metadata", {}).get("namespace") in (None, job.gang.namespace)
        for line in evidence.of_kind(kueue_workloads.LOCAL_QUEUE)
    )


def _outside(evidence: Evidence, given: subjects.Given, job: Held) -> Finding:
    """Judge the Job without a label."""
    span = shared.together(job)
    if job.workloads or job.suspended[0][1] or job.queue:
        how = f"has the label {job.queue!r} now" if job.queue else "was suspended"
        if job.workloads:
            how += f" and has the Workload {job.workloads[0].name}"
        managed = given.get("manages_all") is True
        text = f"{job.gang.title} was submitted without a queue label and {how}: Kueue manages it anyway"
        return wording.finding(
            Verdict.PASS if managed else Verdict.FAIL, REQUIRED, text, job.gang, causes=(MANAGES_ALL,),
            evidence=(job.suspended[0][2],), repeat=shared.repeat(job), currency="quota",
        )  # fmt: skip
    if span is None:
        expired = subjects.timed_out(evidence, job.created)
        most = max(gen.most_held for gen in job.gang.generations)
        text = (
            f"{job.gang.title} has no queue label and did not run: {wording.part(most, job.gang.size)} bound"
        )
        verdict = Verdict.INCONCLUSIVE if expired is None else Verdict.FAIL
        return wording.finding(
            verdict, REQUIRED, text, job.gang, causes=(wording.NO_ROOM,), repeat=shared.repeat(job),
            evidence=(expired[1],) if expired else (),
        )  # fmt: skip
    unseen = shared.gap(evidence, job.created, span[0], kueue_workloads.WORKLOAD, "Pod")
    if unseen:
        text = f"{job.gang.title} has no queue label, but {unseen}: whether Kueue managed it is not known"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, job.gang)
    text = (
        f"{job.gang.title} has no queue label: no Workload, and {job.gang.size} pods ran from t={span[0]:.2f} s "
        "outside the quota"
    )
    return wording.finding(
        Verdict.PASS, REQUIRED, text, job.gang, causes=(NO_LABEL,), evidence=(job.suspended[0][2],),
        repeat=shared.repeat(job), currency="quota",
    )  # fmt: skip


def _held(evidence: Evidence, given: subjects.Given, job: Held) -> Finding:
    """Judge the Job that names an unknown LocalQueue."""
    repeat = shared.repeat(job)
    pods, loose = job.gang.pods, job.loose
    if pods or loose or job.reserved:
        text = f"{job.gang.title} names the unknown LocalQueue {job.queue!r}, but " + (
            f"{wording.count(len(pods), 'pod')} of it were made" if pods else "it was not held"
        )
        keys = (loose[2],) if loose else tuple(pod.keys["created"] for pod in pods[:6])
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, job.gang, violation=True, causes=(shared.NO_WEBHOOK,), evidence=keys,
            repeat=repeat, currency="quota",
        )  # fmt: skip
    said = [one for workload in job.workloads for one in workload.refusals]
    # Inadmissible is also what a stopped or broken queue makes of a Job: the text tells them apart.
    named = [one for one in said if "LocalQueue" in one.message and job.queue in one.message]
    end = min(job.gone, evidence.end)
    limits = subjects.of(evidence, given)
    if not named:
        expired = subjects.timed_out(evidence, job.created)
        verdict = Verdict.FAIL if expired is not None else Verdict.INCONCLUSIVE
        text = f"{job.gang.title} is held, but nothing says that its LocalQueue is unknown: {shared.refusals(job)}"
        causes = shared.silence(job)
        return wording.finding(
            verdict, REQUIRED, text, job.gang, causes=causes, repeat=repeat, currency="quota"
        )
    last = named[-1]
    unseen = shared.gap(evidence, job.created, end, "Pod", names.BATCH_JOB)
    if unseen or end - job.created < limits.window - limits.grain:
        why = (
            unseen
            or f"it was watched for {end - job.created:.1f} s, less than the window of {limits.window:.2f} s"
        )
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{job.gang.title} is held, but {why}", job.gang
        )
    text = (
        f"{job.gang.title} names an unknown LocalQueue: suspended for {end - job.created:.1f} s without a pod; "
        f"{last.reason}: {wording.short(last.message)}"
    )
    refusal = Refusal("kueue", last.reporter, last.obj, last.reason, "enqueue", last.message)
    return wording.finding(
        Verdict.PASS, REQUIRED, text, job.gang, causes=(UNKNOWN,), evidence=(last.key,), refusal=refusal, repeat=repeat,
        currency="quota",
    )  # fmt: skip
