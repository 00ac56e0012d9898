"""Quota that is held for nobody, for whatever kind of job: admitted and never started, evicted and kept.

Kueue holds TrainJobs, JobSets and others as it holds Jobs. Of those a Workload and its owner tell the same story, also
where no pod was ever made.
"""

import dataclasses
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.objects.pods import pods
from pytest_gpucluster.evidence.scheduling import kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Reserved, Workload
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

START_WITHIN = 30.0
"""Seconds from a Workload's admission within which its job's suspension is lifted (recorded with Jobs: below 1 s)."""

NEVER_STARTED = Cause(
    "a Workload is admitted but its job is never resumed: its controller does not lift the suspension, or "
    "something suspends it again",
    "look at the events of the job and of its Workload, at Kueue's integration of that kind "
    "(integrations.frameworks), at "
    "the versions of Kueue and of the operator, and at managedFields to find who sets spec.suspend",
)
KEPT = Cause(
    "the Workload is marked as evicted, but its quota is kept",
    "check whether the job is suspended and its pods are gone; delete the Workload to free the quota, and update "
    "Kueue (kueue #14811)",
)


@dataclasses.dataclass(frozen=True)
class Idle:
    """A Workload that holds quota for nobody.

    Attributes:
        owner: the newest line of its job.
        since: since when, in seconds of the evidence.
        seconds: for how long, to the end of the evidence.
    """

    workload: Workload
    held: Reserved
    owner: Line
    since: float
    seconds: float
    said: Said | None

    @property
    def title(self) -> str:
        """Return its job as texts name it."""
        return f"{self.owner.kind}/{self.owner.name}"

    @property
    def amounts(self) -> str:
        """Return the quota that it holds, in words."""
        return wording.listed(
            [f"{quantities.format_quantity(n)} {r}" for r, n in sorted(self.held.amounts.items())], 4
        )


def owner_of(evidence: Evidence, workload: Workload) -> Line | None:
    """Return the newest line of the job that a Workload stands for: by uid, else by the name that Kueue gives it."""
    named: Line | None = None
    for kind in evidence.kinds:
        if kind in ("Pod", "Event", "Node", kueue_workloads.WORKLOAD):
            continue
        for uid in evidence.uids(kind):
            line = evidence.history(uid)[-1]
            if (
                line.type == "DELETED"
                or fields.text(line.object, "metadata", "namespace") != workload.namespace
            ):
                continue
            if workload.job_uid and line.uid == workload.job_uid:
                return line
            prefix = f"{kind.partition('.')[0].lower()}-{line.name}-"
            if not workload.job_uid and workload.name.startswith(prefix):
                named = line
    return named


def _has_pods(evidence: Evidence, owner: Line) -> bool:
    """Report whether pods of a job were seen: its own, or of what it made (whose names begin with its own)."""
    space = fields.text(owner.object, "metadata", "namespace")
    return any(
        pod.deleted is None and pod.namespace == space
        and (fields.owner(pod.last).get("uid") == owner.uid or pod.name.startswith(f"{owner.name}-"))
        for pod in pods(evidence)
    )  # fmt: skip


def _idle(evidence: Evidence) -> Iterator[tuple[Workload, Reserved, Line]]:
    """Yield Workloads that hold quota when the evidence ends, whose job is suspended and has no pod."""
    for workload in kueue_workloads.workloads(evidence):
        held = workload.holding(evidence.end)
        owner = owner_of(evidence, workload) if held is not None else None
        if held is None or owner is None or fields.sub(owner.object, "spec").get("suspend") is not True:
            continue
        if not _has_pods(evidence, owner):
            yield workload, held, owner


def never_started(evidence: Evidence, given: subjects.Given) -> Idle | None:
    """Return a Workload that has been admitted for long while its job stays suspended, None where there is none."""
    grain = subjects.of(evidence, given).grain
    for workload, held, owner in _idle(evidence):
        if held.admitted is None or fields.condition(workload.last, "Evicted").get("status") == "True":
            continue
        still = evidence.history(owner.uid)
        since = max([held.admitted, *(line.t for line in still[1:] if not _suspended(line))])
        seconds = evidence.end - since
        if seconds > START_WITHIN + grain:
            return Idle(workload, held, owner, since, seconds, _complaint(evidence, owner))
    return None


def _suspended(line: Line) -> bool:
    return fields.sub(line.object, "spec").get("suspend") is True


def kept(evidence: Evidence, grace: float) -> Idle | None:
    """Return a Workload that is Evicted, whose job has no pod, and that still holds its quota; None where none does."""
    for workload, held, owner in _idle(evidence):
        told = next(iter(reversed(workload.when("Evicted"))), None)
        if told is None or fields.condition(workload.last, "Evicted").get("status") != "True":
            continue
        seconds = evidence.end - told.t
        if seconds > grace:
            return Idle(workload, held, owner, told.t, seconds, _complaint(evidence, owner))
    return None


def _complaint(evidence: Evidence, owner: Line) -> Said | None:
    """Return the last Warning about a job."""
    space = fields.text(owner.object, "metadata", "namespace")
    said = owners.said_about(evidence, owner.kind.partition(".")[0], space, owner.name, owner.uid)
    return next((one for one in reversed(said) if one.type == "Warning"), None)


def finding_of_start(idle: Idle, required: str) -> Finding:
    """Return the violation that an admitted job was never started."""
    why = f"; {idle.said.reporter} says {idle.said.reason}: {idle.said.message}" if idle.said else ""
    text = (
        f"the Workload {idle.workload.name} is Admitted since t={idle.since:.2f} s and its {idle.title} is still "
        f"suspended {idle.seconds:.0f} s later, without a pod: {idle.amounts} of ClusterQueue {idle.held.queue} "
        f"are held for no one{why}"
    )
    return _finding(idle, required, text, NEVER_STARTED, START_WITHIN)


def finding_of_kept(evidence: Evidence, idle: Idle, required: str, grace: float) -> Finding:
    """Return the violation that an evicted job's quota is kept."""
    waiting = [
        one.name for one in kueue_workloads.workloads(evidence)
        if one.deleted is None and one.finished is None and one.holding(evidence.end) is None
    ]  # fmt: skip
    text = (
        f"{idle.workload.name} is Evicted since t={idle.since:.2f} s with 0 pods, and {idle.seconds:.0f} s "
        f"later still holds "
        f"{idle.amounts} of ClusterQueue {idle.held.queue}"
    )
    text += f"; {wording.listed(waiting, 4)} wait{'s' if len(waiting) == 1 else ''}" if waiting else ""
    return _finding(idle, required, text, KEPT, grace)


def _finding(idle: Idle, required: str, text: str, cause: Cause, limit: float) -> Finding:
    space = f" -n {idle.workload.namespace}" if idle.workload.namespace else ""
    keys = (idle.held.key, idle.owner.key, *((idle.said.key,) if idle.said else ()))
    return wording.finding(
        Verdict.FAIL, required, text, violation=True, causes=(cause,), evidence=keys, currency="quota",
        where=(idle.title, f"{kueue_workloads.WORKLOAD}/{idle.workload.name}"),
        numbers=(Number("held for nobody", idle.seconds, "s", limit),),
        repeat=(f"kubectl describe workloads.kueue.x-k8s.io{space} {idle.workload.name}",),
    )  # fmt: skip
