"""KUE-001: a labelled Job is held until it is admitted, admitted as a whole, and then runs whole."""

from pytest_gpucluster.evidence.log import order
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.kueue import shared, started
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a Job that names its queue, submitted without suspend, is stored suspended and has no pod before its "
    "Workload is admitted; it is admitted with all its pods, and they then run together"
)
PARTIAL = Cause(
    "the Job was admitted with fewer pods than it asks for, although it does not allow fewer",
    "compare podSetAssignments of the Workload with the Job's parallelism; update Kueue",
)
HALF = Cause(
    "the quota promises more than the nodes have, or other work holds the promised resources",
    "lower nominalQuota to what the nodes have allocatable (INV-005), and let nothing run outside of the quota",
)


@subjects.judge
def runs_once_admitted(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-001."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    named = shared.named(evidence, given, "subject")
    idle = started.never_started(evidence, given) if named is None else None
    if idle is not None:
        return started.finding_of_start(idle, REQUIRED)
    jobs = named if named is not None else _fitting(evidence)
    if not jobs:
        return shared.nothing(evidence, REQUIRED, "Job with a queue whose quota has room for it")
    findings = [_judge(evidence, given, job, arranged=named is not None) for job in jobs]
    return wording.gravest(findings)


def _fitting(evidence: Evidence) -> tuple[Held, ...]:
    return tuple(job for job in shared.labelled(evidence) if job.workloads and not shared.over(evidence, job))


def _judge(evidence: Evidence, given: subjects.Given, job: Held, *, arranged: bool) -> Finding:
    violation = _early(job) or _in_part(job)
    if violation is not None:
        return violation
    if job.undecided:
        text = (
            f"whether {job.undecided} came before or after the quota of {job.gang.title} is not known: the "
            "watches of two kinds are not in step, and no version orders them"
        )
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, job.gang, evidence=(job.undecided,))
    expired = subjects.timed_out(evidence, job.created) if arranged else None
    admitted = job.admitted
    if admitted is None:
        text = f"{job.gang.title} was not admitted: {shared.refusals(job)}"
        return _missed(job, text, expired, shared.silence(job))
    span = shared.together(job)
    if span is None:
        most = max(gen.most_held for gen in job.gang.generations)
        text = (
            f"{job.gang.title} was admitted at t={admitted:.2f} s, and its pods were not seen to run together: "
            f"{wording.part(most, job.gang.size)} were bound"
        )
        return _missed(job, text, expired, (HALF,) if most < job.gang.size else ())
    unseen = shared.gap(evidence, job.created, admitted, "Pod")
    if unseen:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{unseen}, before {job.gang.title} was admitted"
        )
    late = span[0] - admitted
    if late > subjects.placed_within(given, "bind", "start"):
        text = f"{job.gang.title} was admitted at t={admitted:.2f} s, and its pods ran together only {late:.0f} s later"
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, job.gang, causes=(HALF,), currency="quota",
            evidence=(job.reserved[0].key,), repeat=shared.repeat(job),
        )  # fmt: skip
    how = "stored suspended" if job.fresh else "suspended when first seen"
    text = (
        f"{job.gang.title} was {how}, admitted whole at t={admitted:.2f} s, and "
        f"{wording.count(job.gang.size, 'pod')} ran "
        f"together from t={span[0]:.2f} s"
    )
    return wording.finding(
        Verdict.PASS, REQUIRED, text, job.gang, repeat=shared.repeat(job),
        evidence=(job.suspended[0][2], job.reserved[0].key), currency="quota",
        numbers=(
            Number("held until admitted", admitted - job.created, "s", origin="creation to condition Admitted"),
            Number("admitted until all run", span[0] - admitted, "s", origin="condition Admitted to the last Running"),
        ),
    )  # fmt: skip


def _early(job: Held) -> Finding | None:
    """Return the violation: the Job was not held, or pods of it were made while no quota was."""
    early = unreserved(job)
    loose = job.loose
    if not early and loose is None:
        return None
    ran = [pod for pod in early if pod.running is not None]
    parts = [f"{job.gang.title} was not held"]
    if loose is not None:
        parts.append(f"seen with suspend false at t={loose[0]:.2f} s, without quota")
    if early:
        parts.append(f"{wording.count(len(early), 'pod')} made without quota, {len(ran)} of them ran")
    return wording.finding(
        Verdict.FAIL, REQUIRED, "; ".join(parts), job.gang, violation=True, repeat=shared.repeat(job),
        where=wording.places(early) or (job.gang.title,), causes=(shared.NO_WEBHOOK, shared.NOT_MANAGED),
        evidence=(*((loose[2],) if loose else ()), *(pod.keys["created"] for pod in early[:6])), currency="quota",
    )  # fmt: skip


def unreserved(job: Held) -> list[PodStory]:
    """Return the pods of a Job that were made while no quota was held for it."""
    return [
        pod
        for pod in job.gang.pods
        if job.covered(pod.created, order.first(pod.keys["created"], job.versions)) is False
    ]


def _in_part(job: Held) -> Finding | None:
    """Return the violation: admitted with fewer pods than it asked for, which never said that fewer will do."""
    short = next((one for one in job.reserved if one.count < one.least), None)
    if short is None:
        return None
    return wording.finding(
        Verdict.FAIL, REQUIRED, f"{job.gang.title} was admitted with {short.count} of {short.least} pods", job.gang,
        violation=True, causes=(PARTIAL,), evidence=(short.key,), repeat=shared.repeat(job), currency="quota",
    )  # fmt: skip


def _missed(job: Held, text: str, expired: tuple[str, str] | None, causes: tuple[Cause, ...]) -> Finding:
    said = [one.key for workload in job.workloads for one in workload.refusals][-2:]
    if expired is None:
        return wording.finding(
            Verdict.INCONCLUSIVE,
            REQUIRED,
            text,
            job.gang,
            evidence=tuple(said),
            repeat=shared.repeat(job),
        )
    return wording.finding(
        Verdict.FAIL, REQUIRED, f"{text}; waited for {expired[0]}", job.gang, causes=causes, currency="quota",
        evidence=(*said, expired[1]), repeat=shared.repeat(job),
    )  # fmt: skip
