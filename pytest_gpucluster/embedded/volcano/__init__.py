"""Volcano v1.14.4 in small, as recorded: admission, Job controller with plugins, queues, scheduler."""

from pytest_gpucluster.embedded.volcano.defects import DEFECTS
from pytest_gpucluster.embedded.volcano.installation import install

__all__ = ["DEFECTS", "install"]
