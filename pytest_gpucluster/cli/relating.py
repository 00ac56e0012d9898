"""What `gpucluster diagnose` reads of another subject than a Volcano Job: the object, its owners, and what they own."""

from collections.abc import Iterable, Mapping, Sequence

from pytest_gpucluster.cli import job_snapshot
from pytest_gpucluster.cli.job_snapshot import EVENT, GROUP, JOB, POD, Collected, Collector, Obj
from pytest_gpucluster.diagnose import owning
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.kube import errors, kinds
from pytest_gpucluster.kube.objects import Objects
from pytest_gpucluster.plain import names

BATCH = kinds.KindInfo("batch/v1", "Job", "jobs")
NATIVE = kinds.KindInfo("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups")
JOBSET = kinds.KindInfo("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
RAY = kinds.KindInfo("ray.io/v1", "RayCluster", "rayclusters")
WORKLOAD = kinds.KindInfo("kueue.x-k8s.io/v1beta2", "Workload", "workloads")
OLD_WORKLOAD = kinds.KindInfo("kueue.x-k8s.io/v1beta1", "Workload", "workloads")

_OPERATED = {
    "TrainJob": ("trainer.kubeflow.org/v1alpha1",),
    "RayJob": ("ray.io/v1",),
    "MPIJob": ("kubeflow.org/v2beta1", "kubeflow.org/v1"),
    "AppWrapper": ("workload.codeflare.dev/v1beta2",),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1",),
    "SparkApplication": ("sparkoperator.k8s.io/v1beta2",),
    **dict.fromkeys(("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"), ("kubeflow.org/v1",)),
}

SUBJECTS: Mapping[str, tuple[kinds.KindInfo, ...]] = {
    names.VC_JOB: (JOB,),
    names.BATCH_JOB: (BATCH,),
    names.POD_GROUP: (GROUP,),
    names.NATIVE_POD_GROUP: (NATIVE,),
    "Pod": (POD,),
    "JobSet": (JOBSET,),
    "RayCluster": (RAY,),
    names.KUEUE_WORKLOAD: (WORKLOAD, OLD_WORKLOAD),
    **{
        kind: tuple(kinds.KindInfo(version, kind, f"{kind.lower()}s") for version in versions)
        for kind, versions in _OPERATED.items()
    },
}
"""Kind key -> where it may be served, the likeliest first: every kind that a diagnosis knows how to read."""

OWNED = (BATCH, JOB, JOBSET, RAY, GROUP, NATIVE, WORKLOAD, OLD_WORKLOAD)
"""Kinds that stand between a subject and its pods, or for it: listed where they are served."""

HIGHEST = 8
"""So many owners above one another are followed."""


def key_of(word: str) -> str | None:
    """Return the kind key that a word of a command line stands for, None for an unknown one."""
    first, _, group = word.partition(".")
    for key, infos in SUBJECTS.items():
        if word in owning.called(key) or (key == "Pod" and word == "po"):
            return key
        if group and first in owning.called(key) and any(info.group == group for info in infos):
            return key
    return None


def words() -> list[str]:
    """Return the words by which kinds are called, one or two a kind."""
    return sorted(word for key in SUBJECTS for word in owning.called(key)[:2])


class Related(Collector):
    """Reads one object by its name, the objects that own it, and the pods that any of them own."""

    def __init__(self, api: Objects, namespace: str, name: str, key: str) -> None:
        """Read nothing yet."""
        super().__init__(api, namespace, name)
        self.key = key
        self.kind = owning.called(key)[0]
        self._related: dict[str, Obj] = {}
        self._infos: dict[str, kinds.KindInfo] = {}
        self._mine: set[str] = set()

    def collect(self) -> Collected:
        """Read everything and return it.

        Raises:
            Unreachable: the API server does not answer.
        """
        self.found = Collected()
        self.absent, self._related, self._mine = "", {}, set()
        subject = self._the_subject()
        if self.absent:
            return self.found
        there = [obj for info in OWNED for obj in self._served(info)]
        pods = self._list(POD, self.namespace) or []
        self._take([subject] if subject is not None else [])
        self._grow(there, pods)
        self.found.objects += [obj for obj in there if _uid(obj) not in self._related]
        self.found.objects += [obj for obj in self._related.values() if obj.get("kind") != "Pod"]
        self.found.objects += [pod if self.own(pod) else job_snapshot.slim(pod) for pod in pods]
        self._elsewhere()
        self._beside()
        return self.found

    def own(self, obj: Mapping[str, object]) -> bool:
        """Report whether a pod is one of the subject's."""
        return _uid(obj) in self._mine

    def about(self, event: Mapping[str, object]) -> bool:
        """Report whether an event is about the subject, what owns it, or one of the pods."""
        told = fields.sub(dict(event), "involvedObject") or fields.sub(dict(event), "regarding")
        if str(told.get("uid") or "") in self._related.keys() | self._mine:
            return True
        name = str(told.get("name") or "")
        known = {str(obj["metadata"]["name"]) for obj in self._related.values()} | {self.name}
        return any(name == one or name.startswith(f"{one}-") for one in known)

    @property
    def watched(self) -> tuple[kinds.KindInfo, ...]:
        """Return the kinds whose changes may change the diagnosis."""
        return tuple(dict.fromkeys([*self._infos.values(), GROUP, POD, EVENT]))

    def is_subject(self, uids: Iterable[str]) -> bool:
        """Report whether one of some objects belongs to the subject."""
        return any(uid in self._related or uid in self._mine for uid in uids if uid)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _the_subject(self) -> Obj | None:
        """Return the object itself; None, and why, where it is not there."""
        unserved: errors.ApiError | None = None
        for info in SUBJECTS[self.key]:
            try:
                known = self.api.list(info, self.namespace)
            except errors.ApiError as error:
                unserved = unserved or error
                if error.code == 404:
                    continue
                return self._get(info, self.name, self.namespace)
            self._infos[info.key] = info
            self.found.looked[info.key] = len(known)
            named = [obj for obj in known if obj["metadata"]["name"] == self.name]
            if not named:
                near = job_snapshot.near(self.name, sorted(str(obj["metadata"]["name"]) for obj in known))
                self.absent = f"no {self.kind} {self.name!r} in namespace {self.namespace!r}{near}"
            return named[0] if named else None
        served = " or ".join(info.api_version for info in SUBJECTS[self.key])
        self.absent = f"the cluster does not serve {SUBJECTS[self.key][0].plural} of {served}"
        return None

    def _served(self, info: kinds.KindInfo) -> list[Obj]:
        """Return the objects of a kind, none where it is not served; that it is forbidden is noted."""
        spaces = (None, self.namespace) if info == GROUP else (self.namespace,)
        for space in spaces:
            try:
                found = self.api.list(info, space)
            except errors.ApiError as error:
                if error.code != 404 and space == spaces[-1]:
                    self._note(f"collect:{info.key}", f"list {info.plural}", error)
                continue
            self.found.looked[info.key] = len(found)
            if found:
                self._infos[info.key] = info
            return found
        return []

    def _grow(self, there: Sequence[Obj], pods: Sequence[Obj]) -> None:
        """Take what owns the subject and what is owned, until nothing new is found."""
        before = -1
        while before != len(self._related) + len(self._mine):
            before = len(self._related) + len(self._mine)
            mine = [pod for pod in pods if self.own(pod)]
            self._take(self._owners([*self._related.values(), *mine], there))
            self._take(obj for obj in there if self._owned(obj) or _group_of(obj, mine))
            self._mine |= {_uid(pod) for pod in pods if self._owned(pod) or self._grouped(pod)}

    def _take(self, objects: Iterable[Obj]) -> None:
        for obj in objects:
            if obj.get("kind") == "Pod":
                self._mine.add(_uid(obj))
            elif obj.get("metadata", {}).get("namespace") == self.namespace:
                self._related.setdefault(_uid(obj), obj)

    def _owned(self, obj: Obj) -> bool:
        refs = fields.items(obj, "metadata", "ownerReferences")
        return any(str(ref.get("uid")) in self._related for ref in refs)

    def _grouped(self, pod: Obj) -> bool:
        """Report whether a pod names a PodGroup of the subject."""
        return any(_group_of(obj, [pod]) for obj in self._related.values())

    def _owners(self, objects: Sequence[Obj], there: Sequence[Obj]) -> list[Obj]:
        """Return the owners of objects that are not known yet, and theirs."""
        by_uid = {_uid(obj): obj for obj in there}
        found: dict[str, Obj] = {}
        ask = list(objects)
        for _ in range(HIGHEST):
            refs = [ref for obj in ask for ref in fields.items(obj, "metadata", "ownerReferences")]
            ask = []
            for ref in refs:
                uid = str(ref.get("uid"))
                if uid in found or uid in self._related or ref.get("kind") == "Node":
                    continue
                owner = by_uid.get(uid) or self._owner(ref)
                if owner is not None and _uid(owner) == uid:
                    found[uid] = owner
                    ask.append(owner)
        return list(found.values())

    def _owner(self, ref: Mapping[str, object]) -> Obj | None:
        try:
            info = self.api.info(str(ref.get("apiVersion")), str(ref.get("kind")))
        except errors.ApiError as error:
            self._note("collect:owner", f"look up {ref.get('kind')}", error)
            return None
        self._infos[info.key] = info
        return self._get(info, str(ref.get("name")), self.namespace)

    def _volcano_jobs(self) -> list[str]:
        return [
            str(o["metadata"]["name"])
            for o in self._related.values()
            if o.get("apiVersion") == JOB.api_version
        ]

    def _elsewhere(self) -> None:
        """Take the pods of other namespaces, for the room that they hold."""
        others = self._list(POD, None, fields=job_snapshot.UNFINISHED) or []
        self.found.objects += [
            job_snapshot.slim(pod) for pod in others if pod["metadata"].get("namespace") != self.namespace
        ]


def _uid(obj: Mapping[str, object]) -> str:
    return fields.text(dict(obj), "metadata", "uid")


def _group_of(obj: Obj, pods: Sequence[Obj]) -> bool:
    """Report whether an object is the PodGroup that one of some pods names."""
    if obj.get("kind") != "PodGroup":
        return False
    native = obj.get("apiVersion") == NATIVE.api_version
    path = (
        ("spec", "schedulingGroup", "podGroupName")
        if native
        else ("metadata", "annotations", names.ANNOTATION_GROUP)
    )
    return fields.text(obj, "metadata", "name") in {fields.text(pod, *path) for pod in pods}
