"""Names of native gang scheduling: kinds, fields, conditions, reasons."""

from typing import Final

GROUP: Final = "scheduling.k8s.io"
API: Final = "scheduling.k8s.io/v1beta1"
POD_GROUP: Final = "PodGroup.scheduling.k8s.io"
WORKLOAD: Final = "Workload.scheduling.k8s.io"

PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
"""Finalizer that keeps a PodGroup as long as pods that have not ended name it."""

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
