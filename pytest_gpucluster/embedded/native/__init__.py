"""Gangs of Kubernetes itself: PodGroup and Workload of scheduling.k8s.io, as Kubernetes 1.37.2 was recorded to do.

What the recordings leave open was read in the sources of that version.
"""

from pytest_gpucluster.embedded.native.installation import install

__all__ = ["install"]
