"""Gangs: which pods belong together, how many of them must start together, and when they were bound.

The same questions serve Volcano Jobs, PodGroups of other operators, native PodGroups, batch Jobs and bare sets of
pods that one owner made.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import GroupStory, JobStory
from pytest_gpucluster.evidence.objects.pods import LABEL_SET_UID, LABEL_VC_JOB, PER_POD_GROUP, PodStory, pods
from pytest_gpucluster.plain import names

SERVICES = frozenset({"ReplicaSet", "DaemonSet", "StatefulSet", "Node", "ReplicationController"})
"""Owners whose pods are independent of each other and therefore no gang."""

LABELS_OF_JOBS = ("training.kubeflow.org/job-name", "job-name", "jobset.sigs.k8s.io/jobset-name")
"""Labels by which operators mark the pods of one job, where no owner was seen."""


@dataclasses.dataclass(frozen=True)
class Step:
    """The number of places of the gang that are held from a time on."""

    t: float
    held: int
    key: str


@dataclasses.dataclass(frozen=True)
class Generation:
    """One attempt of a gang: from its PodGroup's creation (or first pod) to the next one's.

    Attributes:
        minimum: how many members must be bound together.
        members: the pods of the attempt, by uid; those carried over from the attempt before come first.
        group: the PodGroup object of the attempt, where there is one.
        end: start of the next attempt; infinite for the last.
    """

    number: int
    start: float
    end: float
    minimum: int
    members: tuple[PodStory, ...]
    group: GroupStory | None

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return how the number of held places went.

        A place is held from the bind of its pod until the pod object goes away unfinished: a member that finished
        is not a missing one.
        """
        moves: list[tuple[float, int, str, str]] = []
        for pod in self.members:
            if pod.bound is not None:
                moves.append((max(pod.bound, self.start), 1, pod.slot, pod.keys["bound"]))
                if pod.deleted is not None and pod.finished is None:
                    moves.append((pod.deleted, -1, pod.slot, pod.keys["deleted"]))
        holders: Counter[str] = Counter()
        held = 0
        steps: list[Step] = []
        for t, by, slot, key in sorted(moves, key=lambda move: (move[0], -move[1])):
            if t >= self.end:
                break
            before = holders[slot] > 0
            holders[slot] += by
            held += (holders[slot] > 0) - before
            steps.append(Step(t, held, key))
        return tuple(steps)

    @property
    def whole(self) -> float | None:
        """Return when enough places were held for the first time, None if never."""
        return next((step.t for step in self.steps if step.held >= self.minimum), None)

    @property
    def first_bind(self) -> float | None:
        """Return when the first member was bound."""
        return self.steps[0].t if self.steps else None

    @property
    def most_held(self) -> int:
        """Return the largest number of places held at one time."""
        return max((step.held for step in self.steps), default=0)

    @functools.cached_property
    def made(self) -> float | None:
        """Return when enough member pods existed for the first time, None if never."""
        seen: set[str] = set()
        for pod in sorted(self.members, key=lambda p: p.created):
            seen.add(pod.slot)
            if len(seen) >= self.minimum:
                return max(pod.created, self.start)
        return None

    @property
    def bound_members(self) -> tuple[PodStory, ...]:
        """Return the members that were ever bound."""
        return tuple(pod for pod in self.members if pod.bound is not None)

    @property
    def spread(self) -> float | None:
        """Return seconds from the first bind to the one that made the gang whole."""
        return None if self.whole is None or self.first_bind is None else self.whole - self.first_bind

    def together(self) -> tuple[float, float] | None:
        """Return the span in which at least `minimum` members were seen Running at once, None if there was none."""
        moves: list[tuple[float, int]] = []
        for pod in self.members:
            if pod.running is None:
                continue
            ends = [t for t in (pod.finished, pod.deleted) if t is not None]
            moves += [(pod.running, 1), (min(ends), -1)] if ends else [(pod.running, 1)]
        count, since = 0, None
        for t, by in sorted(moves):
            count += by
            if since is None and count >= self.minimum > 0:
                since = t
            elif since is not None and count < self.minimum:
                if t > since:
                    return since, t
                since = None
        return None if since is None else (since, math.inf)


@dataclasses.dataclass(frozen=True)
class Gang:
    """Pods that belong together, over all their attempts.

    Attributes:
        kind: kind key of what stands for the gang: a Job, a PodGroup, or the owner's kind.
        size: how many members it has (surplus ones included).
        scattered: PodGroups of one member each that Volcano made for these pods: nobody told it of the gang.
    """

    kind: str
    name: str
    namespace: str
    uid: str
    size: int
    job: JobStory | None = None
    generations: tuple[Generation, ...] = ()
    scattered: bool = False

    @property
    def title(self) -> str:
        """Return the gang as texts name it."""
        return f"{self.kind}/{self.name}"

    @property
    def minimum(self) -> int:
        """Return how many members must be bound together."""
        return self.generations[-1].minimum

    @property
    def pods(self) -> tuple[PodStory, ...]:
        """Return every pod of every attempt, once each."""
        return tuple({pod.uid: pod for gen in self.generations for pod in gen.members}.values())

    @property
    def groups(self) -> tuple[GroupStory, ...]:
        """Return the PodGroup objects of the attempts."""
        return tuple(gen.group for gen in self.generations if gen.group is not None)

    @property
    def queue(self) -> str:
        """Return the queue of Volcano, or the LocalQueue of Kueue, "" where there is none."""
        if self.job is not None and self.job.kind == names.VC_JOB:
            return fields.text(self.job.last, "spec", "queue") or "default"
        if self.job is not None and self.job.kind in (names.BATCH_JOB, names.JOBSET):
            return str(fields.sub(self.job.last, "metadata", "labels").get(names.LABEL_KUEUE_QUEUE) or "")
        return next((group.queue for group in self.groups if group.queue), "")

    @property
    def scheduler(self) -> str:
        """Return the schedulerName that its pods carry, else the Job's, else the group's kind of scheduler."""
        for pod in self.pods:
            return pod.scheduler
        if self.job is not None:
            name = fields.text(self.job.last, "spec", "schedulerName")
            if name:
                return name
        return "volcano" if any(not group.native for group in self.groups) else "default-scheduler"

    @property
    def created(self) -> float:
        """Return when the gang was first seen."""
        times = [gen.start for gen in self.generations] + ([self.job.created] if self.job else [])
        return min(times)

    @property
    def whole(self) -> float | None:
        """Return when an attempt was whole for the first time."""
        return next((gen.whole for gen in self.generations if gen.whole is not None), None)


def read_gangs(evidence: Evidence) -> tuple[Gang, ...]:
    """Find the gangs: by Job, then by PodGroup, then by owner or job label. Single pods of no owner are none."""
    return _Finder(evidence).find()


def gangs(evidence: Evidence) -> tuple[Gang, ...]:
    """Return the gangs in order of first appearance; found once per evidence."""
    return evidence.derived(read_gangs)


class _Finder:
    """Takes pods and PodGroups out of two pools, one kind of owner after the other."""

    def __init__(self, evidence: Evidence) -> None:
        self._pods = {pod.uid: pod for pod in pods(evidence)}
        self._groups = {group.uid: group for group in owners.groups(evidence)}
        self._jobs = owners.jobs(evidence)
        self._found: list[Gang] = []

    def find(self) -> tuple[Gang, ...]:
        by_owner = _by(self._pods.values(), lambda pod: fields.text(fields.owner(pod.last), "uid"))
        by_job_label = _by(
            self._pods.values(), lambda pod: f"{pod.namespace}/{pod.labels.get(LABEL_VC_JOB) or ''}"
        )
        by_set = _by(self._pods.values(), lambda pod: str(pod.labels.get(LABEL_SET_UID) or ""))
        sets = {job.uid for job in self._jobs if job.kind == names.JOBSET}
        for job in self._jobs:
            if job.owner_uid in sets:
                continue  # one Job of a JobSet: its pods are members of the set
            mine = by_owner.get(job.uid, [])
            if job.kind == names.JOBSET:
                children = [one.uid for one in self._jobs if one.owner_uid == job.uid]
                mine = [*mine, *(pod for uid in children for pod in by_owner.get(uid, []))]
                # A pod that lost its Job, or whose Job was never seen, is of the set all the same.
                mine += by_set.get(job.uid, [])
            if job.kind == names.VC_JOB:
                marked = by_job_label.get(f"{job.namespace}/{job.name}", [])
                mine = [*mine, *(p for p in marked if not fields.owner(p.last) and self._may_be_of(job, p))]
            self._add_job(job, mine)
        self._add_marked(by_job_label)
        self._add_groups()
        self._add_owned()
        return tuple(sorted(self._found, key=lambda gang: gang.created))

    def _take(self, mine: Iterable[PodStory]) -> list[PodStory]:
        return [self._pods.pop(pod.uid) for pod in mine if pod.uid in self._pods]

    def _may_be_of(self, job: JobStory, pod: PodStory) -> bool:
        """Report whether a pod that only names a Job can be of this one, and not of another of the same name."""
        same = [one for one in self._jobs if (one.namespace, one.name) == (job.namespace, job.name)]
        return job is next((one for one in reversed(same) if one.created <= pod.created), same[0])

    def _strays(self, groups: Sequence[GroupStory]) -> list[PodStory]:
        """Take the pods that nobody owns and that name one of these PodGroups: to schedulers they are members."""
        named = {(group.namespace, group.name) for group in groups}
        alone = [pod for pod in self._pods.values() if not fields.owner(pod.last)]
        return self._take([pod for pod in alone if (pod.namespace, pod.group_name) in named])

    def _take_groups(self, mine: Sequence[PodStory], owner_uid: str, prefix: str = "") -> list[GroupStory]:
        named = {(pod.namespace, pod.group_name) for pod in mine}
        taken = [
            group
            for group in self._groups.values()
            if (owner_uid and group.owner_uid == owner_uid)
            or (group.namespace, group.name) in named
            or (prefix and group.name == prefix)
        ]
        for group in taken:
            del self._groups[group.uid]
        return sorted(taken, key=lambda group: group.created)

    def _add_job(self, job: JobStory, mine: Sequence[PodStory]) -> None:
        mine = self._take(mine)
        groups = self._take_groups(mine, job.uid, f"{job.name}-{job.uid}")
        mine = [*mine, *self._strays(groups)]
        size = job.size or len({pod.slot for pod in mine})
        stated = fields.number(job.last, "spec", "minAvailable") if job.kind == names.VC_JOB else None
        if job.kind in (names.BATCH_JOB, names.JOBSET):
            stated = job.gang_minimum or max((group.minimum for group in groups), default=0)
        if not stated and not size:
            stated = max((group.minimum for group in groups), default=0)
        minimum = stated or size
        if minimum:
            gang = Gang(job.kind, job.name, job.namespace, job.uid, size or minimum, job)
            self._keep(gang, minimum, mine, groups)

    def _add_marked(self, by_job_label: Mapping[str, list[PodStory]]) -> None:
        """Pods of a Volcano Job whose Job object is not in the evidence."""
        for mark, mine in by_job_label.items():
            namespace, _, name = mark.partition("/")
            rest = [pod for pod in mine if pod.uid in self._pods] if name else []
            if rest:
                taken = self._take(rest)
                groups = self._take_groups(taken, "")
                taken += self._strays(groups)
                size = len({pod.slot for pod in taken})
                minimum = max((group.minimum for group in groups), default=0) or size
                self._keep(Gang(names.VC_JOB, name, namespace, "", size), minimum, taken, groups)

    def _add_groups(self) -> None:
        by_group = _by(
            self._pods.values(), lambda pod: f"{pod.namespace}/{pod.group_name}" if pod.group_name else ""
        )
        by_name: dict[str, list[GroupStory]] = {}
        for group in self._groups.values():
            by_name.setdefault(f"{group.namespace}/{group.name}", []).append(group)
        for key in dict.fromkeys((*by_group, *by_name)):
            mine = by_group.get(key, [])
            namespace, _, name = key.partition("/")
            if not name or (name.startswith(PER_POD_GROUP) and len(mine) <= 1):
                continue
            mine = self._take(mine)
            found = sorted(by_name.get(key, []), key=lambda group: group.created)
            for group in found:
                self._groups.pop(group.uid, None)
            size = len({pod.slot for pod in mine})
            minimum = max((group.minimum for group in found), default=0) or size
            if minimum:
                uid = found[-1].uid if found else ""
                native = found[-1].native if found else mine[0].native_group
                kind = names.NATIVE_POD_GROUP if native else names.POD_GROUP
                gang = Gang(kind, name, namespace, uid, max(size, minimum))
                self._keep(gang, minimum, mine, found)

    def _add_owned(self) -> None:
        by_owner: dict[tuple[str, str, str, str], list[PodStory]] = {}
        for pod in self._pods.values():
            owner = fields.owner(pod.last)
            label = next((str(pod.labels[key]) for key in LABELS_OF_JOBS if pod.labels.get(key)), "")
            if owner and str(owner.get("kind")) not in SERVICES:
                kind = names.kind_key(str(owner.get("apiVersion") or ""), str(owner.get("kind")))
                key = (kind, pod.namespace, str(owner.get("name")), str(owner.get("uid") or ""))
            elif label and not owner:
                key = ("Pods", pod.namespace, label, "")
            else:
                continue
            by_owner.setdefault(key, []).append(pod)
        for (kind, namespace, name, uid), mine in by_owner.items():
            taken = self._take(mine)
            groups = self._take_groups(taken, "")
            taken += self._strays(groups)
            size = len({pod.slot for pod in taken})
            if size > 1:
                scattered = any(pod.group_name.startswith(PER_POD_GROUP) for pod in taken)
                gang = Gang(kind, name, namespace, uid, size, scattered=scattered)
                self._keep(gang, size, taken, [] if scattered else groups)

    def _keep(self, gang: Gang, minimum: int, mine: Sequence[PodStory], groups: Sequence[GroupStory]) -> None:
        """Keep a gang with its attempts."""
        # Watches of different kinds may tell out of order: what is heard of first is when the gang began.
        start = min(
            [
                *([gang.job.created] if gang.job is not None else []),
                *(group.created for group in groups),
                *(pod.created for pod in mine),
            ]
        )
        attempts = _attempts(mine, groups, minimum, start)
        self._found.append(dataclasses.replace(gang, generations=attempts))


def _by(pods_: Iterable[PodStory], key: Callable[[PodStory], str]) -> dict[str, list[PodStory]]:
    found: dict[str, list[PodStory]] = {}
    for pod in pods_:
        found.setdefault(key(pod), []).append(pod)
    found.pop("", None)
    return found


def _attempts(
    mine: Sequence[PodStory], groups: Sequence[GroupStory], minimum: int, start: float
) -> tuple[Generation, ...]:
    """Cut the life of a gang where its PodGroup was made again, or where pods came after all others had gone."""
    cuts: dict[float, GroupStory | None] = {start: groups[0] if groups else None}
    for group in groups[1:]:
        cuts[group.created] = group
    if len(groups) < 2:
        cuts.update(dict.fromkeys(_new_starts(mine), groups[0] if groups else None))
    times = sorted(cuts)
    found = []
    for number, (t, end) in enumerate(zip(times, [*times[1:], math.inf], strict=True), start=1):
        members = [pod for pod in mine if t <= pod.created < end or (number == 1 and pod.created < t)]
        carried = [
            pod for pod in mine if number > 1 and pod.created < t and pod.there(t) and not pod.going(t)
        ]
        found.append(Generation(number, t, end, minimum, (*carried, *members), cuts[t]))
    return tuple(found)


def _new_starts(mine: Sequence[PodStory]) -> list[float]:
    """Return the times at which a pod was made while every earlier one had gone or was going."""
    starts = []
    leave = -math.inf
    seen = False
    for pod in sorted(mine, key=lambda p: p.created):
        if seen and leave <= pod.created:
            starts.append(pod.created)
        ends = [t for t in (pod.deleting, pod.deleted) if t is not None]
        leave = max(leave, min(ends) if ends else math.inf)
        seen = True
    return starts
