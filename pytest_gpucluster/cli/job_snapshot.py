"""What `gpucluster diagnose` reads of a cluster: plain lists and gets, each of which may be forbidden."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_gpucluster.diagnose import Log
from pytest_gpucluster.evidence.log import kubectl
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.kube import errors, kinds
from pytest_gpucluster.kube.objects import Objects
from pytest_gpucluster.plain import names

Obj = dict[str, Any]

JOB = kinds.KindInfo("batch.volcano.sh/v1alpha1", "Job", "jobs")
GROUP = kinds.KindInfo("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
QUEUE = kinds.KindInfo("scheduling.volcano.sh/v1beta1", "Queue", "queues", namespaced=False)
POD = kinds.KindInfo("v1", "Pod", "pods")
EVENT = kinds.KindInfo("v1", "Event", "events")
NODE = kinds.KindInfo("v1", "Node", "nodes", namespaced=False)
NAMESPACE = kinds.KindInfo("v1", "Namespace", "namespaces", namespaced=False)

BESIDE = (
    kinds.KindInfo("v1", "Service", "services"),
    kinds.KindInfo("v1", "ResourceQuota", "resourcequotas"),
    kinds.KindInfo("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    kinds.KindInfo("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
)
"""Kinds of the job's namespace that are listed whole."""

CONFIG_MAP = kinds.KindInfo("v1", "ConfigMap", "configmaps")

LABEL_JOB = "volcano.sh/job-name"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"

TAIL = 200
"""Lines of a container's log that are read."""
MOST_LOGS = 32
"""Pods whose logs are read: those in trouble first."""


@dataclasses.dataclass
class Collected:
    """What was read, and what could not be.

    Attributes:
        looked: kind key -> how many there are, of kinds that were listed whole.
        extra: answers of the API server that matter, as lines of evidence.
    """

    objects: list[Obj] = dataclasses.field(default_factory=list)
    logs: list[Log] = dataclasses.field(default_factory=list)
    extra: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    looked: dict[str, int] = dataclasses.field(default_factory=dict)
    now: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))

    @property
    def jobs(self) -> list[str]:
        """Return the names of the Volcano Jobs in the namespace."""
        return sorted(
            str(o["metadata"]["name"]) for o in self.objects if o.get("apiVersion") == JOB.api_version
        )


class Collector:
    """Reads what there is of one job; what is forbidden or not served is noted, and the rest is read all the same."""

    def __init__(self, api: Objects, namespace: str, name: str) -> None:
        """Read nothing yet."""
        self.api = api
        self.namespace = namespace
        self.name = name
        self.kind = ""
        """How the command line called the kind, "" for a Volcano Job."""
        self.absent = ""
        """Why the subject is known not to exist, "" where it does, or may."""
        self.found = Collected()

    def collect(self) -> Collected:
        """Read everything and return it.

        Raises:
            Unreachable: the API server does not answer.
        """
        self.found = Collected()
        jobs = self._list(JOB, self.namespace, case="api:Job.batch.volcano.sh")
        if jobs is None:
            one = self._get(JOB, self.name, self.namespace)
            jobs = [one] if one is not None else []
        self.found.objects += jobs
        self._everywhere(GROUP)
        self._pods()
        self._beside()
        return self.found

    @property
    def watched(self) -> tuple[kinds.KindInfo, ...]:
        """Return the kinds whose changes may change the diagnosis."""
        return (JOB, GROUP, POD, EVENT)

    def is_subject(self, uids: Iterable[str]) -> bool:
        """Report whether one of some objects, by uid, is one of the subject's pods."""
        mine = {
            str(o["metadata"].get("uid"))
            for o in self.found.objects
            if o.get("kind") == "Pod" and self.own(o)
        }
        return not mine.isdisjoint(uids)

    def own(self, obj: Mapping[str, Any]) -> bool:
        """Report whether a pod is one of the job."""
        metadata = obj.get("metadata") or {}
        labels = metadata.get("labels") or {}
        return metadata.get("namespace") == self.namespace and labels.get(LABEL_JOB) == self.name

    # -- parts -------------------------------------------------------------------------------------------------------

    def _list(
        self, info: kinds.KindInfo, namespace: str | None, *, case: str = "", **selectors: str
    ) -> list[Obj] | None:
        """Return the objects of a kind; None, and a note, where they may not be read or are not served."""
        try:
            found = self.api.list(info, namespace, **selectors)
        except errors.ApiError as error:
            missing = case if error.code == 404 and case else f"collect:{info.key}"
            self._note(missing, f"list {info.plural}", error)
            return None
        if not selectors:
            self.found.looked[info.key] = len(found)
        return found

    def _get(self, info: kinds.KindInfo, name: str, namespace: str | None) -> Obj | None:
        try:
            return self.api.get(info, name, namespace)
        except errors.ApiError as error:
            if error.code != 404:
                self._note(f"collect:{info.key}", f"get {info.plural} {name}", error)
            return None

    def _note(self, case: str, request: str, error: errors.ApiError) -> None:
        status = {"reason": error.reason, "message": error.message or error.reason}
        line = {"type": "RESPONSE", "case": case, "request": request, "code": error.code, "status": status}
        if line not in self.found.extra:
            self.found.extra.append(line)

    def _everywhere(self, info: kinds.KindInfo) -> None:
        """Take the objects of all namespaces, or of the job's where that is all that may be read."""
        every = self._list(info, None)
        if every is None:
            every = self._list(info, self.namespace)
        self.found.objects += every or []

    def _beside(self) -> None:
        """Read what stands beside the job: queues, nodes, its namespace's other objects, events and logs."""
        self._queue_and_nodes()
        for info in BESIDE:
            self.found.objects += self._list(info, self.namespace) or []
        for name in self._volcano_jobs():
            if (shared := self._get(CONFIG_MAP, f"{name}-svc", self.namespace)) is not None:
                self.found.objects.append(shared)
        self._events()
        self._logs()
        self.found.now = max([datetime.now(UTC), *(t for o in self.found.objects if (t := kubectl.stamp(o)))])

    def _volcano_jobs(self) -> list[str]:
        """Return the Volcano Jobs of the subject, whose plugin svc makes a ConfigMap."""
        return [self.name]

    def _pods(self) -> None:
        mine = self._list(POD, self.namespace, labels=f"{LABEL_JOB}={self.name}") or []
        others = self._list(POD, None, fields=UNFINISHED)
        if others is None:
            others = self._list(POD, self.namespace, fields=UNFINISHED)
        self.found.objects += mine
        self.found.objects += [slim(pod) for pod in others or [] if not self.own(pod)]

    def _queue_and_nodes(self) -> None:
        self.found.objects += self._list(QUEUE, None) or []
        self.found.objects += [slim(node) for node in self._list(NODE, None) or []]
        space = self._get(NAMESPACE, self.namespace, None)
        self.found.objects += [space] if space is not None else []

    def _events(self) -> None:
        self.found.objects += [e for e in self._list(EVENT, self.namespace) or [] if self.about(e)]

    def about(self, event: Mapping[str, Any]) -> bool:
        """Report whether an event is about the job, its PodGroup or one of its pods."""
        name = str((event.get("involvedObject") or event.get("regarding") or {}).get("name") or "")
        return name == self.name or name.startswith(f"{self.name}-")

    def _logs(self) -> None:
        mine = [o for o in self.found.objects if o.get("kind") == "Pod" and self.own(o)]
        read = sorted(mine, key=lambda pod: (_fine(pod), str(pod["metadata"]["name"])))
        for pod in read[:MOST_LOGS]:
            self._logs_of(pod)
        if len(read) > MOST_LOGS:
            left = f"logs of {len(read) - MOST_LOGS} more pods (those in trouble and the first {MOST_LOGS} were read)"
            self.found.extra.append({
                "type": "RESPONSE", "case": "collect:log", "request": left, "code": 0,
                "status": {"message": "left out"},
            })  # fmt: skip

    def _logs_of(self, pod: Obj) -> None:
        name, uid = str(pod["metadata"]["name"]), str(pod["metadata"].get("uid") or "")
        for status in _statuses(pod):
            container = str(status.get("name") or "")
            runs = [True] if status.get("restartCount") else []
            runs += [False] if containers.began(status) else []
            for previous in runs:
                try:
                    text = self.api.logs(
                        name, self.namespace, container=container, previous=previous, tail=TAIL
                    )
                except errors.ApiError as error:
                    self._note("collect:log", "read logs", error)
                    continue
                except errors.Unreachable as error:
                    self._note("collect:log", "read logs", errors.ApiError(0, "Unreachable", str(error)))
                    continue
                self.found.logs.append(Log(name, uid, container, text, previous))


def _statuses(pod: Obj) -> Iterable[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _fine(pod: Obj) -> bool:
    """Report whether a pod runs without a restart: its log is the least interesting."""
    return (pod.get("status") or {}).get("phase") == "Running" and not any(
        s.get("restartCount") for s in _statuses(pod)
    )


KEPT_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "labels",
    "ownerReferences",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
KEPT_SPEC = (
    "nodeName", "schedulerName", "restartPolicy", "overhead", "resources", "terminationGracePeriodSeconds",
)  # fmt: skip
"""Fields of a pod that tell how much room it takes, and until when."""


def slim(obj: Obj) -> Obj:
    """Return of somebody else's pod, or a node, what tells how much room it takes or gives."""
    metadata = {k: v for k, v in obj["metadata"].items() if k in KEPT_METADATA}
    if obj["kind"] == "Node":
        status = {
            k: v
            for k, v in (obj.get("status") or {}).items()
            if k in ("capacity", "allocatable", "conditions")
        }
        return {**obj, "metadata": metadata, "status": status}
    group = (obj["metadata"].get("annotations") or {}).get(names.ANNOTATION_GROUP)
    if group:
        metadata["annotations"] = {names.ANNOTATION_GROUP: group}
    spec = obj.get("spec") or {}
    kept = {k: spec[k] for k in KEPT_SPEC if k in spec}
    for part in ("initContainers", "containers"):
        if part in spec or part == "containers":
            kept[part] = [
                {k: box[k] for k in ("name", "restartPolicy", "resources") if k in box}
                for box in spec.get(part) or []
            ]
    status = obj.get("status") or {}
    told = {k: status[k] for k in ("phase", "conditions", "startTime") if k in status}
    return {**obj, "metadata": metadata, "spec": kept, "status": told}


def near(name: str, known: Sequence[str]) -> str:
    """Return the end of a line that says that a job does not exist."""
    match = names.nearest(name, known)
    hint = f"; did you mean {match!r}?" if match else ""
    return (
        f"{hint} ({', '.join(known[:12]) if known else 'there are none'}{' ...' if len(known) > 12 else ''})"
    )
