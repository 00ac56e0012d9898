"""What the judges of Kueue share: whom they judge, what it means that Kueue does not answer, causes, kubectl lines."""

from collections.abc import Iterable
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import kueue, kueue_quota, kueue_workloads, volcano_jobs
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.judge import presuppositions, subjects, wording
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Verdict

KINDS = (
    kueue_workloads.CLUSTER_QUEUE,
    kueue_workloads.LOCAL_QUEUE,
    kueue_workloads.WORKLOAD,
    kueue_workloads.FLAVOR,
)

NOT_INSTALLED = Cause(
    "the profile declares Kueue, but Kueue is missing or only partly installed",
    "install Kueue (its CRDs, its controller manager and its webhook configurations), or take `kueue` out of the "
    "profile",
)
MANAGER_DOWN = Cause(
    "Kueue's controller manager does not run or does not answer",
    "check it (kubectl -n kueue-system get pods; its log) and its certificates",
)
NO_WEBHOOK = Cause(
    "Kueue's webhooks are absent, so nothing suspends a Job when it is created: it runs until the controller "
    "sees it",
    "install the webhook configurations of Kueue (kubectl get mutatingwebhookconfigurations), with `batch/job` among "
    "its integrations.frameworks; until then submit Jobs with suspend: true",
)
NOT_MANAGED = Cause(
    "Kueue does not manage the Job: it does not know Jobs of this namespace or this kind",
    "check `integrations.frameworks` and `managedJobsNamespaceSelector` in kueue-manager-config",
)


def named(evidence: Evidence, given: subjects.Given, *roles: str) -> tuple[Held, ...] | None:
    """Return the batch Jobs that play one of these roles; None where no role is known at all: a recording."""
    known = subjects.roles(evidence, given)
    if not known:
        return None
    members = [member for role in roles for member in known.get(role, ())]
    return tuple(job for job in kueue.held(evidence) if subjects.plays(job.gang, members))


def labelled(evidence: Evidence) -> tuple[Held, ...]:
    """Return the batch Jobs that name a LocalQueue."""
    return tuple(job for job in kueue.held(evidence) if job.queue)


def over(evidence: Evidence, job: Held) -> list[str]:
    """Return the resources of which a Job asks for more than its queue ever had to give, [] where it fits.

    The largest quota counts that was seen while the Job was there.
    """
    name = kueue_quota.cluster_queue_of(evidence, job)
    found = kueue_quota.quota(evidence, name, job.gone, most=True) if name else None
    return [] if found is None else found.short(job.asks)


def unusable(evidence: Evidence, given: subjects.Given, required: str) -> Finding | None:
    """Return why nothing could be tried: Kueue is declared, and absent, silent or without its webhooks. A failure."""
    if not subjects.of(evidence, given).arranged and not _asked(evidence):
        return None
    absent = [line for line in _asked(evidence) if fields.number(line.data, "code") == 404]
    if absent:
        kinds = sorted({str(line.data.get("case")).removeprefix("api:") for line in absent})
        text = f"the API does not serve {wording.listed(kinds)}, although the profile declares Kueue"
        return _absent(required, text, NOT_INSTALLED, absent[0])
    for note in evidence.notes("refused"):
        code, kind = fields.number(note.data, "code") or 0, str(note.data.get("kind"))
        if code >= 500:
            text = f"{kind}/{note.data.get('name')} was refused with HTTP {code}: its webhook does not answer"
            return _absent(required, text, MANAGER_DOWN, note)
        if code == 404 and kind in KINDS:
            text = f"{kind}/{note.data.get('name')} was refused with HTTP 404: the API does not serve it"
            return _absent(required, text, NOT_INSTALLED, note)
    for note in evidence.notes("timed-out"):
        if str(note.data.get("what")).endswith("is Active"):
            text = (
                f"waited {note.data.get('seconds')} s in vain until {note.data.get('what')}{_why(evidence)}"
            )
            return _absent(required, text, MANAGER_DOWN, note)
    return None


def _asked(evidence: Evidence) -> list[Line]:
    return [
        line
        for line in evidence.responses()
        if str(line.data.get("case")).removeprefix("api:") in KINDS
        and str(line.data.get("case")) != str(line.data.get("case")).removeprefix("api:")
    ]


def _why(evidence: Evidence) -> str:
    """Return what the queues said of themselves when they were last seen."""
    for kind in (kueue_workloads.CLUSTER_QUEUE, kueue_workloads.LOCAL_QUEUE):
        for line in reversed(evidence.of_kind(kind)):
            active = fields.condition(line.object, "Active")
            if active.get("status") == "False":
                return f" ({kind}/{line.name}: {active.get('reason')}, {active.get('message')})"
            return f" ({kind}/{line.name} has no condition Active)" if not active else ""
    return ""


def _absent(required: str, text: str, cause: Cause, line: Line) -> Finding:
    return wording.finding(
        Verdict.FAIL, required, text, violation=True, causes=(cause,), evidence=(line.key,),
        repeat=("kubectl api-resources --api-group=kueue.x-k8s.io", "kubectl -n kueue-system get pods"),
    )  # fmt: skip


def nothing(evidence: Evidence, required: str, what: str) -> Finding:
    """Return that there was nothing to judge."""
    return wording.finding(Verdict.INCONCLUSIVE, required, subjects.nothing(evidence, what))


def gap(evidence: Evidence, start: float, end: float, *kinds: str) -> str:
    """Return why "never" cannot be said of a span, "" where it was watched without a gap."""
    for kind in kinds:
        for begin, stop in evidence.gaps(kind, start, end):
            return f"{kind} was not watched from t={begin:.2f} s to {stop:.2f} s"
    return ""


def story_end(evidence: Evidence, job: Held) -> float:
    """Return when a Job's story ends: with the scenario or the evidence, or when the Job itself was taken away."""
    return min(job.gone, volcano_jobs.end_of_story(evidence))


def refusals(job: Held) -> str:
    """Return why quota was not reserved for a Job, as its Workload said last."""
    said = [one for workload in job.workloads for one in workload.refusals]
    if said:
        return f"{said[-1].reason}: {wording.short(said[-1].message)}"
    return "its Workload says nothing" if job.workloads else "Kueue made no Workload for it"


def silence(job: Held) -> tuple[Cause, ...]:
    """Return the likely causes where Kueue said nothing about a Job."""
    return () if any(w.refusals or w.reserved for w in job.workloads) else (MANAGER_DOWN, NOT_MANAGED)


def amounts(wanted: dict[str, Fraction], only: Iterable[str] = ()) -> str:
    """Return amounts of resources as text."""
    chosen = [one for one in wanted if not only or one in set(only)]
    return ", ".join(f"{quantities.format_quantity(wanted[one])} {one}" for one in chosen)


def repeat(job: Held) -> tuple[str, ...]:
    """Return kubectl lines that show a Job, its Workload and its queue."""
    space = f" -n {job.gang.namespace}" if job.gang.namespace else ""
    lines = [
        f"kubectl get job{space} {job.gang.name} -o yaml",
        f"kubectl get pods{space} -l batch.kubernetes.io/job-name={job.gang.name} -o wide",
    ]
    lines += [f"kubectl describe workloads.kueue.x-k8s.io{space} {one.name}" for one in job.workloads[-1:]]
    if job.queue:
        lines.append(f"kubectl describe localqueue{space} {job.queue}")
    return tuple(lines)


def together(job: Held) -> tuple[float, float] | None:
    """Return the first span in which all pods of a Job were seen Running at once."""
    return next((span for gen in job.gang.generations if (span := gen.together()) is not None), None)


def pods_can_run(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether no pod was kept from running by its image or kubelet; where none was made nothing stands on it."""
    state = presuppositions.pods_ran(evidence, given)
    return (
        state
        if state.held is not None
        else wording.presupposed(state.name, held=True, observed=state.observed)
    )


def quota_within_capacity(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the ClusterQueues that admitted something promise no more than nodes ever offered.

    Plain Kueue admits by quota alone: over what the nodes have it promised nobody that admitted pods all run.
    """
    del given
    name = "quota is no larger than what the nodes have"
    offered: dict[str, dict[str, Fraction]] = {}
    for line in evidence.of_kind("Node"):
        most = offered.setdefault(line.name, {})
        for resource, amount in fields.sub(line.object, "status", "allocatable").items():
            most[resource] = max(most.get(resource, Fraction(0)), fields.quantity(amount))
    if not offered or not all(offered.values()):
        return wording.presupposed(
            name, held=True, observed="the nodes' resources were not seen: nothing contradicts it"
        )
    admitting = {
        fields.text(line.object, "status", "admission", "clusterQueue")
        for line in evidence.of_kind(kueue_workloads.WORKLOAD)
    }
    for queue in sorted(admitting - {""}):
        limit = kueue_quota.quota(evidence, queue)
        for resource, amount in sorted((limit.nominal if limit else {}).items()):
            there = sum((most.get(resource, Fraction(0)) for most in offered.values()), Fraction(0))
            # Processors and memory are often given without a limit; what gangs fight for are devices.
            if limit is not None and "/" in resource and amount > there:
                text = (
                    f"ClusterQueue {queue}: nominalQuota {quantities.format_quantity(amount)} {resource}, "
                    f"allocatable {quantities.format_quantity(there)} ({wording.listed(sorted(offered), 6)})"
                )
                return wording.presupposed(name, held=False, observed=text, evidence=(limit.key,))
    return wording.presupposed(
        name, held=True, observed=f"{len(admitting - {''})} queues, {len(offered)} nodes"
    )


def control_ran(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether a Job that fits ran on the queue that refused another."""
    name = "a fitting Job ran on the same queue"
    refused = named(evidence, given, "over-quota")
    large = refused if refused is not None else tuple(j for j in labelled(evidence) if over(evidence, j))
    if not large:
        return wording.presupposed(name, held=None, observed="no Job above its queue's quota in the evidence")
    tried = ""
    for job in labelled(evidence):
        same = kueue_quota.cluster_queue_of(evidence, job) == kueue_quota.cluster_queue_of(evidence, large[0])
        if job in large or not same:
            continue
        span = together(job)
        if span is not None and span[1] > large[0].created:
            text = f"{job.gang.name} ran whole at t={span[0]:.2f} s"
            return wording.presupposed(
                name, held=True, observed=text, evidence=(job.gang.job.key,) if job.gang.job else ()
            )
        tried = f"{job.gang.name} did not run: {refusals(job)}"
    expired = subjects.timed_out(evidence) is not None
    held = False if tried and expired else None
    return wording.presupposed(name, held=held, observed=tried or "no other Job on that queue")
