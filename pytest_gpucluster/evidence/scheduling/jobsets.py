"""JobSets: the Jobs that their controller made, by attempt, with their pods and how they ended."""

import dataclasses
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.objects.pods import LABEL_REPLICATED_JOB, PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.plain import names

LABEL_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


@dataclasses.dataclass(frozen=True)
class Child:
    """One Job of a set, of one attempt.

    Attributes:
        replicated: name of its replicated Job, "" where it does not say.
        attempt: the attempt that it is of, from 0; None where it does not say.
        pods: its pods.
    """

    job: JobStory
    replicated: str
    attempt: int | None
    pods: tuple[PodStory, ...]

    @property
    def complete(self) -> tuple[float, str] | None:
        """Return when it was first seen Complete, and the key; None if never."""
        return self._first("Complete")

    @property
    def failed(self) -> tuple[float, str] | None:
        """Return when it was first seen Failed, and the key; None if never."""
        return self._first("Failed")

    def _first(self, phase: str) -> tuple[float, str] | None:
        return next(((t, key) for t, name, key in self.job.phases if name == phase), None)

    @property
    def failure(self) -> fields.Object:
        """Return its condition Failed, {} where it has none."""
        return fields.condition(self.job.last, "Failed")


@dataclasses.dataclass(frozen=True)
class Replicated:
    """One replicated Job, as the set states it.

    Attributes:
        jobs: how many Jobs.
        members: pods of each.
        after: (name of an earlier one, `Ready` or `Complete`) for each that it has to wait for.
    """

    name: str
    jobs: int
    members: int
    after: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        """Return the pods of all its Jobs."""
        return self.jobs * self.members


def replicated(job: JobStory) -> tuple[Replicated, ...]:
    """Return the replicated Jobs of a set, each with what it waits for: its dependencies, or the one before it."""
    ordered = fields.text(job.last, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
    found: list[Replicated] = []
    for one in job.replicated:
        after = [
            (fields.text(each, "name"), fields.text(each, "status"))
            for each in fields.items(one, "dependsOn")
        ]
        if ordered and found:
            after.append((found[-1].name, "Ready"))
        members = owners.pods_of_job(fields.sub(one, "template"))
        found.append(Replicated(fields.text(one, "name"), owners.replicas_of(one), members, tuple(after)))
    return tuple(found)


def job_names(job: JobStory) -> tuple[str, ...]:
    """Return the names that the Jobs of a set must have."""
    return tuple(f"{job.name}-{one.name}-{index}" for one in replicated(job) for index in range(one.jobs))


def subdomain(job: JobStory) -> str:
    """Return the name of a set's Service, which is the subdomain of its pods."""
    return fields.text(job.last, "spec", "network", "subdomain") or job.name


def pod_names(job: JobStory) -> Mapping[str, tuple[str, int]]:
    """Return the host names that the pods of a set must have, each with its Job's name and its index in that."""
    return {
        f"{job.name}-{one.name}-{index}-{member}": (f"{job.name}-{one.name}-{index}", member)
        for one in replicated(job)
        for index in range(one.jobs)
        for member in range(one.members)
    }


def children(evidence: Evidence, gang: Gang) -> tuple[Child, ...]:
    """Return the Jobs of a set, in order of creation."""
    found = []
    for job in owners.jobs(evidence):
        if job.kind != names.BATCH_JOB or not gang.uid or job.owner_uid != gang.uid:
            continue
        labels = fields.sub(job.last, "metadata", "labels")
        attempt = str(labels.get(LABEL_ATTEMPT, ""))
        mine = tuple(pod for pod in gang.pods if job.uid in _owners(evidence, pod))
        number = int(attempt) if attempt.isdecimal() else None
        found.append(Child(job, str(labels.get(LABEL_REPLICATED_JOB) or ""), number, mine))
    return tuple(found)


def _owners(evidence: Evidence, pod: PodStory) -> set[str]:
    """Return the uids of all that ever controlled a pod: one whose Job was deleted without it has none any more."""
    return {fields.text(fields.owner(line.object), "uid") for line in evidence.history(pod.uid)}


def of_attempt(jobs: Sequence[Child], attempt: int) -> tuple[Child, ...]:
    """Return the Jobs of one attempt."""
    return tuple(child for child in jobs if child.attempt == attempt)


def made_again(jobs: Sequence[Child]) -> tuple[Child, Child] | None:
    """Return two Jobs of one name in one attempt, None where there are none: nothing makes a Job of a set twice."""
    seen: dict[tuple[str, int | None], Child] = {}
    for child in jobs:
        key = (child.job.name, child.attempt)
        if key in seen:
            return seen[key], child
        seen[key] = child
    return None
