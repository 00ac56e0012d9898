"""What became of the objects that stand for a gang: Volcano and batch Jobs, JobSets, PodGroups, and their events."""

import dataclasses
from collections.abc import Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.plain import names

COMPLETED = ("Completed", "Complete")
"""Phases of Jobs, of Volcano and of Kubernetes, that ended well."""


@dataclasses.dataclass(frozen=True)
class Said:
    """A reason that a component gave: who, about what, which reason, when."""

    t: float
    reporter: str
    obj: str
    type: str
    reason: str
    message: str
    key: str
    namespace: str = ""


@dataclasses.dataclass(frozen=True)
class Stated:
    """A number that an object states from a time on, until another one takes its place."""

    t: float
    value: int
    key: str


@dataclasses.dataclass(frozen=True)
class GroupStory:
    """The life of one PodGroup object, of Volcano or of Kubernetes itself.

    Attributes:
        native: the PodGroup of scheduling.k8s.io.
        minimum: minMember (Volcano) or gang.minCount (native), as last stated; 0 where the group states none.
        minimums: all that it ever stated, one per change.
        phases: (t, phase, key), one per change; no phase at all means that no scheduler has looked at it.
        conditions: conditions that are not fulfilled placement, one per change, as things said.
    """

    uid: str
    name: str
    namespace: str
    native: bool
    minimum: int
    minimums: tuple[Stated, ...]
    queue: str
    owner_uid: str
    created: float
    deleted: float | None
    phases: tuple[tuple[float, str, str], ...]
    conditions: tuple[Said, ...]
    last: fields.Object
    key: str

    @property
    def kind(self) -> str:
        """Return its kind key."""
        return names.NATIVE_POD_GROUP if self.native else names.POD_GROUP


@dataclasses.dataclass(frozen=True)
class JobStory:
    """The life of one Volcano Job, batch Job or JobSet.

    Attributes:
        kind: kind key.
        phases: (t, phase, key), one per change; of a batch Job: Complete or Failed, of a JobSet: Completed or Failed.
        minimums: how many members it ever asked to be placed together, one per change; 0 where it does not say.
        tasks: the task entries of a Volcano Job.
    """

    uid: str
    name: str
    namespace: str
    kind: str
    created: float
    deleted: float | None
    phases: tuple[tuple[float, str, str], ...]
    last: fields.Object
    key: str
    minimums: tuple[Stated, ...] = ()

    @property
    def tasks(self) -> list[fields.Object]:
        """Return spec.tasks."""
        return fields.items(self.last, "spec", "tasks")

    @property
    def size(self) -> int:
        """Return how many pods the Job asks for at a time, 0 where it does not say."""
        if self.kind == names.VC_JOB:
            return sum(fields.number(task, "replicas") or 0 for task in self.tasks)
        if self.kind == names.JOBSET:
            return sum(replicas_of(one) * pods_of_job(fields.sub(one, "template")) for one in self.replicated)
        return pods_of_job(self.last)

    @property
    def replicated(self) -> list[fields.Object]:
        """Return spec.replicatedJobs of a JobSet."""
        return fields.items(self.last, "spec", "replicatedJobs")

    @property
    def owner_uid(self) -> str:
        """Return the uid of what controls it (the JobSet of a batch Job), "" for nothing."""
        return fields.text(fields.owner(self.last), "uid")

    @property
    def plugins(self) -> fields.Object:
        """Return spec.plugins of a Volcano Job."""
        return fields.sub(self.last, "spec", "plugins")

    @property
    def gang_minimum(self) -> int:
        """Return how many members a batch Job asks to be placed together (a native gang), 0 where it does not ask."""
        return fields.number(self.last, *_MINIMUM[names.BATCH_JOB]) or 0

    @property
    def led(self) -> bool:
        """Report whether a batch Job says that the end of its first member completes it (successPolicy)."""
        rules = fields.items(self.last, "spec", "successPolicy", "rules")
        return any(rule.get("succeededIndexes") == "0" for rule in rules)

    @property
    def completed(self) -> float | None:
        """Return when the Job was first seen to have ended well, None if never."""
        return next((t for t, name, _ in self.phases if name in COMPLETED), None)

    def phase_time(self, phase: str) -> float | None:
        """Return when a phase was first seen."""
        return next((t for t, name, _ in self.phases if name == phase), None)

    @property
    def phase(self) -> str:
        """Return the last phase."""
        return self.phases[-1][1] if self.phases else ""


def pods_of_job(job: fields.Object) -> int:
    """Return how many pods a batch Job, or the template of one, asks for at a time."""
    parallelism = fields.number(job, "spec", "parallelism")
    parallelism = 1 if parallelism is None else parallelism
    completions = fields.number(job, "spec", "completions")
    return parallelism if completions is None else min(parallelism, completions)


def replicas_of(replicated: fields.Object) -> int:
    """Return how many Jobs a replicated Job of a JobSet asks for."""
    count = fields.number(replicated, "replicas")
    return 1 if count is None else count


_MINIMUM: Mapping[str, tuple[str, ...]] = {
    names.POD_GROUP: ("spec", "minMember"),
    names.NATIVE_POD_GROUP: ("spec", "schedulingPolicy", "gang", "minCount"),
    names.VC_JOB: ("spec", "minAvailable"),
    names.BATCH_JOB: ("spec", "scheduling", "schedulingPolicy", "gang", "minCount"),
}
"""Kind -> the field in which it says how many members must be placed together."""


def _stated(lines: tuple[Line, ...]) -> tuple[Stated, ...]:
    found: list[Stated] = []
    for line in lines:
        place = _MINIMUM.get(line.kind)
        value = (fields.number(line.object, *place) or 0) if place else 0
        if not found or found[-1].value != value:
            found.append(Stated(line.t, value, line.key))
    return tuple(found)


_ENDS: Mapping[str, tuple[str, ...]] = {
    names.BATCH_JOB: ("Complete", "Failed"),
    names.JOBSET: ("Completed", "Failed"),
}
"""Kind of a Job that tells its end by conditions -> their types."""


def _changes(lines: tuple[Line, ...], read: str) -> tuple[tuple[float, str, str], ...]:
    found: list[tuple[float, str, str]] = []
    for line in lines:
        status = fields.sub(line.object, "status")
        if read in _ENDS:
            phase = next(
                (
                    str(c.get("type"))
                    for c in fields.items(status, "conditions")
                    if c.get("type") in _ENDS[read] and c.get("status") == "True"
                ),
                "",
            )
        else:
            phase = fields.text(status, "state", "phase") if read == "job" else fields.text(status, "phase")
        if phase and (not found or found[-1][1] != phase):
            found.append((line.t, phase, line.key))
    return tuple(found)


def _deleted(lines: tuple[Line, ...]) -> float | None:
    return lines[-1].t if lines[-1].type == "DELETED" else None


def _conditions(lines: tuple[Line, ...]) -> tuple[Said, ...]:
    found: list[Said] = []
    seen: set[tuple[str, str, str, str]] = set()
    for line in lines:
        for c in fields.items(line.object, "status", "conditions"):
            mark = (
                str(c.get("type")),
                str(c.get("status")),
                str(c.get("reason") or ""),
                str(c.get("message") or ""),
            )
            if mark in seen:
                continue
            seen.add(mark)
            found.append(
                Said(line.t, "", f"PodGroup/{line.name}", f"{mark[0]}={mark[1]}", mark[2], mark[3], line.key)
            )
    return tuple(found)


def _group(lines: tuple[Line, ...]) -> GroupStory:
    last = lines[-1].object
    minimums = _stated(lines)
    return GroupStory(
        uid=lines[-1].uid,
        name=lines[-1].name,
        namespace=fields.text(last, "metadata", "namespace"),
        native=lines[-1].kind == names.NATIVE_POD_GROUP,
        minimum=minimums[-1].value,
        minimums=minimums,
        queue=fields.text(last, "spec", "queue"),
        owner_uid=fields.text(fields.owner(last), "uid"),
        created=lines[0].t,
        deleted=_deleted(lines),
        phases=_changes(lines, "group"),
        conditions=_conditions(lines),
        last=last,
        key=lines[0].key,
    )


def _job(kind: str, lines: tuple[Line, ...]) -> JobStory:
    last = lines[-1].object
    return JobStory(
        uid=lines[-1].uid,
        name=lines[-1].name,
        namespace=fields.text(last, "metadata", "namespace"),
        kind=kind,
        created=lines[0].t,
        deleted=_deleted(lines),
        phases=_changes(lines, "job" if kind == names.VC_JOB else kind),
        minimums=_stated(lines),
        last=last,
        key=lines[0].key,
    )


def read_groups(evidence: Evidence) -> tuple[GroupStory, ...]:
    """Return the story of every PodGroup, in order of first appearance."""
    found = [
        _group(evidence.history(uid))
        for kind in (names.POD_GROUP, names.NATIVE_POD_GROUP)
        for uid in evidence.uids(kind)
        if uid
    ]
    return tuple(sorted(found, key=lambda group: group.created))


def read_jobs(evidence: Evidence) -> tuple[JobStory, ...]:
    """Return the story of every Volcano Job, batch Job and JobSet, in order of first appearance."""
    found = [
        _job(kind, evidence.history(uid))
        for kind in (names.VC_JOB, names.BATCH_JOB, names.JOBSET)
        for uid in evidence.uids(kind)
        if uid
    ]
    return tuple(sorted(found, key=lambda job: job.created))


def event_said(line: Line) -> Said:
    """Return an Event line as something said; both event APIs are read."""
    obj = line.object
    about = fields.sub(obj, "involvedObject") or fields.sub(obj, "regarding")
    reporter = (
        fields.text(obj, "source", "component")
        or fields.text(obj, "reportingComponent")
        or fields.text(obj, "reportingController")
        or fields.text(obj, "deprecatedSource", "component")
    )
    message = fields.text(obj, "message") or fields.text(obj, "note")
    return Said(
        line.t, reporter, f"{about.get('kind')}/{about.get('name')}", fields.text(obj, "type"),
        fields.text(obj, "reason"), message, line.key, str(about.get("namespace") or ""),
    )  # fmt: skip


def read_events(evidence: Evidence) -> Mapping[str, tuple[Said, ...]]:
    """Return what was said, by uid of the object and by `Kind/namespace/name` for events that carry no uid.

    An aggregated event says the same again with every rise of its count: each line counts at its own time.
    """
    found: dict[str, list[Said]] = {}
    for line in evidence.of_kind("Event"):
        if line.type == "DELETED":
            continue
        about = fields.sub(line.object, "involvedObject") or fields.sub(line.object, "regarding")
        key = str(about.get("uid") or f"{about.get('kind')}/{about.get('namespace')}/{about.get('name')}")
        found.setdefault(key, []).append(event_said(line))
    return {key: tuple(said) for key, said in found.items()}


def said_about(evidence: Evidence, kind: str, namespace: str, name: str, uid: str) -> tuple[Said, ...]:
    """Return the events about one object, in order."""
    events = evidence.derived(read_events)
    found = (*events.get(uid, ()), *events.get(f"{kind}/{namespace}/{name}", ()))
    return tuple(sorted(found, key=lambda said: said.t))


def all_said(evidence: Evidence) -> tuple[Said, ...]:
    """Return every event, in order."""
    found = [said for many in evidence.derived(read_events).values() for said in many]
    return tuple(sorted(found, key=lambda said: said.t))


def groups(evidence: Evidence) -> tuple[GroupStory, ...]:
    """Return the story of every PodGroup; read once per evidence."""
    return evidence.derived(read_groups)


def jobs(evidence: Evidence) -> tuple[JobStory, ...]:
    """Return the story of every Volcano Job, batch Job and JobSet; read once per evidence."""
    return evidence.derived(read_jobs)
