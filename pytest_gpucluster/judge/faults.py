"""What is wrong with a Job as it was written: found from the Job alone, each with the field at fault and its fix.

These are no violations of a scheduler: it does what it is told. Conformance rows and the diagnosis of a hung job ask
the same questions.
"""

import dataclasses
from collections.abc import Iterator

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.judge import terms
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause


@dataclasses.dataclass(frozen=True)
class Fault:
    """One field of a Job that is at fault.

    Attributes:
        job: name of the Job.
        uid: its uid, "" where a dry run stored none.
        field: path of the field, such as `spec.schedulerName`.
        value: what stands there.
        observed: what is wrong, one line.
        cause: likely cause with its fix.
        key: evidence key of the Job's line.
    """

    job: str
    uid: str
    field: str
    value: str
    observed: str
    cause: Cause
    key: str


@dataclasses.dataclass(frozen=True)
class Written:
    """A Volcano Job as the API server took it; `uid` is "" where a dry run stored nothing."""

    name: str
    uid: str
    spec: fields.Object
    key: str

    @property
    def tasks(self) -> list[fields.Object]:
        """Return spec.tasks."""
        return fields.items(self.spec, "tasks")


def written(evidence: Evidence) -> Iterator[Written]:
    """Yield every Volcano Job of the evidence as it was last, and those of dry runs."""
    for uid in evidence.uids(names.VC_JOB):
        line = evidence.history(uid)[-1]
        if uid:
            yield Written(line.name, uid, fields.sub(line.object, "spec"), line.key)
    for line in evidence.responses():
        made = fields.sub(line.data, "object")
        kind = names.kind_key(str(made.get("apiVersion") or ""), str(made.get("kind") or ""))
        if line.data.get("dry_run") and kind == names.VC_JOB:
            name = fields.text(made, "metadata", "name")
            yield Written(name, "", fields.sub(made, "spec"), line.key)


def role_minimums(spec: fields.Object) -> dict[str, int]:
    """Return the minimum of each task: its minAvailable, else its replicas."""
    found: dict[str, int] = {}
    for task in fields.items(spec, "tasks"):
        least = fields.number(task, "minAvailable")
        found[str(task.get("name") or "")] = (
            (fields.number(task, "replicas") or 0) if least is None else least
        )
    return found


def roles_not_gated(evidence: Evidence, given: terms.Given) -> tuple[Fault, ...]:
    """Find Jobs whose minAvailable is below the sum of their tasks' minimums: Volcano then ignores those."""
    del given
    found = []
    for job in written(evidence):
        least, roles = fields.number(job.spec, "minAvailable") or 0, role_minimums(job.spec)
        total = sum(roles.values())
        partial = any(fields.number(task, "minAvailable") is not None for task in job.tasks)
        if len(roles) < 2 or not partial or not 0 < least < total:
            continue
        listed = " + ".join(f"{count} {role}" for role, count in roles.items())
        found.append(
            Fault(
                job.name,
                job.uid,
                "spec.minAvailable",
                str(least),
                f"Job {job.name} has minAvailable {least}, below the sum {total} of its tasks' minimums ({listed}): "
                f"Volcano ignores the minimums of tasks there, so any {least} members may start without the others",
                Cause(
                    f"spec.minAvailable of Job {job.name} is {least}, its tasks need {total} together",
                    f"set spec.minAvailable to {total} or more, or leave it out: admission makes it the sum",
                ),
                job.key,
            )
        )
    return tuple(found)
