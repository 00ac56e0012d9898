"""What the status of one container says of its runs."""

from pytest_gpucluster.evidence import fields

UNKNOWN = "ContainerStatusUnknown"
"""Reason of an end that a kubelet did not see."""


def never_ran(status: fields.Object) -> bool:
    """Report whether the end in a container's status is that of one that never ran.

    A kubelet writes exit code 137 for a container that it cannot find when its pod is deleted, such as one whose image
    never came. One that it lost after it had run has a restart counted.
    """
    ended = fields.sub(status, "state", "terminated")
    return ended.get("reason") == UNKNOWN and not ended.get("startedAt") and not status.get("restartCount")


def end_of(status: fields.Object, part: str = "state") -> fields.Object:
    """Return how the present (`state`) or the previous (`lastState`) run ended.

    {} where it has not ended, or there was no run: the kubelet's word on one that it never started is no end.
    """
    if part == "state" and never_ran(status):
        return {}
    return fields.sub(status, part, "terminated")


def began(status: fields.Object) -> bool:
    """Report whether the present run began: it goes on, or it has come to its end."""
    return "running" in fields.sub(status, "state") or bool(end_of(status))
