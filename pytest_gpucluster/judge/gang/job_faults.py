"""What is wrong with a Job as it was written: found from the Job alone, each with the field at fault and its fix.

These are no violations of a scheduler: it does what it is told. Conformance rows and the diagnosis of a hung job ask
the same questions.
"""

import dataclasses
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling import schedulers
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause

VOLCANO = "volcano"
"""Name under which Volcano's scheduler is installed."""


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


def roles_not_gated(evidence: Evidence, given: subjects.Given) -> tuple[Fault, ...]:
    """Find Jobs whose minAvailable is below the sum of their tasks' minimums: Volcano then ignores those.

    Admission gives a task without a minimum all its replicas: only one that differs from them was meant.
    """
    del given
    found = []
    for job in written(evidence):
        least, roles = fields.number(job.spec, "minAvailable") or 0, role_minimums(job.spec)
        total = sum(roles.values())
        partial = any(
            fields.number(task, "minAvailable") not in (None, fields.number(task, "replicas"))
            for task in job.tasks
        )
        if len(roles) < 2 or not partial or not 0 < least < total:
            continue
        listed = " + ".join(f"{count} {role}" for role, count in roles.items())
        found.append(
            Fault(
                job.name,
                job.uid,
                "spec.minAvailable",
                str(least),
                f"Job {job.name} has minAvailable {least}, below the sum {total} of its tasks' minimums "
                f"({listed}): Volcano then ignores the tasks' minimums, so any {least} members may start without "
                "the others",
                Cause(
                    f"spec.minAvailable of Job {job.name} is {least}, its tasks need {total} together",
                    f"set spec.minAvailable to {total} or more, or leave it out: admission fills in the sum",
                ),
                job.key,
            )
        )
    return tuple(found)


def scheduler_names(evidence: Evidence, given: subjects.Given) -> tuple[Fault, ...]:
    """Find the fields that send members of a Volcano Job to another scheduler than the gang's.

    The gang's scheduler is the declared one; where none is declared, the one that the Job or a template names and
    that is not the default scheduler.
    """
    members: dict[str, list[PodStory]] = {}
    for pod in pods(evidence):
        members.setdefault(fields.text(fields.owner(pod.last), "uid"), []).append(pod)
    declared = subjects.of(evidence, given).scheduler
    return tuple(
        fault for job in written(evidence) for fault in _misnamed(job, members.get(job.uid, []), declared)
    )


def _misnamed(job: Written, members: list[PodStory], declared: str) -> Iterator[Fault]:
    on_job = fields.text(job.spec, "schedulerName")
    in_tasks = [fields.text(task, "template", "spec", "schedulerName") for task in job.tasks]
    others = [name for name in (on_job, *in_tasks) if name and name != schedulers.DEFAULT_NAME]
    wanted = declared or next(iter(others), VOLCANO)
    inherits = [str(task.get("name")) for task, name in zip(job.tasks, in_tasks, strict=True) if not name]
    explained: set[str] = set()
    if on_job != wanted and (on_job or inherits):
        explained |= {*inherits, ""}
        said = f"names {on_job}" if on_job else "is missing, so default-scheduler is used"
        who = (
            f"tasks that name no scheduler ({', '.join(inherits)})"
            if inherits
            else "no task: each names its own"
        )
        yield Fault(
            job.name, job.uid, "spec.schedulerName", on_job,
            f"spec.schedulerName of Job {job.name} {said}; it applies to {who}{_went(members, inherits, wanted)}",
            Cause(
                f"spec.schedulerName of Job {job.name} is {on_job or 'absent'}, its gang needs {wanted}",
                f"set spec.schedulerName to {wanted}, or leave it out if Volcano's admission fills it in",
            ),
            job.key,
        )  # fmt: skip
    for index, (task, name) in enumerate(zip(job.tasks, in_tasks, strict=True)):
        role = str(task.get("name"))
        if name and name != wanted:
            explained |= {role, ""}
            yield _of_template(job, (index, role, name), wanted, _went(members, [role], wanted))
    strays = [pod for pod in members if pod.scheduler != wanted and pod.task not in explained]
    if strays:
        listed = ", ".join(pod.name for pod in strays[:4])
        yield Fault(
            job.name, job.uid, "Pod spec.schedulerName", strays[0].scheduler,
            f"pods of Job {job.name} carry schedulerName {strays[0].scheduler} although the Job and its templates say "
            f"{wanted}: {listed}",
            Cause(
                "something between the controllers and the API server changes schedulerName of pods",
                "look for mutating webhooks on pods (kubectl get mutatingwebhookconfigurations) and exclude the "
                "namespace from them",
            ),
            strays[0].keys["created"],
        )  # fmt: skip


def _of_template(job: Written, task: tuple[int, str, str], wanted: str, went: str) -> Fault:
    index, role, name = task
    path = f"spec.tasks[{index}].template.spec.schedulerName"
    return Fault(
        job.name,
        job.uid,
        path,
        name,
        f"{path} of Job {job.name} (task {role}) names {name}{went}",
        Cause(
            f"the template of task {role} in Job {job.name} names {name}, its gang needs {wanted}",
            f"remove {path}, so that the Job's name applies, or set it to {wanted}",
        ),
        job.key,
    )


def _went(members: list[PodStory], roles: list[str], wanted: str) -> str:
    """Return which pods went to another scheduler than the gang's."""
    gone = [pod for pod in members if pod.task in roles and pod.scheduler != wanted]
    if not gone:
        return ""
    more = f" and {len(gone) - 4} more" if len(gone) > 4 else ""
    return f"; {gone[0].scheduler} places {', '.join(pod.name for pod in gone[:4])}{more} one by one, outside the gang"
