"""KUE-009, the contrast: quota above capacity half-places a gang, and that is seen."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import kueue_quota
from pytest_gpucluster.evidence.scheduling.half_placement import Half
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang.half_placement import halves, lasting
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "if the quota exceeds what the nodes have, plain Kueue starts part of a gang, and the suite sees it"
)

ABOVE = Cause(
    "the quota promises more than the nodes have: Kueue admits by quota alone, and the default scheduler places pod "
    "by pod",
    "set nominalQuota to no more than what the nodes have allocatable; or let Kueue look at nodes (topology-aware "
    "scheduling), or give the Job a native gang; and set waitForPodsReady, which evicts gangs that stay half started",
)


@subjects.judge
def half_placed_by_quota_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-009."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    named = shared.named(evidence, given, "subject")
    jobs = [job for job in (named if named is not None else shared.labelled(evidence)) if job.gang.size > 1]
    admitted = [job for job in jobs if job.reserved]
    if not admitted:
        text = f"{jobs[0].gang.title} was not admitted: {shared.refusals(jobs[0])}" if jobs else ""
        if text:
            return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, jobs[0].gang)
        return shared.nothing(evidence, REQUIRED, "admitted gang")
    found = lasting(evidence, given, halves(evidence, [job.gang for job in admitted]))
    shown = [
        (half, job)
        for half in found
        for job in admitted
        if half.gang is job.gang and _promised(job, half, subjects.of(evidence, given).tolerance)
    ]
    if not shown:
        job = admitted[0]
        most = max(gen.most_held for gen in job.gang.generations)
        text = f"{job.gang.title} was not half placed: {wording.part(most, job.gang.size)} bound"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{text}; the control does not show the failure", job.gang
        )
    half, job = shown[0]
    text = f"shown: {wording.describe_half(half)}; {_quota(evidence, job)}; fix: {ABOVE.fix}"
    return wording.finding(
        Verdict.PASS, REQUIRED, text, job.gang, causes=(ABOVE,), repeat=shared.repeat(job),
        evidence=(job.reserved[0].key, half.key), currency="quota",
        numbers=(Number("pods bound", half.held, "pods", job.gang.size, "parallelism"),),
    )  # fmt: skip


def _promised(job: Held, half: Half, tolerance: float) -> bool:
    """Report whether quota for the whole gang was held while it was half placed, for long enough.

    The quota is given back when the Job ends; pods go only when their kubelets have ended them.
    """
    both = (
        min(half.end, held.end) - max(half.start, held.start)
        for held in job.reserved
        if held.count >= job.gang.size
    )
    return max(both, default=0.0) > tolerance


def _quota(evidence: Evidence, job: Held) -> str:
    """Return how much was promised."""
    held = job.reserved[0]
    limit = kueue_quota.quota(evidence, held.queue, held.start)
    scarce = [resource for resource in held.amounts if "/" in resource] or list(held.amounts)
    promised = shared.amounts(dict(held.amounts), scarce)
    of = shared.amounts(dict(limit.nominal), scarce) if limit is not None else "a quota that was not seen"
    return f"quota was held for all of it ({promised} of {of})"
