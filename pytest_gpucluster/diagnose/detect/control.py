"""Before anything is placed: the API, the controllers, the scheduler and its queue."""

import re
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect import scheduling
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.scheduling import schedulers
from pytest_gpucluster.judge import attribution, wording
from pytest_gpucluster.judge.gang import job_faults
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause

GANG_SCHEDULER = "volcano"
"""Name that Volcano's scheduler goes by as shipped (`--scheduler-name`)."""

NO_MATCHES = re.compile(r'no matches for kind "(?P<kind>\w+)" in version "(?P<version>[\w./-]+)"')
CALL_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
JOB_CRD = "jobs.batch.volcano.sh"

CONTROLLER_EVENTS = ("PluginError", "PVCError", "PodGroupError")

COMPONENTS = "kubectl -n volcano-system get pods"


def api_absent(s: Situation) -> Iterator[Suspect]:
    """The Volcano API is not served: its CRDs are not installed."""
    look = ("kubectl get crd jobs.batch.volcano.sh podgroups.scheduling.volcano.sh",)
    for line in s.evidence.responses():
        case = str(line.data.get("case") or "")
        answer = attribution.answer(line)
        said = NO_MATCHES.search(answer.message)
        if answer.code == 404 and case.startswith("api:") and case.endswith("volcano.sh"):
            seen = f"the API server does not serve {case.removeprefix('api:')} (HTTP 404)"
        elif said:
            seen = f'no matches for kind "{said["kind"]}" in version "{said["version"]}"'
        else:
            continue
        yield fault(
            "api-absent",
            Stage.API,
            wording.NOT_INSTALLED,
            seen,
            evidence=(line.key,),
            rows=("INV-001",),
            look=look,
        )
        return
    crds = s.objects("CustomResourceDefinition")
    if crds and not any(line.name == JOB_CRD for line in crds):
        seen = f"{len(crds)} custom resource definitions, but not {JOB_CRD}"
        yield fault("api-absent", Stage.API, wording.NOT_INSTALLED, seen, rows=("INV-001",), look=look)


def refused_at_admission(s: Situation) -> Iterator[Suspect]:
    """A create call for the job was refused."""
    for line in s.evidence.responses():
        answer = attribution.answer(line)
        mine = not s.name or s.name in (answer.case, str(line.data.get("request") or "").rpartition("/")[2])
        if not answer.at_admission or not mine or NO_MATCHES.search(answer.message):
            continue
        cause = Cause(
            f"{answer.component} refused the job when it was created", "change it as the answer demands: "
                                                                       f"{words.short(answer.message)}"
        )  # fmt: skip
        seen = f"HTTP {answer.code}: {words.short(answer.message)}"
        yield fault("refused-at-admission", Stage.API, cause, seen, evidence=(line.key,), rows=("REF-003",))


def admission_silent(s: Situation) -> Iterator[Suspect]:
    """A webhook that the API server asks about the job, or its pods, does not answer."""
    told = [(attribution.answer(line).message, line.key) for line in s.evidence.responses()]
    told += [(said.message, said.key) for said in s.said_of_job if said.type == "Warning"]
    for text, key in reversed(told):
        found = CALL_FAILED.search(text)
        if found:
            cause = Cause(
                f"the webhook {found['name']} does not answer: the API server refuses all requests that need it",
                "look at the pods and the Service of that webhook (for Volcano: kubectl -n volcano-system get "
                "pods,endpoints), and at its certificate",
            )
            yield fault(
                "webhook-silent", Stage.API, cause, words.short(text), evidence=(key,), rows=("INV-001",)
            )
            return


def controllers_silent(s: Situation) -> Iterator[Suspect]:
    """The Job has no phase and no PodGroup: its controller did not look at it."""
    job = s.vcjob
    if job is None or job.phases or s.group is not None or s.pods or s.age <= s.silent:
        return
    if any(said.reason in CONTROLLER_EVENTS or said.type == "Warning" for said in s.said_of_job):
        return
    cause = Cause(
        "no controller handles the Job: it has no phase, and no PodGroup was created for it",
        "check that vc-controller-manager runs and answers (kubectl -n volcano-system get pods; its log), and that "
        "all CRDs of Volcano are installed",
    )
    seen = f"{s.title} has no status.state.phase and no PodGroup {s.age:.0f} s after it was created"
    yield fault(
        "controllers-silent", Stage.CONTROLLER, cause, seen, evidence=(job.key,), rows=("INV-001",),
        look=(COMPONENTS, f"kubectl get podgroups.scheduling.volcano.sh{s.space}"),
    )  # fmt: skip


def controller_error(s: Situation) -> Iterator[Suspect]:
    """The controller says that it cannot make what the Job needs."""
    for said in reversed(s.said_of_job):
        if said.reason in CONTROLLER_EVENTS and not s.pods:
            cause = Cause(
                f"the controller cannot create what the Job asks for ({said.reason})",
                "correct the Job as the message says: a plugin, a volume claim, a name that is not a DNS label",
            )
            seen = f"{said.reason} on {s.title}: {words.short(said.message)}"
            yield fault("controller-error", Stage.CONTROLLER, cause, seen, evidence=(said.key,))
            return


_OTHERS_SAY = frozenset(
    {
        "FailedCreate",
        "Unschedulable",
        "FailedScheduling",
        "Failed",
        "BackoffLimitExceeded",
        "DeadlineExceeded",
    }
)
"""Reasons of warnings about a job of which other detectors speak."""


def unmade(s: Situation) -> Iterator[Suspect]:
    """Whoever looks after the job warns of something that nobody here knows, and there is no pod."""
    if s.pods or s.ended:
        return
    told = [
        said for said in s.said_of_job
        if said.type == "Warning" and said.reason not in _OTHERS_SAY and said.reason not in CONTROLLER_EVENTS
        and not CALL_FAILED.search(said.message)
    ]  # fmt: skip
    if not told:
        return
    last = told[-1]
    who = last.reporter or "its controller"
    cause = Cause(
        f"{who} warns of {s.title}: {last.reason}: {words.short(last.message)!r}, and it has no pod",
        f"mend what the warning says; if it says too little, read the log of {who}",
    )
    seen = f"{wording.count(len(told), 'warning')} about {s.title}, the last {last.reason}; 0 pods"
    yield fault("controller-warns", Stage.CONTROLLER, cause, seen, LIKELY, evidence=(last.key,))


def scheduler_silent(s: Situation) -> Iterator[Suspect]:
    """The PodGroup has no phase: the scheduler does not look at it."""
    group, reading = s.group, s.reading
    if group is None or group.native or reading is None or reading.unseen is None:
        return
    if reading.unseen <= s.silent or s.said("PodGroup", group.namespace, group.name, group.uid):
        return
    if s.pods and all(pod.node for pod in s.pods):
        # Whoever placed them: nothing waits for a scheduler.
        return
    seen = (
        f"PodGroup {group.name} has had no phase for {reading.unseen:.0f} s and no message; {len(s.pods)} pods "
        "exist. A refused PodGroup has phase Pending and an event within seconds"
    )
    yield fault(
        "scheduler-silent", Stage.SCHEDULER, wording.SCHEDULER_SILENT, seen, where=(f"PodGroup/{group.name}",),
        evidence=(group.key,), rows=("REF-008", "INV-001"),
        look=(COMPONENTS, *wording.repeat(s.gang)) if s.gang else (),
    )  # fmt: skip


def _gang_scheduler(s: Situation) -> str:
    """Return the name of the gang scheduler here: who spoke about our PodGroup, else as Volcano is shipped."""
    group = s.group
    spoke = s.said("PodGroup", group.namespace, group.name, group.uid) if group else ()
    names_ = {said.reporter for said in spoke} & {p.scheduler for p in s.pods} - {schedulers.DEFAULT_NAME}
    stated = fields.text(s.vcjob.last, "spec", "schedulerName") if s.vcjob else ""
    return next(iter(sorted(names_)), stated if stated.startswith(GANG_SCHEDULER) else GANG_SCHEDULER)


def scheduler_name(s: Situation) -> Iterator[Suspect]:
    """Pods of the Job go to another scheduler than the gang's: the field that says so is named."""
    job, wanted = s.vcjob, _gang_scheduler(s)
    found = job_faults.scheduler_names(s.evidence, {"scheduler": wanted})
    mine = [one for one in found if job is not None and one.uid == job.uid]
    if not mine:
        return
    speaking = scheduling.speakers(s)
    if speaking and wanted not in speaking and any(scheduling.other_name(s)):
        return  # another than the one that this would name handles the gang: that detector says which
    cause = Cause(
        "; ".join(one.cause.text for one in mine), "; ".join(dict.fromkeys(one.cause.fix for one in mine))
    )
    astray = [p for p in s.pods if p.scheduler != wanted]
    stuck = [p for p in astray if p.bound is None]
    text = f"{len(astray)} of {len(s.pods)} pods go to another scheduler, {len(stuck)} of them have no node; "
    text += f"{wording.part(s.held, s.minimum)} members placed; {'; '.join(one.observed for one in mine[:2])}"
    more: dict[str, Any] = {
        "where": wording.places(stuck or astray),
        "rows": ("GANG-011", "GANG-008"),
        "look": _look(s),
        "evidence": tuple(one.key for one in mine[:2]),
    }
    if s.whole or s.ended or not astray:
        yield note("scheduler-name", Stage.SCHEDULER, cause, text, **more)
    else:
        certainty = SURE if s.age > s.patience else LIKELY
        yield fault("scheduler-name", Stage.SCHEDULER, cause, text, certainty, **more)


def _look(s: Situation) -> tuple[str, ...]:
    jsonpath = "-o jsonpath='{.spec.schedulerName} {.spec.tasks[*].template.spec.schedulerName}'"
    return (f"kubectl get vcjob{s.space} {s.name} {jsonpath}",)


def nobody_schedules(s: Situation) -> Iterator[Suspect]:
    """Pods wait for a scheduler that never says a word about them."""
    mute = [
        p for p in s.unbound
        if not p.waiting and s.now - p.created > s.silent
        and not any(said.reason == "FailedScheduling" for said in s.said_of_pod(p))
        and not fields.items(p.last, "spec", "schedulingGates")
    ]  # fmt: skip
    if not mute or len(mute) < len(s.unbound):
        return
    served = {p.scheduler for gang in s.others for p in gang.pods if p.bound is not None}
    served |= {p.scheduler for p in s.bound}
    silent = sorted({p.scheduler for p in mute} - served)
    said_of_group = s.reading is not None and bool(s.reading.refusals)
    if not silent or said_of_group or (s.group is not None and s.group.phases and silent == [GANG_SCHEDULER]):
        return
    cause = Cause(
        f"no scheduler called {wording.listed(silent)} answers",
        "check that it runs (kubectl -n kube-system get pods -l component=kube-scheduler)"
        if silent == [schedulers.DEFAULT_NAME]
        else f"start it, or set schedulerName to one that runs ({GANG_SCHEDULER} for gangs)",
    )
    waits = min(s.now - p.created for p in mute)
    seen = f"{wording.count(len(mute), 'pod')} set schedulerName {wording.listed(silent)}"
    seen += f"; no message about them for {waits:.0f} s"
    yield fault(
        "scheduler-unknown", Stage.SCHEDULER, cause, seen, LIKELY, where=wording.places(mute), rows=("REF-008",),
        evidence=tuple(p.keys["created"] for p in mute[:4]),
    )  # fmt: skip


def queue_not_open(s: Situation) -> Iterator[Suspect]:
    """The Job's queue is closed, closing, or does not exist."""
    name = s.queue_name
    if not name or s.whole or s.ended:
        return
    look = (f"kubectl get queues.scheduling.volcano.sh {name} -o yaml",)
    line = s.object("Queue", name)
    if line is None:
        known = [q.name for q in s.objects("Queue")]
        # Volcano itself makes `root` and `default`: a list with both is the whole list.
        spoken = s.reading is not None and bool(s.reading.refusals)
        whole = s.evidence.clock == "object" and {"root", "default"} <= set(known) and not spoken
        if s.looked_at("Queue") or whole:
            near = names.nearest(name, known)
            cause = Cause(
                f"the queue {name!r} does not exist",
                f"set spec.queue to an existing one ({wording.listed(sorted(known), 6)})"
                + (f"; did you mean {near!r}?" if near else ""),
            )
            yield fault(
                "queue-absent", Stage.QUEUE, cause, f"{s.title} asks for queue {name}", rows=("REF-004",)
            )
        return
    state = fields.text(line.object, "status", "state")
    waits = (
        s.group is None or (s.group.phases[-1][1] if s.group.phases else "") in ("", "Pending") or s.unbound
    )
    if state not in ("", "Open", "Closed", "Closing") and waits:
        cause = Cause(
            f"the queue {name!r} has state {state}, which says that it may not accept or place gangs",
            f"look at it ({look[0]}), open it, or submit to another queue",
        )
        yield fault(
            "queue-state", Stage.QUEUE, cause, f"Queue {name} has status.state {state}", LIKELY,
            where=(f"Queue/{name}",), evidence=(line.key,), rows=("REF-004",), look=look,
        )  # fmt: skip
    if state in ("Closed", "Closing") and waits:
        cause = Cause(
            f"the queue {name!r} is {state}: it accepts no gang, and places none of the waiting ones",
            f"open it (vcctl queue operate --action open --name {name}), or submit to an open queue",
        )
        seen = f"Queue {name} has status.state {state}; {wording.part(s.held, s.minimum)} members placed"
        yield fault(
            "queue-closed", Stage.QUEUE, cause, seen, where=(f"Queue/{name}",), evidence=(line.key,), rows=("REF-004",),
            look=look,
        )  # fmt: skip
