"""The defects that can be planted in the control plane: named departures from documented behaviour."""

from collections.abc import Mapping
from typing import Final

CORE_DEFECTS: Mapping[str, str] = {
    "default-scheduler.gang-aware": (
        "the default scheduler holds the pods of one owner until all its pending pods fit"
    ),
    "access.nodes-hidden": "service accounts of pods may not get nodes, whatever roles and bindings say",
    "admission.foreign-policy": "a policy engine that is none of the schedulers' denies every new Job",
    "lifecycle.job-forgets-finished": (
        "an Indexed Job knows its finished indexes only from the pods that are there"
    ),
}
"""Defects of Kubernetes' own part, with one line on what each does."""

AT_START: Final = frozenset(
    {
        "admission.down",
        "controllers.down",
        "scheduler.down",
        "kueue.absent",
        "kueue.webhook-down",
        "native.gate-off",
        "queue.promises-too-much",
    }
)
"""Defects that decide what is installed and started: they cannot be switched in a control plane that runs."""
