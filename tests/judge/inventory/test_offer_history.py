"""INV-002, INV-005 and INV-008: what nodes offer and nobody understands, and what they offered for a time."""

import copy

import pytest

from pytest_gpucluster.evidence.objects import gpu_names
from pytest_gpucluster.judge.inventory import gpu_count, node_pool, training_queue
from tests import recordings
from tests.judge.inventory.cluster import GPU, TOLD, decide, evidence, node, queue_of


def watched(*seen, end=300.0):
    """Return evidence of objects that were seen at times: (t, type, object)."""
    lines = [{"t": t, "type": kind, "kind": obj["kind"], "object": obj} for t, kind, obj in seen]
    return recordings.evidence_of([*lines, {"t": end, "type": "NOTE", "note": "end"}], header={"given": TOLD})


def gpus(seen, **told):
    """Return the finding of INV-002."""
    return decide(
        gpu_count.gpus_as_declared, seen, gpu_count.nodes_listed, gpu_count.gpu_nodes_report, **told
    )


def alike(seen):
    """Return the finding of INV-008."""
    return decide(node_pool.nodes_alike, seen, gpu_count.nodes_listed, node_pool.siblings)


def told(base, amounts, *parts):
    """Return a node that tells amounts in these parts of its status, in both by default."""
    made = copy.deepcopy(base)
    for part in parts or ("capacity", "allocatable"):
        made["status"][part] |= amounts
    return made


FOREIGN = [
    "nvidia.com/gpu-h100",
    "aliyun.com/gpu-mem",
    "volcano.sh/vgpu-number",
    "example.com/h100",
    "site/MI300X",
]


@pytest.mark.parametrize("resource", FOREIGN)
def test_gpus_under_a_name_that_nobody_knows(resource):
    """Instead of the declared name: the node offers none. Beside it: perhaps the same GPUs. Declared: it counts."""
    instead = gpus(evidence(node("a"), node("b", 8, resource=resource)))
    assert (instead.verdict, instead.violation) == ("fail", True)
    assert f"b offers 0 of 8, but 8 {resource}" in instead.observed
    beside = gpus(evidence(node("a"), node("b", **{resource: "80"})))
    assert beside.verdict == "inconclusive"
    assert f"b offers 80 {resource} beside 8 {GPU}" in beside.observed
    assert gpus(evidence(node("a", 8, resource=resource)), gpu_resource=resource).verdict == "pass"


@pytest.mark.parametrize(
    "more",
    [
        {"rdma/hca_gpu0": "1"}, {"nvidia.com/hostdev": "8"}, {"nvidia.com/gpu_nic": "8"},
        {"vpc.amazonaws.com/efa": "4"},
        {"smarter-devices/fuse": "20"}, {"devices.kubevirt.io/kvm": "1k"}, {"example.com/gpu-a30": "0"},
        {"gpu.intel.com/i915_monitoring": "1"}, {"cpu": "95500m"},
    ],
)  # fmt: skip
def test_other_devices_are_no_gpus(more):
    """Adapters, also those named after the GPU that they serve, monitors, and a name that stayed behind with 0."""
    finding = gpus(evidence(node("a", **more), node("b", **more)))
    assert finding.verdict == "pass", finding.observed


def test_names_that_the_labels_explain():
    """Feature discovery counts as many GPUs as are offered under both names together: each is offered once."""
    found = node("a", 6, labels={"nvidia.com/gpu.count": "8"}, **{"nvidia.com/gpu-a30": "2"})
    assert gpus(evidence(found), gpus_per_node=6).verdict == "pass"


@pytest.mark.parametrize("part", ["capacity", "allocatable"])
def test_slices_in_one_part_of_the_status(part):
    """A name under what can be asked for alone is offered all the same, and so is one under capacity."""
    sliced = told(node("b", None), {"nvidia.com/mig-1g.10gb": "7"}, part)
    finding = gpus(evidence(node("a"), sliced))
    assert finding.verdict == "fail"
    assert "b offers 0 of 8, but 7 nvidia.com/mig-1g.10gb" in finding.observed


@pytest.mark.parametrize("value", ["8.5", "8500m", "-8", "eight", None, True, ["8"]])
@pytest.mark.parametrize("resource", [GPU, "nvidia.com/mig-1g.10gb"])
def test_what_is_no_number_of_devices(value, resource):
    """It is no 0, and no number rounded down: nobody knows what the node offers."""
    odd = told(node("b"), {resource: value}, "allocatable")
    finding = gpus(evidence(node("a"), odd))
    assert finding.verdict == "inconclusive"
    assert "which is not a number of devices" in finding.observed
    assert alike(evidence(node("a"), odd)).verdict != "pass"
    alone = gpus(evidence(node("a"), told(node("b", None), {resource: value})))
    assert alone.verdict == "inconclusive", alone.observed


# -- over time -------------------------------------------------------------------------------------------------------


def test_a_number_that_was_another_for_a_time():
    """At no time: neither fewer, nor more, nor shares, nor a key that is gone at the end."""
    a, b = node("a"), node("b")
    start = [(0.0, "ADDED", a), (0.0, "ADDED", b)]
    for odd in (node("b", 16), node("b", 8, 0), node("b", 4), node("b", **{"nvidia.com/mig-1g.10gb": "7"})):
        finding = gpus(watched(*start, (50.0, "MODIFIED", odd), (52.0, "MODIFIED", b)))
        assert (finding.verdict, finding.violation) == ("fail", True), odd
    for odd in (told(b, {GPU: "8.5"}), told(b, {"volcano.sh/vgpu-number": "80"})):
        assert gpus(watched(*start, (50.0, "MODIFIED", odd), (52.0, "MODIFIED", b))).verdict == "inconclusive"
    for odd in (node("b", 0), node("b", None)):
        finding = gpus(watched(*start, (50.0, "MODIFIED", odd)))
        assert finding.verdict == "fail", "a node that lost its GPUs is no node without GPUs"
        assert "b offers 0 of 8" in finding.observed
        assert alike(watched(*start, (50.0, "MODIFIED", odd))).verdict != "pass"


def test_a_sibling_that_had_none_for_a_time():
    """INV-008: alike at the end, and not for two seconds. A restart, or the same on all nodes, makes nobody unlike."""
    a, b, c = node("a"), node("b"), node("c")
    start = [(0.0, "ADDED", a), (0.0, "ADDED", b), (0.0, "ADDED", c)]
    gone = (50.0, "MODIFIED", node("b", 8, 0))
    finding = alike(watched(*start, gone, (52.0, "MODIFIED", b)))
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "number of nvidia.com/gpu: b has 0 of 8, the others 8 (at t=50.0 s)" in finding.observed
    assert finding.where == ("Node/b: differs in 1",)
    away = node("b", 8, 0, ready="Unknown")
    assert alike(watched(*start, (50.0, "MODIFIED", away), (90.0, "MODIFIED", b))).verdict == "pass"
    bare = [(0.0, "ADDED", node(name, 0)) for name in "abc"]
    together = [(9.0, "MODIFIED", obj) for obj in (a, b, c)]
    assert alike(watched(*bare, *together)).verdict == "pass"
    one_by_one = [(9.0 + n, "MODIFIED", obj) for n, obj in enumerate((a, b, c))]
    assert alike(watched(*bare, *one_by_one)).verdict == "fail"


def test_a_node_that_left_while_it_was_watched():
    """What it offers since is not known; by decision it is out of service; what it lacked before counts."""
    a, b = node("a"), node("b")
    start = [(0.0, "ADDED", a), (0.0, "ADDED", b)]
    left = gpus(watched(*start, (50.0, "DELETED", b)))
    assert left.verdict == "inconclusive"
    assert "b left the cluster at t=50 s" in left.observed
    back = gpus(watched(*start, (50.0, "DELETED", b), (60.0, "ADDED", b)))
    assert back.verdict == "inconclusive"
    assert "and came back at t=60 s" in back.observed
    announced = node("b", cordoned=True)
    taken = gpus(watched(*start, (40.0, "MODIFIED", announced), (50.0, "DELETED", announced)))
    assert taken.verdict == "pass", taken.observed
    assert "b left the cluster at t=50 s" in taken.observed
    scaled = copy.deepcopy(b)
    scaled["spec"] = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}
    assert gpus(watched(*start, (50.0, "DELETED", scaled))).verdict == "pass"
    ill = gpus(watched(*start, (40.0, "MODIFIED", node("b", 8, 7)), (50.0, "DELETED", node("b", 8, 7))))
    assert (ill.verdict, ill.violation) == ("fail", True)
    assert (
        gpus(watched(*start, (9.0, "ADDED", node("c", None)), (50.0, "DELETED", node("c", None)))).verdict
        == "pass"
    )


def test_a_machine_of_which_the_cloud_deletes_the_node_while_it_is_off():
    """It comes back from another boot: a restart, which is told and decides nothing."""
    a, old = node("a"), node("b")
    old["status"]["nodeInfo"]["bootID"] = "one"
    new = copy.deepcopy(old)
    new["status"]["nodeInfo"]["bootID"] = "two"
    seen = watched((0.0, "ADDED", a), (0.0, "ADDED", old), (50.0, "DELETED", old), (90.0, "ADDED", new))
    finding = gpus(seen)
    assert finding.verdict == "pass", finding.observed
    assert "came back at t=90 s" in finding.observed


# -- queues ----------------------------------------------------------------------------------------------------------


def quota(*seen):
    """Return the finding of INV-005."""
    return decide(training_queue.queue_fits, watched((0.0, "ADDED", node("a")), *seen))


def test_a_queue_that_was_shut_for_a_time():
    """Open at the end does not undo it; a queue without a state yet has just been made."""
    now, shut, fresh = queue_of(), queue_of(state="Closed"), queue_of(state="")
    finding = quota((0.0, "ADDED", now), (50.0, "MODIFIED", shut), (52.0, "MODIFIED", now))
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "was Closed for a time (at t=50.0 s), and is Open" in finding.observed
    assert quota((0.0, "ADDED", shut), (52.0, "MODIFIED", now)).verdict == "fail"
    assert quota((0.0, "ADDED", fresh), (2.0, "MODIFIED", now)).verdict == "pass"


@pytest.mark.parametrize("value", ["8x", None, [], "a lot"])
def test_a_promise_that_cannot_be_read(value):
    """It is no absent promise; and what a node offers of something promised must be a number too."""
    finding = quota((0.0, "ADDED", queue_of(capability={GPU: value})))
    assert finding.verdict == "inconclusive"
    assert "not valid amounts" in finding.observed
    odd = told(node("b"), {GPU: "8.5"})
    seen = [(0.0, "ADDED", odd), (0.0, "ADDED", queue_of(capability={GPU: "16"}))]
    assert quota(*seen).verdict == "inconclusive"


def test_names_that_are_known():
    """What `discover` proposes stays the names of device plugins; what a judge must not overlook is more."""
    assert gpu_names.is_gpu("nvidia.com/mig-1g.10gb.shared")
    assert not any(gpu_names.is_gpu(name) for name in FOREIGN)
    assert all(gpu_names.reads_as_gpu(name) for name in FOREIGN)
