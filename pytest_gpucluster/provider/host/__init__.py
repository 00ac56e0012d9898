"""One GPU host without Kubernetes: the embedded control plane, and nodes made of the machine's own devices."""

from pytest_gpucluster.provider.host.provider import HostProvider, completed

__all__ = ["HostProvider", "completed"]
