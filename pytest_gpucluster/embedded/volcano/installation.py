"""Putting Volcano into a runtime: schemas, webhooks, standard queues, what its installer leaves, controllers."""

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import admission, names, queues, schema, shipped, validation
from pytest_gpucluster.embedded.volcano.jobs.controller import JobController
from pytest_gpucluster.embedded.volcano.jobs.ttl import remove_finished
from pytest_gpucluster.embedded.volcano.scheduler.loop import run_scheduler

DOWN = {
    "admission.down": "volcano-admission",
    "controllers.down": "volcano-controllers",
    "scheduler.down": "volcano-scheduler",
}
"""Defect that stops a part -> its Deployment."""
OTHER_RETRIES = 10
"""What an absent maxRetry becomes under `admission.other-retries`."""
PROMISED = {"nvidia.com/gpu": "4096"}
"""Capability of the queue `default` under `queue.promises-too-much`, as of a cluster whose nodes have gone."""


def install(runtime: Runtime) -> None:
    """Add Volcano to a runtime whose table serves Volcano's types, and start its controllers.

    Needs a running event loop. Which parts depart from the documented behaviour is decided by the runtime's
    defects (`defects.DEFECTS`). The configuration key `volcano_scheduler_conf` replaces the scheduler's shipped
    configuration.
    """
    table = runtime.store.table
    table.hook(names.JOB, default=schema.default_job, validate=schema.validate_job, prune=schema.prune_job)
    table.hook(names.QUEUE, default=schema.default_queue, prune=schema.prune_queue)
    runtime.admission.extend(queues.hooks())
    if not runtime.has("admission.down"):
        runtime.admission.extend(_job_hooks(runtime))
    promised = PROMISED if runtime.has("queue.promises-too-much") else None
    queues.create_standard_queues(runtime.store, capability=promised)
    down = (part for defect, part in DOWN.items() if runtime.has(defect))
    conf = str(runtime.config.get("volcano_scheduler_conf") or shipped.SCHEDULER_CONF)
    shipped.create_installation(runtime.store, down=frozenset(down), scheduler_conf=conf)
    runtime.spawn(queues.run_queue_controller(runtime), "volcano queues")
    if not runtime.has("controllers.down"):
        runtime.spawn(JobController(runtime).run(), "volcano jobs")
        runtime.spawn(remove_finished(runtime), "volcano ttl")
    if not runtime.has("scheduler.down"):
        runtime.spawn(run_scheduler(runtime), "volcano scheduler")


def _job_hooks(runtime: Runtime) -> list[AdmissionHook[Store]]:
    def mutate(job: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
        admission.mutate_job(
            job,
            without_minimum=runtime.has("admission.no-default-minimum"),
            one_scheduler=runtime.has("admission.overwrites-scheduler"),
            task_name="task-" if runtime.has("admission.other-task-names") else admission.TASK_NAME,
            retries=OTHER_RETRIES if runtime.has("admission.other-retries") else admission.DEFAULT_MAX_RETRY,
        )
        return job

    def validate(job: Obj, old: Obj | None, store: Store) -> Obj:
        if old is None and runtime.has("admission.only-warns"):
            return job
        if old is None:
            allowed = runtime.has("admission.accepts-duplicate-tasks")
            any_queue = runtime.has("admission.accepts-any-queue")
            validation.check_create(job, store, duplicates_allowed=allowed, any_queue=any_queue)
        else:
            validation.check_update(job, old)
        return job

    return [
        AdmissionHook(names.JOB, "CREATE", mutate, "mutating"),
        AdmissionHook(names.JOB, "CREATE", validate, "validating"),
        AdmissionHook(names.JOB, "UPDATE", validate, "validating"),
    ]
