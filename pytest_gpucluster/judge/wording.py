"""Words of findings: counts, places, causes with their fixes, and how to look again with kubectl."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.scheduling import gangs, schedulers
from pytest_gpucluster.evidence.scheduling.half_placement import Half
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.plain import names, plurals, shortening
from pytest_gpucluster.plain import schedulers as known
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Refusal, Verdict

MANY = 8
"""How many places or keys a finding names before it says how many more there are."""

WRONG_SCHEDULER = Cause(
    "the pods carry schedulerName default-scheduler, which places pods one by one",
    "set spec.schedulerName to the gang scheduler (volcano) on the Job, and either leave it out of every task "
    "template or set the same there",
)
NO_GANG_PLUGIN = Cause(
    "the scheduler does not apply the gang rule: its configuration has no gang plugin, or it did not read the "
    "gang's PodGroup",
    "put the gang plugin into the first tier of volcano-scheduler.conf (kubectl -n volcano-system get configmap "
    "volcano-scheduler-configmap -o yaml) and restart or reload the scheduler",
)
NATIVE_NOT_ASKED = Cause(
    "the gang has no Kubernetes PodGroup: the feature gates GenericWorkload and WorkloadWithJob are off, so the "
    "gang fields are silently dropped, or nothing asked for a gang",
    "switch both gates on in kube-apiserver, kube-controller-manager and kube-scheduler, serve "
    "scheduling.k8s.io/v1beta1, and set spec.scheduling.schedulingPolicy.gang.minCount on the Job",
)
NATIVE_BASIC = Cause(
    "the PodGroup has the basic policy, by which pods are placed one at a time; its condition Scheduled proves nothing",
    "set spec.scheduling.schedulingPolicy.gang.minCount on the Job (or on the PodGroup): without it the Job "
    "controller makes a PodGroup of the basic policy",
)
NATIVE_NOT_HELD = Cause(
    "kube-scheduler does not enforce the PodGroup's minCount: its feature gate GenericWorkload is off, or its "
    "configuration has the plugin GangScheduling disabled",
    "start kube-scheduler with --feature-gates=GenericWorkload=true and without disabling the plugin GangScheduling",
)
QUOTA_ABOVE = Cause(
    "Kueue admits a Job by quota and ignores the nodes, so a gang is half placed if the quota exceeds the nodes' "
    "free resources; or the Job ran outside the quota, since Kueue's webhooks are absent",
    "make the ClusterQueue's nominalQuota no larger than what the nodes can give, check that Kueue's webhook "
    "configurations exist, or use topology-aware scheduling or a native gang (spec.scheduling of the Job)",
)
SCATTERED = Cause(
    "every pod belongs to a PodGroup of its own with minMember 1: the controller that made the pods did not "
    "declare the gang to the scheduler",
    "switch on gang scheduling in the operator (its gang scheduler option set to volcano), or submit a Volcano Job",
)
TOO_FEW_OFFERED = Cause(
    "no node that takes pods has so many GPUs to offer (allocatable), whether they are in use or not: nodes are "
    "smaller, GPUs are unhealthy, or the device plugin reports fewer",
    "compare capacity and allocatable of the nodes (kubectl describe nodes); see INV-002 and INV-008",
)
NO_ROOM = Cause(
    "the cluster has no room for all members at once",
    "free what occupies the nodes or the queue (kubectl describe nodes, kubectl describe queue), or add nodes; a Job "
    "of your own may be made smaller: fewer replicas, and with them minAvailable (of a native PodGroup minCount)",
)
SCHEDULER_SILENT = Cause(
    "no scheduler handles the PodGroup: it has no phase and no scheduler reported about it",
    "check that the Volcano scheduler runs and answers (kubectl -n volcano-system get pods; its log)",
)
NOT_INSTALLED = Cause(
    "the declared gang scheduler is missing or only partly installed",
    "install Volcano (its CRDs, vc-scheduler, vc-controller-manager and the admission with its webhook "
    "configurations) and wait for the queue `default` to be Open",
)


def gravest(findings: Iterable[Finding]) -> Finding:
    """Return the first of the findings that weigh most, where all must hold: one undecided leaves the row undecided."""
    order = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]
    return min(findings, key=lambda finding: order.index(finding.verdict))


def telling(findings: Iterable[Finding]) -> Finding:
    """Return the first of the findings that say most, where one that holds is enough beside undecided ones."""
    order = [Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE]
    return min(findings, key=lambda finding: order.index(finding.verdict))


def together(findings: Sequence[Finding]) -> Finding:
    """Return the gravest of findings that must all hold; where all hold, the first with what all of them tell."""
    worst = gravest(findings)
    if worst.verdict is not Verdict.PASS:
        return worst
    return dataclasses.replace(
        findings[0],
        observed="; ".join(finding.observed for finding in findings),
        numbers=tuple(number for finding in findings for number in finding.numbers),
        evidence=tuple(key for finding in findings for key in finding.evidence),
    )


def part(held: int, minimum: int) -> str:
    """Return `2 of 4`."""
    return f"{held} of {minimum}"


def listed(parts: Sequence[str], limit: int = MANY) -> str:
    """Return parts joined by commas; beyond a limit how many more there are."""
    shown = ", ".join(parts[:limit])
    return shown if len(parts) <= limit else f"{shown} and {len(parts) - limit} more"


def count(number: int, one: str, many: str = "") -> str:
    """Return `1 pod`, `2 pods`; `many` where the plural is not made with an s."""
    return plurals.count(number, one, many)


def places(pods: Iterable[Any], limit: int = MANY) -> tuple[str, ...]:
    """Return pods and their nodes for `where`."""
    return shown([pod.where for pod in pods], limit)


def places_of_half(half: Half) -> tuple[str, ...]:
    """Return where the members were while a gang was half placed: one that was bound later was nowhere then."""
    missing = [f"Pod/{pod.name}, not bound then" for pod in half.missing]
    return shown([*(pod.where for pod in half.members), *missing])


def shown(places: Sequence[str], limit: int = MANY) -> tuple[str, ...]:
    """Return places for `where`; beyond a limit how many more there are."""
    more = len(places) - limit
    return (*places[:limit], *((f"and {more} more",) if more > 0 else ()))


def repeat(gang: gangs.Gang) -> tuple[str, ...]:
    """Return kubectl lines that show a gang's pods and what stands for it."""
    space = f" -n {gang.namespace}" if gang.namespace else ""
    if gang.kind == names.VC_JOB:
        lines = [
            f"kubectl get pods{space} -l volcano.sh/job-name={gang.name} -o wide",
            f"kubectl get vcjob{space} {gang.name} -o yaml",
        ]
    elif gang.kind == names.BATCH_JOB:
        lines = [f"kubectl get pods{space} -l batch.kubernetes.io/job-name={gang.name} -o wide"]
    else:
        lines = [f"kubectl get pods{space} -o wide"]
    for group in gang.groups[-1:]:
        resource = "podgroups.scheduling.k8s.io" if group.native else "podgroups.scheduling.volcano.sh"
        lines.append(f"kubectl describe {resource}{space} {group.name}")
    return tuple(lines)


def _of_native(gang: gangs.Gang, declared: str) -> Cause | None:
    """Return why a gang that was to be a native one is not placed whole; None where no native gang was asked for."""
    group = next((one for one in reversed(gang.groups) if one.native), None)
    asked = declared == known.NATIVE or (gang.job is not None and gang.job.gang_minimum > 0)
    if group is not None and group.minimum:
        return NATIVE_NOT_HELD
    if group is not None and (asked or not declared):
        return NATIVE_BASIC
    return NATIVE_NOT_ASKED if asked and gang.scheduler == schedulers.DEFAULT_NAME else None


def cause_of_one_by_one(gang: gangs.Gang, declared: str = "") -> Cause:
    """Return why the members of a gang are placed one by one; `declared` is the scheduler that was to place it."""
    native = _of_native(gang, declared)
    if gang.kind == names.BATCH_JOB and gang.queue:
        return QUOTA_ABOVE
    if native is not None:
        return native
    if gang.scheduler == schedulers.DEFAULT_NAME and not subjects.gang_scheduler(gang):
        return WRONG_SCHEDULER
    return NO_GANG_PLUGIN


def causes_of_half(half: Half, declared: str = "") -> tuple[Cause, ...]:
    """Return why a gang is half placed, likeliest first; `declared` is the scheduler that was to place it."""
    gang = half.gang
    causes = [SCATTERED if gang.scattered else cause_of_one_by_one(gang, declared)]
    group = gang.groups[-1] if gang.groups else None
    if group is not None and group.minimum and group.minimum < half.generation.minimum:
        causes.insert(
            0,
            _short(group, half.generation.minimum),
        )
    return (*causes, NO_ROOM)


def _short(group: owners.GroupStory, needed: int) -> Cause:
    if group.native:
        return Cause(
            f"the PodGroup has minCount {group.minimum}, but the gang needs {needed}",
            "make minCount of the Job's spec.scheduling equal to its parallelism",
        )
    return Cause(
        f"the PodGroup has minMember {group.minimum}, but the gang needs {needed}",
        "make minAvailable of the Job equal to the sum of its replicas, or let the admission set it",
    )


def describe_half(half: Half) -> str:
    """Return one half placement in a few words, with numbers and nodes."""
    nodes = listed([f"{pod.name} on {pod.node}" for pod in half.members[:MANY]], 4)
    rest = (
        listed([pod.name for pod in half.missing], 4) if half.missing else "members that were never created"
    )
    over = "until the evidence ends" if half.open else f"until t={half.end:.2f} s"
    text = (
        f"{half.gang.title} had {part(half.held, half.generation.minimum)} members bound for {half.seconds:.1f} s "
        f"from t={half.start:.2f} s, {over}: {nodes}; not bound: {rest}"
    )
    if half.gang.scattered:
        text += "; its pods belong to PodGroups of minMember 1 made for each pod"
    return text


def refusal(gate: str, said: owners.Said, component: str) -> Refusal:
    """Return the attribution of a refusal at enqueue or placement."""
    return Refusal(component, said.reporter, said.obj, said.reason, gate, said.message)


def finding(
    verdict: Verdict, required: str, observed: str, gang: gangs.Gang | None = None, **more: Any
) -> Finding:
    """Return a finding; with a gang, its pods' places and kubectl lines are filled in."""
    if gang is not None:
        more.setdefault("where", places(gang.pods) or (gang.title,))
        more.setdefault("repeat", repeat(gang))
    return Finding(verdict=verdict, required=required, observed=observed, **more)


class Findings:
    """Builds the findings of one judgement: what is required, about whom, and what all of them tell."""

    def __init__(
        self, required: str, gang: gangs.Gang | None = None, *, start: str = "", **common: Any
    ) -> None:
        """Take what the findings share.

        Args:
            required: what must hold.
            gang: the gang that is judged; its pods' places and kubectl lines are filled in.
            start: how each text begins.
            common: further attributes of each `Finding`; what a single one is given counts instead.
        """
        self._required, self._gang, self._start, self._common = required, gang, start, common

    def of(self, verdict: Verdict, text: str, *causes: Cause, **more: Any) -> Finding:
        """Return a finding with a verdict; causes stand one by one, or in `causes`."""
        told = {**self._common, **({"causes": causes} if causes else {}), **more}
        return finding(verdict, self._required, f"{self._start}{text}", self._gang, **told)

    def fail(self, text: str, *causes: Cause, **more: Any) -> Finding:
        """Return a failure; `violation=True` says that what must not be was seen."""
        return self.of(Verdict.FAIL, text, *causes, **more)

    def passed(self, text: str, *causes: Cause, **more: Any) -> Finding:
        """Return a pass."""
        return self.of(Verdict.PASS, text, *causes, **more)

    def inconclusive(self, text: str, *causes: Cause, **more: Any) -> Finding:
        """Return what leaves the row undecided."""
        return self.of(Verdict.INCONCLUSIVE, text, *causes, **more)

    def environment(self, text: str, *causes: Cause, **more: Any) -> Finding:
        """Return a prerequisite that the cluster does not meet."""
        return self.of(Verdict.ENVIRONMENT, text, *causes, **more)

    def not_applicable(self, text: str, *causes: Cause, **more: Any) -> Finding:
        """Return why the row says nothing here."""
        return self.of(Verdict.NOT_APPLICABLE, text, *causes, **more)


def short(message: str, most: int = 200) -> str:
    """Return a message as findings show it: in one line, of a long one both ends with how much was left out."""
    return shortening.shown(message, most)


def presupposed(name: str, held: bool | None, observed: str, **more: Any) -> Presupposed:
    """Return what became of a prerequisite."""
    return Presupposed(name=name, held=held, observed=observed, **more)
