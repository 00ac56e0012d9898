"""One job as it stands at the end of the evidence: what every detector asks for, read once."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.diagnose import owning, words
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import GroupStory, JobStory, Said
from pytest_gpucluster.evidence.objects.pods import FINISHED, PodStory, pods
from pytest_gpucluster.evidence.scheduling import gates
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation, gangs
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.plain import names

FINAL = ("Completed", "Failed", "Aborted", "Terminated")
"""Phases in which a Volcano Job stays until somebody does something."""

QUEUE_OF_POD = "volcano.sh/queue-name"
"""Annotation in which Volcano tells a pod its queue."""

GOING = ("Aborting", "Completing", "Terminating", "Restarting")
"""Phases in which the controllers remove pods."""


@dataclasses.dataclass(frozen=True)
class Situation:
    """One job, or pods without one, at the end of the evidence.

    Attributes:
        gang: the pods that belong together; None for loose pods.
        loose: the pods under diagnosis where there is no gang.
    """

    evidence: Evidence
    gang: Gang | None
    loose: tuple[PodStory, ...] = ()

    @property
    def now(self) -> float:
        """Return the time of the diagnosis."""
        return self.evidence.end

    @property
    def proven(self) -> float:
        """Return the latest time that the evidence itself proves; a dump without a time may have been made later."""
        told = self.evidence.header.get("proven")
        return float(told) if isinstance(told, int | float) else self.now

    @property
    def silent(self) -> float:
        """Return after how many seconds something that did not happen counts as not happening."""
        return subjects.SILENT

    @property
    def patience(self) -> float:
        """Return for how many seconds a scheduler may take its time: binds of one session are asynchronous."""
        return subjects.of(self.evidence, {}).tolerance

    @property
    def name(self) -> str:
        """Return the job's name, "" for loose pods."""
        return self.gang.name if self.gang else ""

    @property
    def namespace(self) -> str:
        """Return the namespace."""
        if self.gang is not None:
            return self.gang.namespace
        return next((pod.namespace for pod in self.loose), "")

    @property
    def space(self) -> str:
        """Return ` -n NAMESPACE` for kubectl lines."""
        return f" -n {self.namespace}" if self.namespace else ""

    @property
    def title(self) -> str:
        """Return the subject as users write it."""
        if self.gang is None:
            return f"pods{self.space}"
        short = {
            names.VC_JOB: "vcjob",
            names.BATCH_JOB: "job",
            names.POD_GROUP: "podgroup",
            names.NATIVE_POD_GROUP: f"podgroup.{names.NATIVE_GROUP}",
        }
        return f"{short.get(self.gang.kind, self.gang.kind)}/{self.gang.name}{self.space}"

    @property
    def who(self) -> str:
        """Return how a sentence calls the subject: the gang, or the pod without one."""
        return "the gang" if self.gang is not None else f"the pod {', '.join(p.name for p in self.loose[:2])}"

    @property
    def fewer(self) -> str:
        """Return how its owner asks for less, in the words of the API that it is written in."""
        return "reduce replicas or minAvailable" if self.vcjob is not None else "ask for less"

    @property
    def job(self) -> JobStory | None:
        """Return the Job object, None where the evidence has none."""
        return self.gang.job if self.gang else None

    @property
    def vcjob(self) -> JobStory | None:
        """Return the Volcano Job object, None for other owners."""
        return self.job if self.job is not None and self.job.kind == names.VC_JOB else None

    @functools.cached_property
    def batch_jobs(self) -> tuple[JobStory, ...]:
        """Return the batch Jobs of the subject that exist: itself, or those of a JobSet."""
        mine = self.job
        if mine is None or mine.kind not in (names.BATCH_JOB, names.JOBSET):
            return ()
        if mine.kind == names.BATCH_JOB:
            return (mine,)
        every = [job for job in owners.jobs(self.evidence) if job.kind == names.BATCH_JOB]
        return tuple(job for job in every if job.owner_uid == mine.uid and job.deleted is None)

    @property
    def generation(self) -> Generation | None:
        """Return the current attempt."""
        return self.gang.generations[-1] if self.gang else None

    @property
    def group(self) -> GroupStory | None:
        """Return the PodGroup of the current attempt that still exists."""
        found = self.generation.group if self.generation else None
        return found if found is not None and found.deleted is None else None

    @functools.cached_property
    def pods(self) -> tuple[PodStory, ...]:
        """Return the pods that exist now."""
        every = self.gang.pods if self.gang else self.loose
        return tuple(sorted((p for p in every if p.deleted is None), key=lambda p: p.name))

    @property
    def bound(self) -> tuple[PodStory, ...]:
        """Return the pods that have a node and did not finish."""
        return tuple(p for p in self.pods if p.bound is not None and p.phase not in FINISHED)

    @property
    def unbound(self) -> tuple[PodStory, ...]:
        """Return the pods that wait for a node."""
        return tuple(p for p in self.pods if p.bound is None and p.phase not in FINISHED)

    @property
    def failed(self) -> tuple[PodStory, ...]:
        """Return the pods that failed by themselves, not by being deleted."""
        return tuple(p for p in self.pods if p.phase == "Failed" and p.deleting is None)

    @property
    def minimum(self) -> int:
        """Return how many members must run together."""
        return self.gang.minimum if self.gang else len(self.loose)

    @property
    def minimum_known(self) -> bool:
        """Report whether something says how many members must run together; else it is only how many there are."""
        return self.gang is not None and (self.job is not None or any(g.minimum for g in self.gang.groups))

    @property
    def held(self) -> int:
        """Return how many members hold a place or ended well."""
        return len({p.slot for p in self.pods if p.bound is not None and p.phase != "Failed"})

    @property
    def whole(self) -> bool:
        """Report whether enough members have their place."""
        return self.held >= self.minimum > 0

    @property
    def was_whole(self) -> bool:
        """Report whether enough members of this attempt had their place at some time."""
        if self.generation is not None and self.generation.whole is not None:
            return True
        # A snapshot has lost the pod that is gone; the Job and the PodGroup remember that they were whole.
        ran = self.vcjob is not None and self.vcjob.phase_time("Running") is not None
        return ran and any(c.type == "Scheduled=True" for c in (self.group.conditions if self.group else ()))

    @property
    def phase(self) -> str:
        """Return the Job's phase, "" where there is none."""
        return self.job.phase if self.job else ""

    @property
    def gone(self) -> bool:
        """Report whether the Job was deleted, or nothing of it is left."""
        if self.gang is None:
            return False
        return not exists(self.gang)

    @property
    def ended(self) -> bool:
        """Report whether the Job is in a final phase."""
        return self.phase in FINAL or (
            self.job is not None and self.vcjob is None and self.phase == "Complete"
        )

    @property
    def age(self) -> float:
        """Return for how long the job has been there, in seconds."""
        start = self.gang.created if self.gang else min((p.created for p in self.loose), default=self.now)
        return self.now - start

    @functools.cached_property
    def reading(self) -> gates.Reading | None:
        """Return what the gates did to the current attempt."""
        if self.gang is None or self.generation is None:
            return None
        return gates.read(self.evidence, self.gang, self.generation)

    def said(self, kind: str, namespace: str, name: str, uid: str) -> tuple[Said, ...]:
        """Return the events about one object."""
        return owners.said_about(self.evidence, kind, namespace, name, uid)

    @functools.cached_property
    def said_of_job(self) -> tuple[Said, ...]:
        """Return the events about the Job object (or what stands for it), and about the Jobs of a JobSet."""
        if self.gang is None:
            return ()
        kind = "Job" if self.gang.kind in (names.VC_JOB, names.BATCH_JOB) else self.gang.kind
        said = self.said(kind, self.gang.namespace, self.gang.name, self.gang.uid)
        children = [job for job in self.batch_jobs if job is not self.job]
        of_children = [x for job in children for x in self.said("Job", job.namespace, job.name, job.uid)]
        return tuple(sorted((*said, *of_children), key=lambda one: one.t)) if of_children else said

    def said_of_pod(self, pod: PodStory) -> tuple[Said, ...]:
        """Return the events about a pod."""
        return self.said("Pod", pod.namespace, pod.name, pod.uid)

    @functools.cached_property
    def newest(self) -> Mapping[tuple[str, str, str], Line]:
        """Return the newest line of every object that still exists, by kind, namespace and name."""
        found: dict[tuple[str, str, str], Line] = {}
        for kind in self.evidence.kinds:
            if kind in ("Pod", "Event"):
                continue
            for line in self.evidence.of_kind(kind):
                key = (kind, fields.text(line.object, "metadata", "namespace"), line.name)
                if line.type == "DELETED":
                    found.pop(key, None)
                else:
                    found[key] = line
        return found

    def objects(self, kind: str, namespace: str | None = None) -> tuple[Line, ...]:
        """Return the objects of a kind that exist, of one namespace or of all."""
        return tuple(
            line for (k, space, _), line in self.newest.items()
            if k == kind and (namespace is None or space == namespace)
        )  # fmt: skip

    def object(self, kind: str, name: str, namespace: str = "") -> Line | None:
        """Return one object, None where the evidence has none of that name."""
        return self.newest.get((kind, namespace, name))

    def looked_at(self, kind: str) -> bool:
        """Report whether all objects of a kind were listed, so that a missing one is known not to exist."""
        listed = self.evidence.header.get("looked")
        return isinstance(listed, Mapping) and kind in listed

    @property
    def queue_name(self) -> str:
        """Return the queue's name."""
        stated = self.gang.queue if self.gang else ""
        return stated or next((str(q) for p in self.pods if (q := p.annotations.get(QUEUE_OF_POD))), "")

    @property
    def queue(self) -> fields.Object:
        """Return the Queue object, empty where the evidence has none."""
        line = self.object("Queue", self.queue_name)
        return line.object if line else {}

    @functools.cached_property
    def others(self) -> tuple[Gang, ...]:
        """Return the other gangs that exist."""
        mine = self.gang.uid if self.gang else ""
        return tuple(
            gang for gang in gangs(self.evidence)
            if gang is not self.gang and exists(gang)
            and (not mine or (gang.uid != mine and not owning.stands_in(self.evidence, gang, mine)))
        )  # fmt: skip

    @functools.cached_property
    def wanted(self) -> Mapping[str, Fraction]:
        """Return what the needed members ask for in all, by resource; extended ones first.

        The PodGroup tells what enqueue compares. What a template states under limits alone is missing there, and its
        pods ask for it all the same: so the members are counted too, and the larger of both is what is asked for.
        """
        group = self.group
        stated = fields.sub(group.last, "spec", "minResources") if group is not None else {}
        found = {
            str(key): fields.quantity(value) for key, value in stated.items() if not _bookkeeping(str(key))
        }
        for resource, total in self._asked_by_members().items():
            found[resource] = max(total, found.get(resource, Fraction(0)))
        return dict(sorted(found.items(), key=lambda one: "/" not in one[0]))

    def _asked_by_members(self) -> dict[str, Fraction]:
        members = [p.last for p in self.pods]
        if len(members) < self.minimum:
            members = list(self.templates) or members
        asked = [fields.demands(one) for one in members]
        return {
            resource: sum(
                sorted(one.get(resource, Fraction(0)) for one in asked)[: self.minimum or None], Fraction(0)
            )
            for resource in dict.fromkeys(r for one in asked for r in one)
        }

    @property
    def templates(self) -> Iterable[fields.Object]:
        """Yield the pod template of every member that the Job asks for, as if it were a pod."""
        for task in self.vcjob.tasks if self.vcjob else []:
            for _ in range(fields.number(task, "replicas") or 0):
                yield fields.sub(task, "template")

    @functools.cached_property
    def specs(self) -> Mapping[str, fields.Object]:
        """Return one pod (or template) a task: what the containers are told, by task name or pod name."""
        found: dict[str, fields.Object] = {}
        for task in self.vcjob.tasks if self.vcjob else []:
            found[str(task.get("name"))] = fields.sub(task, "template")
        for pod in self.pods:
            if not self.vcjob or pod.task not in found:
                found[pod.task or pod.name] = pod.last
        return found

    @functools.cached_property
    def advertised(self) -> Mapping[str, Fraction]:
        """Return what all nodes advertise in sum, by resource; empty where the evidence has no node."""
        total: dict[str, Fraction] = {}
        for line in self.objects("Node"):
            for resource, amount in fields.sub(line.object, "status", "allocatable").items():
                total[str(resource)] = total.get(str(resource), Fraction(0)) + fields.quantity(amount)
        return total

    @functools.cached_property
    def reckoned(self) -> dict[str, Any]:
        """Return a place for what was reckoned once of this situation: detectors ask the same of thousands of nodes."""
        return {}

    @functools.cached_property
    def logs(self) -> Mapping[str, tuple[Line, ...]]:
        """Return the log lines by pod name, in order; those of a container's run before come first."""
        found: dict[str, list[Line]] = {}
        mine = {p.uid: p.name for p in (self.gang.pods if self.gang else self.loose)}
        by_name = set(mine.values())
        for line in self.evidence.lines:
            if line.type != "LOG":
                continue
            pod = str(line.data.get("pod") or "")
            name = mine.get(str(line.data.get("uid") or "")) or (pod if pod in by_name or not mine else "")
            if name:
                found.setdefault(name, []).append(line)
        return {name: tuple(lines) for name, lines in found.items()}

    def last_words(self, pod: PodStory) -> str:
        """Return the last line that a pod wrote which says something, shortened, or ""."""
        for line in reversed(self.logs.get(pod.name, ())):
            text = str(line.data.get("line") or "").strip()
            if text and not text.startswith("GPUCONF1"):
                return words.short(text)
        return ""


def _bookkeeping(key: str) -> bool:
    """Report whether a key of minResources is one that quotas count and nodes do not have."""
    return key.startswith(("requests.", "limits.", "count/")) or key == "pods"


def exists(gang: Gang) -> bool:
    """Report whether a gang is still there."""
    if gang.job is not None:
        return gang.job.deleted is None
    return any(p.deleted is None for p in gang.pods) or any(g.deleted is None for g in gang.groups)


def loose_pods(evidence: Evidence) -> tuple[PodStory, ...]:
    """Return the pods that belong to no gang."""
    taken = {pod.uid for gang in gangs(evidence) for pod in gang.pods}
    return tuple(pod for pod in pods(evidence) if pod.uid not in taken)
