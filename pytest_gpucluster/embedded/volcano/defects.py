"""Named departures from Volcano's documented behaviour, for testing the tests.

Each has one seam, found by searching for its name. All are off unless the runtime was started with them.
"""

from typing import Final

DEFECTS: Final[dict[str, str]] = {
    "gang.binds-partially": "the scheduler runs without its gang plugin and binds pods one by one",
    "gang.starves-loser": (
        "a gang that was refused while another gang of its namespace ran is never allocated again"
    ),
    "gang.forgets-room": (
        "a gang that was refused because a pod outside any gang held the room is never bound later"
    ),
    "gang.min-member-short": (
        "the first PodGroup of a namespace asks for one member fewer than its Job's minAvailable"
    ),
    "gang.ignores-task-minimum": "the gang rule checks only minMember, not the minimums of tasks",
    "gang.never-reports-short": "the PodGroup of a running gang still says Running after members were lost",
    "refusal.binds-over-large": (
        "a gang larger than the cluster passes enqueue, and as many members as fit are bound"
    ),
    "refusal.silent": ("a gang larger than the cluster gets neither a PodGroup phase nor an event"),
    "refusal.reserves": "room is reserved for a gang that asks for more than its queue may ever have",
    "queue.ignores-capability": "the capability of queues is not checked",
    "queue.forgets-promises": "overcommit does not count the resources promised to enqueued gangs",
    "scheduler.serves-any-name": "the scheduler takes pods of its gangs even if they name another scheduler",
    "admission.down": "the admission of Jobs is absent: only the schema sets defaults and checks",
    "admission.no-default-minimum": "the admission of Jobs does not set a missing minAvailable",
    "admission.overwrites-scheduler": "the admission of Jobs gives every task template the Job's schedulerName",
    "admission.accepts-duplicate-tasks": "the check for two tasks with the same name is missing",
    "admission.accepts-any-queue": "the check of a Job's queue is missing: a closed or unknown queue is accepted",
    "admission.only-warns": "the admission of Jobs accepts Jobs that it should refuse",
    "admission.other-task-names": "the admission of Jobs gives unnamed tasks the names task-0, task-1 and so on",
    "admission.other-retries": "the admission of Jobs sets a missing maxRetry to 10",
    "plugins.rank-off-by-one": "the pytorch plugin numbers the workers from 0",
    "plugins.no-pytorch-env": "the pytorch plugin injects nothing",
    "plugins.injects-unasked": (
        "MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK are injected into every Job, and MPI_HOST into its first task"
    ),
    "plugins.opens-keys": "the ssh plugin mounts its keys with mode 0644 at /root/.ssh",
    "plugins.svc-without-service": "the svc plugin makes all its objects except the Service",
    "plugins.ignores-port": "the pytorch plugin uses its default port and ignores `--port`",
    "plugins.no-wait-master": "the pytorch plugin adds no init container that waits for the master",
    "plugins.waits-too-long": "the init container that waits for the master waits 300 s and ignores its time-out",
    "plugins.no-hosts-files": "the svc plugin does not mount the hosts files",
    "plugins.no-index-label": "pods of Jobs lack the label volcano.sh/task-index",
    "lifecycle.complete-job-keeps-workers": "CompleteJob sets Completed but ends no pod",
    "lifecycle.completes-without-policy": (
        "a Job completes when its first task has completed, without a policy for that"
    ),
    "lifecycle.completes-by-terminating": "a Job that completes is Terminating before it is Completed",
    "queue.promises-too-much": "the capability of the queue default is more GPUs than the nodes have",
    "queue.ignores-priority": "the scheduler ignores priority classes and serves gangs in order of arrival",
    "preemption.never-takes": "the action preempt is configured but does nothing",
    "preemption.ignores-minimum": (
        "preempt and reclaim take members that a gang needs, without asking the gang plugin"
    ),
    "preemption.never-gives-back": "the action reclaim is configured but does nothing",
    "lifecycle.eviction-ignored": "a policy for PodEvicted does nothing: only the lost pod is created again",
    "lifecycle.restarts-without-end": "a Job is restarted without end when its attempts fail",
    "lifecycle.ttl-ignored": "finished Jobs stay, even with ttlSecondsAfterFinished",
    "lifecycle.min-success-ignored": "minSuccess decides nothing",
    "lifecycle.exit-code-ignored": "a policy for an exit code does nothing",
    "lifecycle.resume-ignored": "the command ResumeJob does nothing",
    "scheduler.down": "the scheduler does not run",
    "controllers.down": "the Job controller does not run",
}
"""Name of each defect and what it does."""
