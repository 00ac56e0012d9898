"""Named departures from Volcano's documented behaviour, for testing the tests.

Each has one seam, found by searching for its name. All are off unless the runtime was started with them.
"""

from typing import Final

DEFECTS: Final[dict[str, str]] = {
    "gang.binds-partially": "the scheduler runs without its gang plugin: pods are bound one by one",
    "gang.starves-loser": (
        "a gang that was refused while another gang of its namespace ran is never allocated again"
    ),
    "gang.forgets-room": (
        "a gang that was refused for room held by a pod outside any gang is never bound afterwards"
    ),
    "gang.min-member-short": (
        "the first PodGroup of a namespace asks for one member fewer than its Job's minAvailable"
    ),
    "gang.ignores-task-minimum": "the gang rule looks at minMember only, not at the minimums of tasks",
    "gang.never-reports-short": "the PodGroup of a gang that runs keeps saying so after members were lost",
    "refusal.binds-over-large": (
        "a gang larger than the cluster passes enqueue, and as much of it as fits is bound"
    ),
    "refusal.silent": ("a gang larger than the cluster gets neither a PodGroup phase nor an event"),
    "refusal.reserves": "what a gang asks for that its queue may never have is set aside for it all the same",
    "queue.ignores-capability": "the capability of queues is not looked at",
    "queue.forgets-promises": "overcommit does not count what enqueued gangs were promised",
    "scheduler.serves-any-name": "the scheduler takes pods of its gangs whatever schedulerName they carry",
    "admission.down": "the admission of Jobs is absent: no defaults and no checks but the schema's",
    "admission.no-default-minimum": "the admission of Jobs leaves an absent minAvailable absent",
    "admission.overwrites-scheduler": "the admission of Jobs gives every task template the Job's schedulerName",
    "admission.accepts-duplicate-tasks": "the check for two tasks of one name is missing",
    "admission.accepts-any-queue": "the check of a Job's queue is missing: one that is closed or unknown will do",
    "admission.only-warns": "the admission of Jobs takes whatever it would refuse",
    "admission.other-task-names": "the admission of Jobs names tasks without a name task-0, task-1 and so on",
    "admission.other-retries": "the admission of Jobs makes an absent maxRetry 10",
    "plugins.rank-off-by-one": "the pytorch plugin numbers the workers from 0",
    "plugins.no-pytorch-env": "the pytorch plugin injects nothing",
    "plugins.injects-unasked": ("MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK are injected into every Job"),
    "plugins.svc-without-service": "the svc plugin makes all its objects except the Service",
    "plugins.ignores-port": "the pytorch plugin keeps its default port whatever `--port` says",
    "plugins.no-wait-master": "the pytorch plugin adds no init container that waits for the master",
    "plugins.waits-too-long": "the init container that waits for the master has 300 s whatever its time-out says",
    "plugins.no-hosts-files": "the svc plugin does not mount the hosts files",
    "plugins.no-index-label": "pods of Jobs lack the label volcano.sh/task-index",
    "lifecycle.complete-job-keeps-workers": "CompleteJob sets Completed and ends no pod",
    "lifecycle.completes-without-policy": (
        "a Job completes when its first task has completed, although no policy says so"
    ),
    "lifecycle.completes-by-terminating": "a Job that completes is Terminating before it is Completed",
    "queue.promises-too-much": "the queue default has a capability of more GPUs than the nodes have",
    "queue.ignores-priority": "the scheduler reads no priority class: gangs are served as they came",
    "preemption.never-takes": "the action preempt is in the configuration and does nothing",
    "preemption.ignores-minimum": (
        "preempt and reclaim take members that a gang needs: the vote of the gang plugin is not asked"
    ),
    "preemption.never-gives-back": "the action reclaim is in the configuration and does nothing",
    "lifecycle.eviction-ignored": "a policy for PodEvicted does nothing: only the lost pod is made again",
    "lifecycle.restarts-without-end": "a Job is restarted however often its attempts have failed",
    "lifecycle.ttl-ignored": "finished Jobs stay, whatever their ttlSecondsAfterFinished says",
    "lifecycle.min-success-ignored": "minSuccess decides nothing",
    "lifecycle.exit-code-ignored": "a policy for an exit code does nothing",
    "lifecycle.resume-ignored": "the command ResumeJob does nothing",
    "scheduler.down": "the scheduler does not run",
    "controllers.down": "the Job controller does not run",
}
"""Name of each defect and what it does."""
