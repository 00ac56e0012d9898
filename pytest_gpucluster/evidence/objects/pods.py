"""What became of each pod: one story a pod uid, read once from its watch lines."""

import dataclasses
from collections.abc import Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.plain import names

STARTING = ("ContainerCreating", "PodInitializing")
"""Reasons of containers' states, as kubelets write them."""

FINISHED = ("Succeeded", "Failed")

PER_POD_GROUP = "podgroup-"
"""Prefix of the PodGroup that Volcano makes for a pod, or a controller, that names none."""

ANNOTATION_INDEX = "batch.kubernetes.io/job-completion-index"
LABEL_VC_JOB = "volcano.sh/job-name"
LABEL_TASK = "volcano.sh/task-spec"
LABEL_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
"""On Jobs and pods of a JobSet, as the next ones."""
LABEL_JOB_OF_SET = "jobset.sigs.k8s.io/job-global-index"
"""Which of the set's Jobs it is, over all replicated Jobs."""
LABEL_SET_UID = "jobset.sigs.k8s.io/jobset-uid"


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A PodScheduled=False condition of an unbound pod, at the time when it appeared."""

    t: float
    reason: str
    message: str
    key: str


@dataclasses.dataclass(frozen=True)
class PodStory:
    """The life of one pod, identified by uid. Times are seconds of the evidence; None: not seen.

    Attributes:
        bound: when spec.nodeName was first seen.
        running: when phase Running was first seen; a short process may skip it.
        finished: when phase Succeeded or Failed was first seen without a deletion having been asked before.
        ended: when all its containers were first seen to have ended, never to start again, without a deletion having
            been asked before. A kubelet writes the phase a second or more after that.
        deleting: when a deletionTimestamp was first seen.
        deleted: when the object went away.
        phase: the last phase.
        last: the last object.
        waiting: PodScheduled=False conditions while unbound, one per change.
    """

    uid: str
    name: str
    namespace: str
    created: float
    bound: float | None
    node: str
    running: float | None
    finished: float | None
    ended: float | None
    deleting: float | None
    deleted: float | None
    phase: str
    last: fields.Object
    waiting: tuple[Waiting, ...]
    keys: Mapping[str, str]
    """Keys of the lines that decided: created, bound, running, finished, deleting, deleted."""
    stuck: str = ""
    """Why a container could not be started, as last said before the pod was deleted: then kubelets say no more."""

    @property
    def labels(self) -> fields.Object:
        """Return the labels."""
        return fields.sub(self.last, "metadata", "labels")

    @property
    def annotations(self) -> fields.Object:
        """Return the annotations."""
        return fields.sub(self.last, "metadata", "annotations")

    @property
    def task(self) -> str:
        """Return the task (role) of the pod in its Volcano Job, or its replicated Job in its JobSet, or ""."""
        stated = self.labels.get(LABEL_TASK) or self.annotations.get(LABEL_TASK)
        return str(stated or self.labels.get(LABEL_REPLICATED_JOB) or "")

    @property
    def scheduler(self) -> str:
        """Return spec.schedulerName, which the API server defaults to default-scheduler."""
        return fields.text(self.last, "spec", "schedulerName") or "default-scheduler"

    @property
    def ip(self) -> str:
        """Return the last pod IP, or ""."""
        return fields.text(self.last, "status", "podIP")

    @property
    def slot(self) -> str:
        """Return the place in the gang: what stays the same when the pod is made again."""
        index = self.annotations.get(ANNOTATION_INDEX)
        if index is None:
            index = self.labels.get(ANNOTATION_INDEX)
        if index is None:
            return self.name
        job = self.labels.get(LABEL_JOB_OF_SET)
        return f"index {index}" if job is None else f"job {job} index {index}"

    @property
    def group_name(self) -> str:
        """Return the name of the PodGroup that the pod names, Volcano's or a native one, or ""."""
        native = fields.text(self.last, "spec", "schedulingGroup", "podGroupName")
        return native or str(self.annotations.get(names.ANNOTATION_GROUP) or "")

    @property
    def native_group(self) -> bool:
        """Report whether the PodGroup that it names is the one of Kubernetes itself."""
        return bool(fields.text(self.last, "spec", "schedulingGroup", "podGroupName"))

    @property
    def exit_codes(self) -> tuple[tuple[str, int], ...]:
        """Return (container, exit code) of the containers that ran to an end, without what was put beside them."""
        found = []
        asked = containers.own_names(self.last)
        for status in fields.items(self.last, "status", "containerStatuses"):
            if asked and str(status.get("name")) not in asked:
                continue
            code = fields.number(containers.end_of(status), "exitCode")
            if code is not None:
                found.append((str(status.get("name")), code))
        return tuple(found)

    @property
    def grace(self) -> float:
        """Return terminationGracePeriodSeconds; 30 is the API's default."""
        seconds = fields.number(self.last, "spec", "terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    @property
    def where(self) -> str:
        """Return the pod and its node as a finding names them."""
        return f"Pod/{self.name} on {self.node}" if self.node else f"Pod/{self.name} (unbound)"

    def there(self, t: float) -> bool:
        """Report whether the object existed at a time."""
        return self.created <= t and (self.deleted is None or t < self.deleted)

    def going(self, t: float) -> bool:
        """Report whether its deletion had been asked for, or it was gone, at a time."""
        return any(when is not None and when <= t for when in (self.deleting, self.deleted))

    def blocked(self) -> str:
        """Return why a bound pod's containers did not start (image, start error, rejection), or ""."""
        reason = fields.text(self.last, "status", "reason")
        if reason and self.phase == "Failed":
            return reason
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(self.last, "status", part):
                waiting = fields.text(status, "state", "waiting", "reason")
                if waiting and waiting not in STARTING:
                    return waiting
                ended = fields.text(status, "state", "terminated", "reason")
                if ended in ("StartError", "ContainerCannotRun"):
                    return ended
                if containers.never_ran(status):
                    return self.stuck
        return ""


def _stuck(pod: fields.Object) -> str:
    for part in ("initContainerStatuses", "containerStatuses"):
        for status in fields.items(pod, "status", part):
            waiting = fields.text(status, "state", "waiting", "reason")
            if waiting and waiting not in STARTING:
                return waiting
    return ""


def _tell(lines: tuple[Line, ...], start: float) -> PodStory:
    """Read the lines of one uid; one that is first seen changed existed when the evidence started."""
    times: dict[str, float] = {}
    keys: dict[str, str] = {}
    waiting: list[Waiting] = []
    node = phase = stuck = ""

    def once(what: str, line: Line) -> None:
        if what not in times:
            times[what] = line.t
            keys[what] = line.key

    for line in lines:
        once("created", line)
        spec, status = fields.sub(line.object, "spec"), fields.sub(line.object, "status")
        phase = str(status.get("phase") or phase)
        if line.type == "DELETED":
            once("deleted", line)
        if fields.sub(line.object, "metadata").get("deletionTimestamp"):
            once("deleting", line)
        if spec.get("nodeName"):
            once("bound", line)
            node = node or str(spec["nodeName"])
        elif line.type != "DELETED":
            _wait(line, waiting)
        if "deleting" not in times:
            stuck = _stuck(line.object)
        if (
            "deleting" not in times
            and "deleted" not in times
            and (phase in FINISHED or _is_over(line.object))
        ):
            once("ended", line)
        if phase == "Running":
            once("running", line)
        elif phase in FINISHED and "deleting" not in times and "deleted" not in times:
            once("finished", line)
    last = lines[-1].object
    return PodStory(
        uid=lines[-1].uid,
        name=lines[-1].name,
        namespace=fields.text(last, "metadata", "namespace"),
        created=times["created"] if lines[0].type == "ADDED" else start,
        bound=times.get("bound"),
        node=node,
        running=times.get("running"),
        finished=times.get("finished"),
        ended=times.get("ended"),
        deleting=times.get("deleting"),
        deleted=times.get("deleted"),
        phase=phase,
        last=last,
        waiting=tuple(waiting),
        keys=keys,
        stuck=stuck,
    )


def _is_over(pod: fields.Object) -> bool:
    """Report whether all containers that its author asked for have ended, in a pod that starts none again."""
    if fields.text(pod, "spec", "restartPolicy") != "Never":
        return False
    asked = containers.own_names(pod)
    ended = {
        str(status.get("name"))
        for status in fields.items(pod, "status", "containerStatuses")
        if fields.number(containers.end_of(status), "exitCode") is not None
    }
    return bool(asked) and asked <= ended


def _wait(line: Line, waiting: list[Waiting]) -> None:
    found = fields.condition(line.object, "PodScheduled")
    if found.get("status") != "False":
        return
    reason, message = str(found.get("reason") or ""), str(found.get("message") or "")
    if not waiting or (waiting[-1].reason, waiting[-1].message) != (reason, message):
        waiting.append(Waiting(line.t, reason, message, line.key))


def read_pods(evidence: Evidence) -> tuple[PodStory, ...]:
    """Return the story of every pod, in order of first appearance."""
    start = evidence.lines[0].t if evidence.lines else 0.0
    return tuple(_tell(evidence.history(uid), start) for uid in evidence.uids("Pod") if uid)


def pods(evidence: Evidence) -> tuple[PodStory, ...]:
    """Return the story of every pod; read once per evidence."""
    return evidence.derived(read_pods)
