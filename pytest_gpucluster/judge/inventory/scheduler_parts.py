"""INV-001: the declared gang scheduler is there, and its three parts answer."""

import re
from collections.abc import Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import attribution, creating, subjects, wording
from pytest_gpucluster.judge.inventory import kueue_parts, native_parts
from pytest_gpucluster.judge.refusal import no_scheduler
from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "the scheduler's APIs are served, its admission fills in a dry-run Job, its controllers make a PodGroup, and "
    "its scheduler gives the PodGroup a phase and handles the pods"
)
API_CASE = "api:"
DRY_RUN_CASE = "dry-run"

ADMISSION = Cause(
    "no mutating admission filled in the Job: schedulerName, minAvailable or task names stayed empty",
    "install the admission (vc-webhook-manager) and check `kubectl get mutatingwebhookconfigurations` for Jobs of "
    "batch.volcano.sh",
)
SILENT = Cause(
    "the admission is registered for Jobs but does not answer",
    "check that vc-webhook-manager runs and that its Service and certificate are right (kubectl -n volcano-system get "
    "pods,endpointslices)",
)
QUEUE = Cause(
    "the queue takes no Jobs: it is closed or closing, or does not exist",
    "open it (vcctl queue operate -a open -n QUEUE, or a Command OpenQueue), or correct `queue` in the profile",
)
FOREIGN = Cause(
    "something other than the scheduler's admission refuses Jobs: a policy engine or a webhook of the site",
    "read its message; make it accept the suite's namespace and images, and repeat",
)
_QUEUE = re.compile(r"\bqueue\b", re.IGNORECASE)
CONTROLLERS = Cause(
    "the controllers did not make a PodGroup for the Job",
    "check that vc-controller-manager runs and that the CRDs are complete (kubectl get crd | grep volcano.sh)",
)


@subjects.judge
def scheduler_answers(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-001."""
    declared = str(given.get("scheduler") or "volcano")
    if declared == schedulers.NATIVE:
        return _together(native_parts.answers(evidence, given), native_parts.REQUIRED)
    if declared == schedulers.KUEUE:
        return _together(kueue_parts.answers(evidence, given), kueue_parts.REQUIRED)
    if declared != schedulers.VOLCANO:
        text = f"{declared} is not a gang scheduler with its own parts"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text)
    parts = (
        _apis(evidence),
        _admission(evidence),
        _controllers(evidence, given),
        phase_given(evidence, given),
        _served(evidence, given),
    )
    return _together(parts, REQUIRED)


def _served(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge whether a scheduler serves the name that the pods carry.

    A scheduler of Volcano gives every PodGroup a phase, under whatever name it runs; pods it takes by their
    schedulerName.
    """
    probes = [gang for gang in _probes(evidence, given) if gang.groups]
    if not probes:
        return _part(Verdict.INCONCLUSIVE, "no gang with pods that a scheduler could handle")
    pods = [(gang, p) for gang in probes for p in gang.pods if p.scheduler != schedulers.DEFAULT]
    seen = next((pod for _, pod in pods if no_scheduler.looked_at(evidence, pod)), None)
    if seen is not None:
        key = seen.keys.get("bound") or seen.keys["created"]
        return _part(Verdict.PASS, f"a scheduler handled {seen.name}, which names {seen.scheduler}", key)
    for gang, pod in pods:
        ends = [t for t in (pod.deleting, pod.deleted) if t is not None]
        end = min([no_scheduler.told_until(evidence, "Pod"), *ends])
        watched = not any(evidence.gaps(kind, pod.created, end) for kind in ("Pod", "Event"))
        if watched and subjects.silent(evidence, given, pod.created, end):
            for_ = f"for {end - pod.created:.1f} s"
            text = f"no scheduler handled {pod.name}, which names schedulerName {pod.scheduler}, {for_}"
            return _part(
                Verdict.FAIL,
                f"{text}{_phased(evidence, gang)}",
                pod.keys["created"],
                no_scheduler.nobody_serves(pod.scheduler),
                violation=True,
            )
    gang = probes[0]
    name, by = gang.scheduler, no_scheduler.phased_by(evidence, gang.generations[-1])
    if by and by == name:
        return _part(Verdict.PASS, f"{by} reports about the PodGroup of {gang.name}, as its pods do")
    text = f"no pod shows whether a scheduler serves the name {name}{_phased(evidence, gang)}"
    return _part(Verdict.INCONCLUSIVE, text, "", *((no_scheduler.nobody_serves(name),) if by else ()))


def _phased(evidence: Evidence, gang: Gang) -> str:
    by = no_scheduler.phased_by(evidence, gang.generations[-1])
    return f"; its PodGroup got a phase, and {by} reports about it" if by else ""


def _together(parts: Sequence[Finding], required: str) -> Finding:
    """Return the one finding of a scheduler's parts, all of which must answer."""
    worst = wording.gravest(parts)
    if worst.verdict is Verdict.FAIL:
        return worst
    text = "; ".join(part.observed for part in parts)
    keys = tuple(key for part in parts for key in part.evidence)
    numbers = tuple(number for part in parts for number in part.numbers)
    return wording.finding(worst.verdict, required, text, evidence=keys, causes=worst.causes, numbers=numbers)


def _part(verdict: Verdict, text: str, key: str = "", *causes: Cause, **more: Any) -> Finding:
    keys = (key,) if key else ()
    repeat = ("kubectl api-resources | grep volcano.sh", "kubectl -n volcano-system get pods")
    return wording.finding(verdict, REQUIRED, text, evidence=keys, causes=causes, repeat=repeat, **more)


def _answers(evidence: Evidence) -> list[Line]:
    return [line for line in evidence.responses() if str(line.data.get("case") or "").startswith(API_CASE)]


def _apis(evidence: Evidence) -> Finding:
    answers = _answers(evidence)
    missing = {
        str(a.data["case"]).removeprefix(API_CASE): a for a in answers if not attribution.answer(a).accepted
    }
    if missing:
        line = next(iter(missing.values()))
        text = f"not served: {wording.listed(sorted(missing), 4)}"
        return _part(Verdict.FAIL, text, line.key, wording.NOT_INSTALLED, violation=True)
    if answers:
        return _part(Verdict.PASS, f"{len(answers)} API kinds served", answers[0].key)
    seen = [kind for kind in (names.VC_JOB, "PodGroup") if evidence.of_kind(kind)]
    if len(seen) == 2:
        return _part(
            Verdict.PASS, "Volcano Jobs and PodGroups are served", evidence.of_kind("PodGroup")[0].key
        )
    return _part(Verdict.INCONCLUSIVE, "the evidence has no request that shows whether the APIs are served")


def _admission(evidence: Evidence) -> Finding:
    line = next((r for r in evidence.responses() if r.data.get("case") == DRY_RUN_CASE), None)
    if line is None:
        return _part(Verdict.INCONCLUSIVE, "no dry-run Job tested the admission")
    answer = attribution.answer(line)
    if not answer.accepted:
        return _refused(answer)
    spec = fields.sub(line.data, "object", "spec") or fields.sub(line.data, "status", "spec")
    if not spec:
        return _part(Verdict.INCONCLUSIVE, "the answer to the dry-run Job carries no object", line.key)
    lacking = [name for name in ("schedulerName", "minAvailable") if not spec.get(name)]
    tasks = fields.items(spec, "tasks")
    if not tasks or any(not task.get("name") for task in tasks):
        lacking.append("task names")
    if lacking:
        text = f"the dry-run Job came back without {', '.join(lacking)}"
        return _part(Verdict.FAIL, text, line.key, ADMISSION, violation=True)
    text = f"admission answers (schedulerName {spec['schedulerName']}, minAvailable {spec['minAvailable']})"
    return _part(Verdict.PASS, text, line.key)


def _refused(answer: attribution.Answer) -> Finding:
    """Return what a refusal of the dry-run Job says of the admission: only its own silence speaks against it."""
    text = f"the dry-run Job was refused: HTTP {answer.code} by {answer.component} ({wording.short(answer.message)})"
    own = answer.by_webhook and answer.component.endswith(".volcano.sh")
    verdict, cause = Verdict.FAIL, ADMISSION
    if answer.code == 404:
        cause = wording.NOT_INSTALLED
    elif "failed calling webhook" in answer.message:
        cause = SILENT
    elif own and _QUEUE.search(answer.message):
        verdict, cause = Verdict.INCONCLUSIVE, QUEUE
    elif answer.at_admission and not own and answer.component != "CRD schema":
        verdict, cause = Verdict.INCONCLUSIVE, FOREIGN
    elif answer.code in (401, 403, 429) or answer.code >= 500:
        verdict, cause = Verdict.INCONCLUSIVE, creating.why(answer.code, answer.message)
    return _part(verdict, text, answer.line.key, cause)


def queue_takes_jobs(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the queue let the Jobs in by which the parts are tried: Volcano's own admission refuses them else."""
    name = "the queue takes Jobs"
    for line in evidence.responses():
        answer = attribution.answer(line)
        own = answer.by_webhook and answer.component.endswith(".volcano.sh")
        if not answer.accepted and own and _QUEUE.search(answer.message):
            text = f"{answer.component} refused {line.data.get('request') or 'a Job'}: {wording.short(answer.message)}"
            return wording.presupposed(name, held=False, observed=text, causes=(QUEUE,), evidence=(line.key,))
    wanted = str(given.get("queue") or "")
    queues = [line for line in evidence.of_kind("Queue") if line.name == wanted]
    state = fields.text(queues[-1].object, "status", "state") if queues else ""
    if state and state != "Open" and not _probes(evidence, given):
        text = f"Queue/{wanted} is {state}"
        return wording.presupposed(
            name, held=False, observed=text, causes=(QUEUE,), evidence=(queues[-1].key,)
        )
    return wording.presupposed(name, held=True, observed="no Job was refused for its queue")


def _probes(evidence: Evidence, given: subjects.Given) -> tuple[Gang, ...]:
    named = subjects.cast(evidence, given, "subject", "probe")
    return tuple(g for g in (named or subjects.everyone(evidence)) if g.kind == names.VC_JOB and g.job)


def _controllers(evidence: Evidence, given: subjects.Given) -> Finding:
    probes = _probes(evidence, given)
    if not probes:
        return _part(
            Verdict.INCONCLUSIVE, "no Volcano Job was submitted to test whether the controllers answer"
        )
    with_group = next((gang for gang in probes if gang.groups), None)
    if with_group is not None:
        return _part(Verdict.PASS, f"a PodGroup appeared for {with_group.name}", with_group.groups[0].key)
    job = probes[0]
    end = min(evidence.end, job.job.deleted if job.job and job.job.deleted is not None else evidence.end)
    waited = end - job.created
    if subjects.silent(evidence, given, job.created, end) and not evidence.gaps("PodGroup", job.created, end):
        text = f"no PodGroup for {job.title} in {waited:.1f} s"
        return _part(Verdict.FAIL, text, job.job.key if job.job else "", CONTROLLERS, violation=True)
    return _part(Verdict.INCONCLUSIVE, f"no PodGroup for {job.title} yet ({waited:.1f} s)")


def phase_given(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge whether the scheduler gave a phase to each PodGroup, within the time after which it counts as silent."""
    limits = subjects.of(evidence, given)
    waits = [(gang, group) for gang in _probes(evidence, given) for group in gang.groups if not group.native]
    if not waits:
        return _part(Verdict.INCONCLUSIVE, "no PodGroup to give a phase to")
    longest = 0.0
    seen = False
    for gang, group in waits:
        first = group.phases[0][0] if group.phases else None
        ends = [
            no_scheduler.told_until(evidence, "PodGroup"),
            *([] if group.deleted is None else [group.deleted]),
        ]
        end = min(ends) if first is None else first
        waited = end - group.created
        longest = max(longest, waited)
        seen = seen or first is not None
        missed = subjects.silent(evidence, given, group.created, end)
        if missed and not evidence.gaps("PodGroup", group.created, end):
            text = (
                f"the PodGroup of {gang.title} had no phase for {waited:.1f} s: the scheduler does not answer"
            )
            number = Number(
                "time to the first phase",
                waited,
                "s",
                limits.silent,
                "no phase so far: the scheduler is silent",
            )
            return _part(
                Verdict.FAIL,
                text,
                group.key,
                wording.SCHEDULER_SILENT,
                wording.NOT_INSTALLED,
                violation=True,
                numbers=(number,),
            )
    number = Number(
        "time to the first phase", longest, "s", limits.silent, "no phase so far: the scheduler is silent"
    )
    if not seen:
        return _part(Verdict.INCONCLUSIVE, f"no phase yet after {longest:.1f} s", numbers=(number,))
    return _part(Verdict.PASS, f"the scheduler gave it a phase within {longest:.2f} s", numbers=(number,))
