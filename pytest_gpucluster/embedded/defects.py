"""The defects that can be planted in the control plane: named departures from documented behaviour."""

from collections.abc import Mapping
from typing import Final

CORE_DEFECTS: Mapping[str, str] = {
    "default-scheduler.gang-aware": (
        "the default scheduler holds the pods of one owner until all its pending pods fit"
    ),
    "access.nodes-hidden": "service accounts of pods may not get nodes, even if roles and bindings allow it",
    "admission.foreign-policy": "a policy engine that belongs to no scheduler denies every new Job",
    "admission.rewrites-images": (
        "a webhook that points the images of pods to a mirror names them by tag there, not by digest"
    ),
    "default-scheduler.fills-gpu-nodes": (
        "the default scheduler places pods that ask for no GPU on GPU nodes, whatever their node affinity says"
    ),
    "lifecycle.job-replaces-nobody": "an Indexed Job that once had all its pods makes no lost one again",
    "lifecycle.job-ignores-backoff-limit": "a Job makes failed pods again at once, however many have failed",
    "lifecycle.job-forgets-finished": ("an Indexed Job knows its finished indexes only from existing pods"),
}
"""Defects of Kubernetes' own part, with one line on what each does."""

AT_START: Final = frozenset(
    {
        "admission.down",
        "controllers.down",
        "scheduler.down",
        "jobset.absent",
        "kueue.absent",
        "kueue.webhook-down",
        "native.gate-off",
        "queue.promises-too-much",
    }
)
"""Defects that decide what is installed and started: they cannot be switched in a control plane that runs."""
