"""A job that runs is called healthy only if its logs say so: that hangs which writes nothing looks like what trains."""

import pytest

from pytest_gpucluster.diagnose import understood
from tests.diagnose.building import Cluster


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "OSError: [Errno 28] No space left on device",
        "Traceback (most recent call last):",
        "ValueError",
        "CUDA error: an illegal memory access was encountered",
    ],
)
def test_an_error_of_python_or_cuda_is_known_by_its_line(line):
    """With or without the rank that torchrun puts before it."""
    assert understood.ERROR.search(line)


@pytest.mark.parametrize(
    "line",
    ["step 10 loss 2.3 ErrorRate: 0.1", "no Error here", "INFO: retry after TimeoutErrors", "error_rate=0.1"],
)
def test_a_word_in_a_sentence_is_no_error(line):
    """A figure or a sentence that has the word in it."""
    assert not understood.ERROR.search(line)


@pytest.mark.parametrize(("nodes", "silent"), [(("n1", "n1"), False), (("", ""), True), (("n1", ""), True)])
def test_a_podgroup_whose_pods_all_have_a_node_waits_for_no_scheduler(nodes, silent):
    """Without a phase too: what holds such pods up is something else, as an image that nobody can pull."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.group("a", 2)["status"] = {}
    for index, node in enumerate(nodes):
        cluster.pod(f"a-{index}", node=node, group="a")
    found = cluster.diagnose("a")
    assert ("scheduler-silent" in {one.code for one in found.suspects}) is silent
