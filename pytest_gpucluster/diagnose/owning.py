"""Jobs of operators that stand without pods of their own: TrainJob, JobSet and others that Kueue may hold."""

import math
from collections.abc import Iterator, Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.scheduling import kueue_workloads
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation, gangs
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Workload
from pytest_gpucluster.plain import names

OPERATED = (
    "TrainJob", "JobSet", "RayJob", "RayCluster", "MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob",
    "AppWrapper", "LeaderWorkerSet", "SparkApplication",
)  # fmt: skip
"""Kinds of operators that stand for a job of several pods."""

ENDS = {
    "Complete": "Complete", "Completed": "Complete", "Succeeded": "Complete", "Finished": "Complete",
    "Failed": "Failed",
    "FinalStateReached": "Complete",
}  # fmt: skip
"""Types of conditions by which operators say that a job has ended -> the phase that it is called here."""


SHORT = {
    "podgroup": ("podgroup.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh", "pg"),
    "leaderworkerset": ("lws",),
    "workload": ("wl",),
}
"""Kind in lower case -> further words for it that kubectl takes."""


def jobs(evidence: Evidence) -> tuple[Gang, ...]:
    """Return what can be diagnosed: the gangs, and the jobs of operators that stand without pods.

    A JobSet that made no pod is not asked by itself if the job that made it is there: that one has the queue, is
    suspended and resumed, and is what events are about.
    """
    without = owned(evidence)
    heads = [gang.uid for gang in without]
    return (*(g for g in gangs(evidence) if not stands_in(evidence, g, *heads)), *without)


def stands_in(evidence: Evidence, gang: Gang, *uids: str) -> bool:
    """Report whether a gang is a JobSet without pods that one of these jobs made."""
    return _bare(gang) and not above(evidence, gang).isdisjoint(uids)


def owned(evidence: Evidence) -> tuple[Gang, ...]:
    """Return the jobs of operators of which no pod, and no Job, is there: they come last in a chain of owners."""
    every = gangs(evidence)
    known = [gang for gang in every if not _bare(gang)]
    taken = {g.uid for g in every} | {uid for g in known for uid in above(evidence, g)}
    places = {(g.namespace, g.name) for g in known}
    there = evidence.derived(_objects)
    asked = {one.job_uid for one in kueue_workloads.workloads(evidence) if one.job_uid}
    found = [
        _gang(evidence, line) for line in there.values()
        if line.uid not in taken
        and (fields.text(line.object, "metadata", "namespace"), line.name) not in places
        and (line.kind in OPERATED or (line.uid in asked and line.kind not in ("Pod", kueue_workloads.WORKLOAD)))
        and fields.owner(line.object).get("uid") not in there
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda gang: gang.created))


def _bare(gang: Gang) -> bool:
    """Report whether a gang is a JobSet of which no pod was ever seen."""
    return gang.kind == names.JOBSET and not gang.pods


def _owners_of(gang: Gang) -> set[str]:
    objects = (
        [p.last for p in gang.pods] + [g.last for g in gang.groups] + ([gang.job.last] if gang.job else [])
    )
    return {uid for obj in objects if (uid := fields.text(fields.owner(obj), "uid"))}


def above(evidence: Evidence, gang: Gang) -> frozenset[str]:
    """Return the uids of the owners of a gang's objects, of their owners, and so on, as far as they are there."""
    return frozenset(uid for first in _owners_of(gang) for uid in _chain(evidence.derived(_objects), first))


def _chain(there: Mapping[str, Line], first: str) -> Iterator[str]:
    """Yield a uid and those of its owners, the nearest first."""
    seen: set[str] = set()
    while first and first not in seen:
        seen.add(first)
        yield first
        first = fields.text(fields.owner(there[first].object), "uid") if first in there else ""


def _objects(evidence: Evidence) -> Mapping[str, Line]:
    """Return the newest line of every object that may own a job and is still there, by uid."""
    return {line.uid: line for kind in evidence.kinds for line in _present(evidence, kind)}


def _present(evidence: Evidence, kind: str) -> list[Line]:
    if kind in ("Pod", "Event", "Node"):
        return []
    last = {line.uid: line for line in evidence.of_kind(kind)}
    return [line for line in last.values() if line.type != "DELETED"]


def workloads_of(evidence: Evidence, gang: Gang) -> tuple[Workload, ...]:
    """Return the Workloads of Kueue that stand for a gang: by owner, by its owner's owner, else by their name."""
    mine = {gang.uid} | {uid for uid in _owners_of(gang) if uid}
    every = [
        one
        for one in kueue_workloads.workloads(evidence)
        if one.deleted is None and one.namespace == gang.namespace
    ]
    found = [one for one in every if one.job_uid and one.job_uid in mine]
    if not found:
        prefix = f"{gang.kind.partition('.')[0].lower()}-{gang.name}-"
        found = [one for one in every if not one.job_uid and one.name.startswith(prefix)]
    return tuple(found)


def _gang(evidence: Evidence, line: Line) -> Gang:
    obj = line.object
    created = evidence.history(line.uid)[0].t
    ends = [
        (line.t, ENDS[str(c.get("type"))], line.key)
        for c in fields.items(obj, "status", "conditions")
        if c.get("status") == "True" and str(c.get("type")) in ENDS
    ]
    space = fields.text(obj, "metadata", "namespace")
    story = JobStory(line.uid, line.name, space, line.kind, created, None, tuple(ends[:1]), obj, line.key)
    bare = Gang(line.kind, line.name, space, line.uid, 0, story)
    size = max((sum(fields.number(p, "count") or 0 for p in fields.items(w.last, "spec", "podSets"))
                for w in workloads_of(evidence, bare)), default=0)  # fmt: skip
    size = size or _size(obj)
    whole = Generation(1, created, math.inf, size, (), None)
    return Gang(line.kind, line.name, space, line.uid, size, story, (whole,))


def _size(obj: fields.Object) -> int:
    """Return how many pods a job asks for, as far as its own fields say so; 1 where they do not."""
    nodes = fields.number(obj, "spec", "trainer", "numNodes")
    if nodes:
        return nodes
    total = 0
    for one in fields.items(obj, "spec", "replicatedJobs"):
        pods = fields.number(one, "template", "spec", "parallelism") or 1
        total += (fields.number(one, "replicas") or 1) * pods
    for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs", "tfReplicaSpecs", "jaxReplicaSpecs"):
        replicas = fields.sub(obj, "spec", key)
        total += sum(
            fields.number(one, "replicas") or 1 for one in replicas.values() if isinstance(one, dict)
        )
    return total or 1


def held_for(evidence: Evidence, gang: Gang, kind: str, name: str) -> bool:
    """Report whether a Workload of Kueue, called by that kind and name, stands for a gang."""
    return kind in called(kueue_workloads.WORKLOAD) and any(
        w.name == name for w in workloads_of(evidence, gang)
    )


def related(evidence: Evidence, gang: Gang, kind: str, name: str) -> bool:
    """Report whether a job of that kind (in lower case) and name stands above or below a gang in a chain of owners."""
    there = evidence.derived(_objects)
    found = [
        line for line in there.values()
        if line.name == name and line.kind in (*OPERATED, names.BATCH_JOB) and kind in called(line.kind)
        and fields.text(line.object, "metadata", "namespace") == gang.namespace
    ]  # fmt: skip
    return any(
        line.uid in above(evidence, gang) or (gang.uid and gang.uid in _chain(there, line.uid))
        for line in found
    )


def belongs(gang: Gang, kind: str, name: str) -> bool:
    """Report whether a gang is, or was made by, an object of that kind (in lower case, "" for any) and name."""
    if gang.name == name and kind in ("", *called(gang.kind)):
        return True
    if kind in ("pod", "pods") and any(p.name == name for p in gang.pods):
        return True
    refs = [
        fields.owner(obj) for obj in ([p.last for p in gang.pods] + ([gang.job.last] if gang.job else []))
    ]
    made = [(str(r.get("kind") or "").lower(), str(r.get("name") or "")) for r in refs]
    groups = [("podgroup", g.name) for g in gang.groups]
    return any(
        kind and kind.partition(".")[0].rstrip("s") == k.rstrip("s") and name == n
        for k, n in (*made, *groups)
    )


def called(kind: str) -> tuple[str, ...]:
    """Return the words by which a kind may be called on a command line, in lower case."""
    if kind == names.VC_JOB:
        return ("vcjob", "vcjobs", "vj", "job.batch.volcano.sh", "jobs.batch.volcano.sh")
    if kind == names.BATCH_JOB:
        return ("job", "jobs", "job.batch", "jobs.batch")
    if kind == names.NATIVE_POD_GROUP:
        return (f"podgroup.{names.NATIVE_GROUP}", f"podgroups.{names.NATIVE_GROUP}")
    low = kind.lower()
    first, _, group = low.partition(".")
    plural = f"{first}s" + (f".{group}" if group else "")
    return (low, plural, *SHORT.get(low, ()))
