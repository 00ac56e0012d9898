"""Before anything is placed: the API, the controllers, the scheduler and its queue."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence import fields, schedulers
from pytest_gpucluster.judge import rejected, say
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
        answer = rejected.answer(line)
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
            say.NOT_INSTALLED,
            seen,
            evidence=(line.key,),
            rows=("INV-001",),
            look=look,
        )
        return
    crds = s.objects("CustomResourceDefinition")
    if crds and not any(line.name == JOB_CRD for line in crds):
        seen = f"{len(crds)} custom resource definitions, none is {JOB_CRD}"
        yield fault("api-absent", Stage.API, say.NOT_INSTALLED, seen, rows=("INV-001",), look=look)


def refused_at_admission(s: Situation) -> Iterator[Suspect]:
    """A create call for the job was refused."""
    for line in s.evidence.responses():
        answer = rejected.answer(line)
        mine = not s.name or s.name in (answer.case, str(line.data.get("request") or "").rpartition("/")[2])
        if not answer.at_admission or not mine or NO_MATCHES.search(answer.message):
            continue
        cause = Cause(
            f"{answer.component} refused the job when it was created", f"change it as the answer says: {answer.message}"
        )  # fmt: skip
        seen = f"HTTP {answer.code}: {answer.message[:300]}"
        yield fault("refused-at-admission", Stage.API, cause, seen, evidence=(line.key,), rows=("REF-003",))


def admission_silent(s: Situation) -> Iterator[Suspect]:
    """A webhook that the API server asks about the job, or its pods, does not answer."""
    told = [(rejected.answer(line).message, line.key) for line in s.evidence.responses()]
    told += [(said.message, said.key) for said in s.said_of_job if said.type == "Warning"]
    for text, key in reversed(told):
        found = CALL_FAILED.search(text)
        if found:
            cause = Cause(
                f"the webhook {found['name']} does not answer: the API server refuses what it should be asked about",
                "look at the pods and the Service of that webhook (for Volcano: kubectl -n volcano-system get "
                "pods,endpoints), and at its certificate",
            )
            yield fault("webhook-silent", Stage.API, cause, text[:300], evidence=(key,), rows=("INV-001",))
            return


def controllers_silent(s: Situation) -> Iterator[Suspect]:
    """The Job has no phase and no PodGroup: its controller did not look at it."""
    job = s.vcjob
    if job is None or job.phases or s.group is not None or s.pods or s.age <= s.silent:
        return
    if any(said.reason in CONTROLLER_EVENTS for said in s.said_of_job):
        return
    cause = Cause(
        "no controller looks at the Job: it has no phase, and no PodGroup was made for it",
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
                f"the controller cannot make what the Job asks for ({said.reason})",
                "correct the Job as the message says: a plugin, a volume claim, a name that is no DNS label",
            )
            seen = f"{said.reason} on {s.title}: {said.message[:300]}"
            yield fault("controller-error", Stage.CONTROLLER, cause, seen, evidence=(said.key,))
            return


def scheduler_silent(s: Situation) -> Iterator[Suspect]:
    """The PodGroup has no phase: the scheduler does not look at it."""
    group, reading = s.group, s.reading
    if group is None or group.native or reading is None or reading.unseen is None:
        return
    if reading.unseen <= s.silent or s.said("PodGroup", group.namespace, group.name, group.uid):
        return
    seen = (
        f"PodGroup {group.name} has had no phase for {reading.unseen:.0f} s and nothing was said about it; "
        f"{len(s.pods)} pods exist. A refused PodGroup has phase Pending and an event within seconds"
    )
    yield fault(
        "scheduler-silent", Stage.SCHEDULER, say.SCHEDULER_SILENT, seen, where=(f"PodGroup/{group.name}",),
        evidence=(group.key,), rows=("REF-008", "INV-001"), look=(COMPONENTS, *say.repeat(s.gang)) if s.gang else (),
    )  # fmt: skip


def _fields_at_fault(s: Situation) -> list[tuple[str, str, str, str]]:
    """Return (task, scheduler that its pods get, field that says so, what the field has) where it is not Volcano's."""
    job = s.vcjob
    if job is None:
        return []
    stated = fields.text(job.last, "spec", "schedulerName")
    found = []
    for number, task in enumerate(job.tasks):
        own = fields.text(task, "template", "spec", "schedulerName")
        effective = own or stated or schedulers.DEFAULT_NAME
        name = str(task.get("name") or number)
        if effective.startswith(GANG_SCHEDULER):
            continue
        if own:
            found.append((name, effective, f"spec.tasks[{number}].template.spec.schedulerName", repr(own)))
        else:
            found.append((name, effective, "spec.schedulerName", repr(stated) if stated else "not set"))
    return found


def scheduler_name(s: Situation) -> Iterator[Suspect]:
    """Pods of the Job go to another scheduler than Volcano's: the field that says so is named."""
    faults = [one for one in _fields_at_fault(s) if not _answered(s, one[1])]
    if not faults or s.vcjob is None:
        return
    by_field: dict[tuple[str, str, str], list[str]] = {}
    for task, effective, field, value in faults:
        by_field.setdefault((field, value, effective), []).append(task)
    places = [
        f"{field} is {value} (task {say.listed(tasks, 4)}: pods go to {effective})"
        for (field, value, effective), tasks in by_field.items()
    ]
    fix = " and ".join(dict.fromkeys(f"set {field} to {GANG_SCHEDULER}" for field, _, _ in by_field))
    cause = Cause(
        f"schedulerName is not {GANG_SCHEDULER}: {'; '.join(places)}", f"{fix}; all tasks and the Job need it"
    )
    tasks = {task for task, *_ in faults}
    mine = [p for p in s.pods if p.task in tasks]
    stuck = [p for p in mine if p.bound is None]
    text = f"{len(mine)} pods of task {say.listed(sorted(tasks), 4)}, {len(stuck)} of them without a node"
    text += f"; {say.part(s.held, s.minimum)} members placed"
    more = {"where": say.places(stuck or mine), "rows": ("GANG-011", "GANG-008"), "look": _look(s)}
    if s.whole or s.ended or not mine:
        yield note(
            "scheduler-name", Stage.SCHEDULER, cause, f"{text}; it will half-place when room is short", **more
        )
    else:
        yield fault(
            "scheduler-name", Stage.SCHEDULER, cause, text, SURE if s.age > s.patience else LIKELY, **more
        )


def _look(s: Situation) -> tuple[str, ...]:
    jsonpath = "-o jsonpath='{.spec.schedulerName} {.spec.tasks[*].template.spec.schedulerName}'"
    return (f"kubectl get vcjob{s.space} {s.name} {jsonpath}",)


def _answered(s: Situation, scheduler: str) -> bool:
    """Report whether a scheduler of another name is Volcano's all the same: it spoke about our PodGroup."""
    group = s.group
    if group is None or scheduler == schedulers.DEFAULT_NAME:
        return False
    return any(
        said.reporter == scheduler for said in s.said("PodGroup", group.namespace, group.name, group.uid)
    )


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
        f"no scheduler called {say.listed(silent)} answers",
        f"start it, or set schedulerName to one that runs ({GANG_SCHEDULER} for gangs)",
    )
    waits = min(s.now - p.created for p in mute)
    seen = f"{len(mute)} pods ask for scheduler {say.listed(silent)}; nothing was said about them for {waits:.0f} s"
    yield fault(
        "scheduler-unknown", Stage.SCHEDULER, cause, seen, LIKELY, where=say.places(mute), rows=("REF-008",),
        evidence=tuple(p.keys["created"] for p in mute[:4]),
    )  # fmt: skip


def queue_not_open(s: Situation) -> Iterator[Suspect]:
    """The Job's queue is closed, closing, or does not exist."""
    name = s.queue_name
    if not name or s.whole or s.ended:
        return
    look = (f"kubectl get queue {name} -o yaml",)
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
                f"set spec.queue to one that does ({say.listed(sorted(known), 6)})"
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
    if state in ("Closed", "Closing") and waits:
        cause = Cause(
            f"the queue {name!r} is {state}: it takes no gang, and gives none of its waiting ones a place",
            f"open it (vcctl queue operate --action open --name {name}), or submit to an open queue",
        )
        seen = f"Queue {name} has status.state {state}; {say.part(s.held, s.minimum)} members placed"
        yield fault(
            "queue-closed", Stage.QUEUE, cause, seen, where=(f"Queue/{name}",), evidence=(line.key,), rows=("REF-004",),
            look=look,
        )  # fmt: skip
