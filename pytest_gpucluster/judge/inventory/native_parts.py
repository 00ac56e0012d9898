"""INV-001 for gangs of Kubernetes itself: API, admission, Job controller and scheduler answer.

Where a feature gate is off nothing refuses: the API server drops the fields that ask for a gang, the Job controller
makes no PodGroup or one of the basic policy, and the pods are placed one at a time. So each part is seen by what it
keeps, makes or says.
"""

from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import attribution, subjects, wording
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "the API of native gangs is served, the API server keeps the fields that ask for a gang, the Job controller makes "
    "a PodGroup of the gang policy, and the scheduler gives it its condition"
)
CONDITION = "PodGroupInitiallyScheduled"

NOT_SERVED = Cause(
    "the API of native gangs is not served: the feature gate GenericWorkload or the API version is off",
    "start kube-apiserver (1.37 and later) with --feature-gates=GenericWorkload=true and "
    "--runtime-config=scheduling.k8s.io/v1beta1=true, and controller manager and scheduler with the same gate",
)
POD_DROPPED = Cause(
    "the API server silently drops schedulingGroup from pods: its feature gate GenericWorkload is off",
    "start kube-apiserver with --feature-gates=GenericWorkload=true",
)
JOB_DROPPED = Cause(
    "the API server silently drops spec.scheduling from Jobs: its feature gate WorkloadWithJob is off",
    "start kube-apiserver and kube-controller-manager with --feature-gates=GenericWorkload=true,WorkloadWithJob=true, "
    "or write gangs as a PodGroup and pods",
)
NO_GROUP = Cause(
    "the Job controller makes no PodGroup: its feature gate WorkloadWithJob is off, or it does not run",
    "start kube-controller-manager with --feature-gates=GenericWorkload=true,WorkloadWithJob=true and look at its log",
)
BASIC = Cause(
    "the PodGroup has the basic policy, which promises nothing, although the Job asks for a gang",
    "compare spec.scheduling of the Job as stored with spec.schedulingPolicy of its PodGroup",
)
SILENT = Cause(
    "the scheduler does not look at PodGroups: its feature gate GenericWorkload is off, or it does not run",
    "start kube-scheduler with --feature-gates=GenericWorkload=true and look at its log",
)


def answers(evidence: Evidence, given: subjects.Given) -> tuple[Finding, ...]:
    """Return the finding on each part."""
    return (
        _api(evidence),
        _kept(evidence, "dry-run", ("schedulingGroup", "podGroupName"), POD_DROPPED),
        _kept(evidence, "dry-run-job", ("scheduling", "schedulingPolicy", "gang", "minCount"), JOB_DROPPED),
        *_group(evidence, given),
    )


def _part(verdict: Verdict, text: str, key: str = "", *causes: Cause, **more: Any) -> Finding:
    keys = (key,) if key else ()
    repeat = (
        f"kubectl api-resources --api-group={names.NATIVE_GROUP}",
        "kubectl get --raw /metrics | grep kubernetes_feature_enabled",
    )
    return wording.finding(verdict, REQUIRED, text, evidence=keys, causes=causes, repeat=repeat, **more)


def _asked(evidence: Evidence, case: str) -> Line | None:
    return next((line for line in evidence.responses() if line.data.get("case") == case), None)


def _api(evidence: Evidence) -> Finding:
    line = _asked(evidence, f"api:{names.NATIVE_POD_GROUP}")
    if line is not None and not attribution.answer(line).accepted:
        text = f"PodGroup of {names.NATIVE_GROUP} is not served (HTTP {attribution.answer(line).code})"
        return _part(Verdict.FAIL, text, line.key, NOT_SERVED, violation=True)
    seen = evidence.of_kind(names.NATIVE_POD_GROUP)
    if line is None and not seen:
        return _part(Verdict.INCONCLUSIVE, "the evidence has no request that shows whether the API is served")
    key = line.key if line is not None else seen[0].key
    return _part(Verdict.PASS, f"PodGroup of {names.NATIVE_GROUP} is served", key)


def _kept(evidence: Evidence, case: str, path: tuple[str, ...], cause: Cause) -> Finding:
    """Judge whether a dry-run object came back with the field that asks for a gang."""
    field = f"spec.{'.'.join(path)}"
    line = _asked(evidence, case)
    if line is None:
        return _part(Verdict.INCONCLUSIVE, f"no dry run tested whether {field} is kept")
    answer = attribution.answer(line)
    kind = "pod" if case == "dry-run" else "Job"
    if not answer.accepted:
        text = (
            f"the dry-run {kind} was refused: HTTP {answer.code} by {answer.component} "
            f"({wording.short(answer.message)})"
        )
        return _part(Verdict.FAIL, text, line.key)
    spec = fields.sub(line.data, "object", "spec")
    if not spec:
        return _part(Verdict.INCONCLUSIVE, f"the answer to the dry-run {kind} carries no object", line.key)
    if not fields.text(spec, *path):
        text = f"the dry-run {kind} came back without {field}"
        return _part(Verdict.FAIL, text, line.key, cause, violation=True)
    return _part(Verdict.PASS, f"{field} of a {kind} is kept", line.key)


def _group(evidence: Evidence, given: subjects.Given) -> tuple[Finding, ...]:
    """Judge what the Job controller made of a Job that asks for a gang, and what the scheduler said of it."""
    named = subjects.cast(evidence, given, "subject", "probe")
    gangs = [
        gang for gang in (named or subjects.everyone(evidence)) if gang.kind == names.BATCH_JOB and gang.job
    ]
    if not gangs:
        return (_part(Verdict.INCONCLUSIVE, "no Job was submitted to test whether the parts answer"),)
    with_group = next((gang for gang in gangs if any(group.native for group in gang.groups)), None)
    if with_group is None:
        return (_no_group(evidence, given, gangs[0]),)
    group = next(group for group in with_group.groups if group.native)
    if not group.minimum:
        text = f"the PodGroup of {with_group.title} has the basic policy, not the gang policy"
        return (_part(Verdict.FAIL, text, group.key, BASIC, violation=True),)
    made = _part(
        Verdict.PASS, f"a PodGroup of minCount {group.minimum} appeared for {with_group.name}", group.key
    )
    said = next((one for one in group.conditions if one.type.startswith(f"{CONDITION}=")), None)
    end = said.t if said else min(evidence.end, group.deleted if group.deleted is not None else evidence.end)
    limits = subjects.of(evidence, given)
    number = Number(
        "time to the condition",
        end - group.created,
        "s",
        limits.silent,
        "none so far: the scheduler is silent",
    )
    if said is not None:
        text = f"the scheduler gave it {said.type} within {end - group.created:.2f} s"
        return made, _part(Verdict.PASS, text, said.key, numbers=(number,))
    if subjects.silent(evidence, given, group.created, end) and not evidence.gaps(
        group.kind, group.created, end
    ):
        text = f"the PodGroup of {with_group.title} had no condition for {end - group.created:.1f} s"
        return made, _part(Verdict.FAIL, text, group.key, SILENT, violation=True, numbers=(number,))
    text = f"no condition yet after {end - group.created:.1f} s"
    return made, _part(Verdict.INCONCLUSIVE, text, group.key, numbers=(number,))


def _no_group(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    end = min(evidence.end, gang.job.deleted if gang.job and gang.job.deleted is not None else evidence.end)
    key = gang.job.key if gang.job else ""
    gaps = evidence.gaps(names.NATIVE_POD_GROUP, gang.created, end)
    # Pods are made after their PodGroup; a member without one was made without.
    alone = any(not pod.native_group for pod in gang.pods)
    if not gaps and (alone or subjects.silent(evidence, given, gang.created, end)):
        text = f"no PodGroup for {gang.title} in {end - gang.created:.1f} s"
        return _part(Verdict.FAIL, text, key, NO_GROUP, violation=True)
    return _part(Verdict.INCONCLUSIVE, f"no PodGroup for {gang.title} yet ({end - gang.created:.1f} s)", key)
