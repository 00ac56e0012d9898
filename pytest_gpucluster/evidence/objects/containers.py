"""Containers of pods: which the pod's author asked for, and what the status of one says of its runs."""

import re

from pytest_gpucluster.evidence.log import fields

PROXY = re.compile(
    r"istio|linkerd|envoy|consul-dataplane|consul-connect|kuma|osm-|traefik-mesh|nsm-", re.IGNORECASE
)
"""Names and images of the proxies that meshes put into pods."""

MARK = "GPUCLUSTER_CONTAINER"
"""Variable by which each container of ours that speaks knows its name."""
PARTS = ("initContainers", "containers")
OF_PLUGINS = frozenset({"wait-for-master"})
"""Containers that plugins of Volcano add for the Job: what they print is of the Job."""

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


def own(pod: fields.Object, part: str = "containers") -> list[fields.Object]:
    """Return the containers of a pod, or its init containers, that its author asked for.

    What admission puts beside them (the proxy of a mesh, the agent of a monitor) says nothing of ours, ends when it
    likes and asks for no GPU of ours. In pods of ours every container that speaks is marked.
    """
    every = fields.items(pod, "spec", part)
    if any(_marked(one) for each in PARTS for one in fields.items(pod, "spec", each)):
        return [one for one in every if _marked(one)]
    return [one for one in every if not is_proxy(one)]


def own_names(pod: fields.Object) -> frozenset[str]:
    """Return the names of the regular containers that a pod's author asked for."""
    return frozenset(str(one.get("name")) for one in own(pod))


def foreign(pod: fields.Object) -> frozenset[str]:
    """Return the names of the containers that neither a pod's author nor a plugin of its Job asked for."""
    own_ones = {str(one.get("name")) for part in PARTS for one in own(pod, part)}
    every = {str(one.get("name")) for part in PARTS for one in fields.items(pod, "spec", part)}
    return frozenset(every - own_ones - OF_PLUGINS)


def is_proxy(container: fields.Object) -> bool:
    """Report whether a container is the proxy of a mesh, by its name or its image."""
    return PROXY.search(f"{container.get('name')} {container.get('image') or ''}") is not None


def _marked(container: fields.Object) -> bool:
    return any(entry.get("name") == MARK for entry in fields.items(container, "env"))


def is_sidecar(container: fields.Object) -> bool:
    """Report whether an init container goes on beside the regular ones: it is started before, and restarted."""
    return container.get("restartPolicy") == "Always"
