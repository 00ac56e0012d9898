"""Names of Volcano v1.14.4: kinds, annotations, labels, phases, events, actions."""

from typing import Final

JOB: Final = "Job.batch.volcano.sh"
JOB_API: Final = "batch.volcano.sh/v1alpha1"
POD_GROUP: Final = "PodGroup"
SCHEDULING_API: Final = "scheduling.volcano.sh/v1beta1"
QUEUE: Final = "Queue"
COMMAND: Final = "Command"

VERSION: Final = "v1.14.4"
SYSTEM_NAMESPACE: Final = "volcano-system"
SCHEDULER_CONFIG: Final = "volcano-scheduler-configmap"
SCHEDULER_CONFIG_KEY: Final = "volcano-scheduler.conf"

SCHEDULER: Final = "volcano"
CONTROLLER: Final = "vc-controller-manager"

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY: Final = "volcano.sh/job-retry-count"
QUEUE_NAME: Final = "volcano.sh/queue-name"
TASK_INDEX: Final = "volcano.sh/task-index"
TASK_SPEC: Final = "volcano.sh/task-spec"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
OUT_OF_SYNC_MARK: Final = "volcano.sh/controller-out-of-sync"

ROOT_QUEUE: Final = "root"
DEFAULT_QUEUE: Final = "default"

ANY_EVENT: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
POD_RUNNING: Final = "PodRunning"
UNKNOWN_EVENT: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
OUT_OF_SYNC: Final = "OutOfSync"
COMMAND_ISSUED: Final = "CommandIssued"

PUBLIC_EVENTS: Final = (
    POD_FAILED, POD_EVICTED, POD_PENDING, UNKNOWN_EVENT, TASK_COMPLETED, TASK_FAILED, ANY_EVENT,
    "JobUpdated",
)  # fmt: skip
"""Events that a policy may name, in one of the orders in which v1.14.4 lists them."""
SCHEMA_EVENTS: Final = (
    ANY_EVENT, POD_PENDING, POD_RUNNING, POD_FAILED, POD_EVICTED, UNKNOWN_EVENT, TASK_COMPLETED,
    OUT_OF_SYNC, COMMAND_ISSUED, "JobUpdated", TASK_FAILED,
)  # fmt: skip
"""Events that the custom resource's schema knows, in its order."""

SYNC: Final = "SyncJob"
ABORT: Final = "AbortJob"
RESTART: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTART_PARTITION: Final = "RestartPartition"
TERMINATE: Final = "TerminateJob"
COMPLETE: Final = "CompleteJob"
RESUME: Final = "ResumeJob"
PUBLIC_ACTIONS: Final = (
    ABORT, TERMINATE, COMPLETE, RESTART, RESTART_TASK, RESTART_POD, RESTART_PARTITION, RESUME,
)  # fmt: skip
TARGET_ACTIONS: Final = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})

PLUGIN_NAMES: Final = ("env", "svc", "ssh", "tensorflow", "mpi", "pytorch", "hcclrank", "ray")
"""Job plugins that the admission of v1.14.4 knows."""
