"""Clusters made with kind: a real control plane and real kubelets in containers, and what stands in for GPUs there."""

from pytest_gpucluster.provider.kind.provider import KindProvider
from pytest_gpucluster.provider.kind.removal import remove

__all__ = ["KindProvider", "remove"]
