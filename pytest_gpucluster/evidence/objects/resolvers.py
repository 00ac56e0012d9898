"""Whom a pod asks for names: the cluster's DNS, or somebody who does not know the cluster's names."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import PodStory


def elsewhere(pod: PodStory | None) -> str:
    """Return why a pod does not ask the cluster's DNS; "" where it does.

    A pod on its node's network with dnsPolicy ClusterFirst is given the node's resolver: it would have to say
    ClusterFirstWithHostNet.
    """
    if pod is None:
        return ""
    policy = fields.text(pod.last, "spec", "dnsPolicy") or "ClusterFirst"
    if policy == "Default":
        with_host = "hostNetwork with " if fields.sub(pod.last, "spec").get("hostNetwork") is True else ""
        return f"asks its node's resolver ({with_host}dnsPolicy Default)"
    if policy == "None":
        return "asks the servers of its own dnsConfig (dnsPolicy None)"
    if policy == "ClusterFirst" and fields.sub(pod.last, "spec").get("hostNetwork") is True:
        return "asks its node's resolver (hostNetwork with dnsPolicy ClusterFirst)"
    return ""
