"""Clusters made with kind: a real control plane and real kubelets in containers of a local engine."""

from pytest_gpucluster.provider.kind.provider import KindProvider
from pytest_gpucluster.provider.kind.removal import remove

__all__ = ["KindProvider", "remove"]
