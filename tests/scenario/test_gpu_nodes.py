"""GPUs that nodes offer, and what is said where they are too few."""

import pytest

from pytest_gpucluster.kube import errors
from pytest_gpucluster.scenario import gpu_nodes


def node(gpus):
    """Return a node that offers GPUs."""
    return {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


def test_what_no_cluster_of_that_size_can_place_is_said_before_it_is_awaited():
    """A gang of four on nodes of two: a precondition that is not met, with both numbers."""
    gpu_nodes.require([node(1), node(3)], "nvidia.com/gpu", 4)
    with pytest.raises(errors.EnvironmentProblem) as error:
        gpu_nodes.require([node(1), node(1)], "nvidia.com/gpu", 4)
    assert str(error.value) == "4 nvidia.com/gpu are needed at the same time; the nodes offer 2"
    with pytest.raises(errors.EnvironmentProblem, match="the nodes offer 0"):
        gpu_nodes.require([], "nvidia.com/gpu", 1)
