"""Kueue v0.17.0 as recorded: admission, workloads of batch Jobs, quota, eviction. Quota only: no node is looked at."""

from pytest_gpucluster.embedded.kueue.installation import install

__all__ = ["install"]
