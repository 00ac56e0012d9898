"""INV-002: shares and slices that pass for GPUs, GPUs offered twice, and nodes that were only restarting."""

import copy
import json

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.evidence.objects import labelled_gpus, node_status
from pytest_gpucluster.judge.inventory import gpu_count
from tests import recordings
from tests.judge.inventory.cluster import GPU, TOLD, decide, evidence, node

SHARED, SLICE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def labels(count=None, replicas=None, product=None, **more):
    """Return labels as feature discovery writes them."""
    told = {"count": count, "replicas": replicas, "product": product}
    own = {f"nvidia.com/gpu.{key}": str(value) for key, value in told.items() if value is not None}
    return own | {key.replace("__", "/"): value for key, value in more.items()}


def judged(*found, **told):
    """Return the finding of INV-002 of nodes that were listed."""
    return decide(
        gpu_count.gpus_as_declared,
        evidence(*found),
        gpu_count.nodes_listed,
        gpu_count.gpu_nodes_report,
        **told,
    )


PRODUCT = "NVIDIA-H100-80GB-HBM3"
MIG = f"{PRODUCT}-MIG-1g.10gb"


@pytest.mark.parametrize(
    ("found", "told", "said"),
    [
        # Each GPU counted once for each share, whatever is declared or nothing.
        (node("a", 40, labels=labels(4, 1)), {"gpus_per_node": 4}, "40 are offered where nvidia.com/gpu.count says 4"),
        (node("a", 40, labels=labels(4, 1)), {"gpus_per_node": 40}, "each is counted 10 times"),
        (node("a", 40, labels=labels(4, 1)), {"gpus_per_node": None}, "each is counted 10 times"),
        (node("a", 8, labels=labels(2, 4, f"{PRODUCT}-SHARED")), {}, "shares of 2 GPUs (nvidia.com/gpu.count=2)"),
        (node("a", 8, labels=labels(8, 1, f"{PRODUCT}-SHARED")), {}, f"nvidia.com/gpu.product={PRODUCT}-SHARED"),
        (node("a", 8, labels={"cloud.google.com/gke-max-shared-clients-per-gpu": "4"}), {}, "clients-per-gpu=4"),
        (node("a", 8, labels=labels(3)), {}, "8 are offered where nvidia.com/gpu.count says 3"),
        # Slices under the name of whole GPUs.
        (node("a", 8, labels=labels(8, 1, MIG)), {}, f"slices of GPUs (nvidia.com/gpu.product={MIG})"),
        (node("a", 56, labels=labels(56, 1, MIG)), {"gpus_per_node": None}, "slices of GPUs"),
        (node("a", 8, labels=labels(0, 0, f"{PRODUCT}-MIG-INVALID")), {}, "MIG-INVALID"),
        (node("a", 8, labels={"cloud.google.com/gke-gpu-partition-size": "1g.10gb"}), {}, "partition-size=1g.10gb"),
        # The same GPUs under two names.
        (node("a", labels=labels(8, 1), **{SLICE: "7"}), {}, "8 whole GPUs are offered beside 7 nvidia.com/mig-1g"),
        (node("a", **{SLICE: "7"}), {}, "need 1 more at least, and gpus_per_node says 8"),
        (node("a", labels=labels(8), **{SHARED: "40"}), {}, "beside 40 nvidia.com/gpu.shared"),
        (node("a", 6, labels=labels(8), **{SLICE: "21"}), {"gpus_per_node": 6}, "need 3 more at least"),
        (node("a", 7, resource=SLICE, labels=labels(1), **{GPU: "1"}),
         {"gpu_resource": SLICE, "gpus_per_node": 7}, "1 whole GPUs are offered beside 7"),
        # A GPU that is no longer there, though the number is as declared.
        (node("a", 7, labels=labels(8, 1)), {"gpus_per_node": 7}, "7 are offered where nvidia.com/gpu.count says 8"),
        # Shares and slices that are declared, and counted otherwise.
        (node("a", 30, resource=SHARED, labels=labels(4, 10)), {"gpu_resource": SHARED, "gpus_per_node": 30},
         "30 are offered where nvidia.com/gpu.count says 4 and nvidia.com/gpu.replicas 10"),
        (node("a", 14, resource=SLICE, labels={f"{SLICE}.count": "7"}), {"gpu_resource": SLICE, "gpus_per_node": 14},
         "14 are offered where nvidia.com/mig-1g.10gb.count says 7"),
    ],
)  # fmt: skip
def test_labels_that_contradict_what_is_offered(found, told, said):
    """The label that contradicts is named; nobody is told to declare another number."""
    finding = judged(found, **told)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert said in finding.observed
    assert finding.causes
    assert not any("correct gpus_per_node" in cause.fix for cause in finding.causes)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (node("a", labels=labels(8, 1, PRODUCT)), {}),
        (node("a", labels=labels(8, 0, PRODUCT)), {}),
        (node("a", labels=labels(8, 1, PRODUCT)), {"gpus_per_node": None}),
        # Declared by their own name.
        (node("a", 40, resource=SHARED, labels=labels(4, 10, PRODUCT)), {"gpu_resource": SHARED, "gpus_per_node": 40}),
        (node("a", 40, resource=SHARED, labels=labels(4)), {"gpu_resource": SHARED, "gpus_per_node": 40}),
        (node("a", 56, resource=SLICE, labels=labels(8, 0) | {f"{SLICE}.count": "56"}),
         {"gpu_resource": SLICE, "gpus_per_node": 56}),
        (node("a", 8, resource="example.com/gpu", labels=labels(4)), {"gpu_resource": "example.com/gpu"}),
        (node("a", 8, resource="amd.com/gpu"), {"gpu_resource": "amd.com/gpu"}),
        # Some GPUs whole, the others cut: nothing is offered twice.
        (node("a", 4, labels=labels(8, 1), **{SLICE: "28"}), {"gpus_per_node": 4}),
        (node("a", 6, labels=labels(8, 1), **{"nvidia.com/mig-3g.40gb": "4"}), {"gpus_per_node": 6}),
        # A name that stayed behind with 0, and labels that are no numbers.
        (node("a", labels=labels(8, 1), **{SLICE: "0"}), {}),
        (node("a", labels=labels("many", "-")), {}),
    ],
)  # fmt: skip
def test_labels_that_agree(found, told):
    """Whole GPUs, shares and slices that are declared by name, other vendors and renamed resources."""
    finding = judged(found, **told)
    assert finding.verdict == "pass", finding.observed


@pytest.mark.parametrize(
    ("offered", "gpus"),
    [({SLICE: 1}, 1), ({SLICE: 7}, 1), ({SLICE: 8}, 2), ({"nvidia.com/mig-3g.40gb": 3}, 2),
     ({"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-3g.40gb": 1}, 1), ({"nvidia.com/mig-1c.3g.40gb": 2}, 1),
     ({"amd.com/gpu": 8}, 0), ({SLICE: 0}, 0)],
)  # fmt: skip
def test_slices_need_so_many_gpus(offered, gpus):
    """A GPU has seven compute slices; the profile says how many of them one slice takes."""
    amounts = {name: str(count) for name, count in offered.items()}
    (found,) = node_status.machines(evidence(node("a", None, **amounts)))
    assert labelled_gpus.sliced(found)[0] == gpus


def test_what_kubectl_printed_of_shared_gpus(tmp_path):
    """Nothing declared: the label's number is what a node must offer."""
    shared = node("ts-1", 40, labels=labels(4, 1, "NVIDIA-A10G"))
    path = tmp_path / "nodes.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [{**shared, "apiVersion": "v1"}]})
    )
    finding = gpu_count.gpus_as_declared(read(path), {})
    assert finding.verdict == "fail"
    assert "ts-1 offers 40 of 4" in finding.observed


# -- restarts --------------------------------------------------------------------------------------------------------


def life(*states, events=(), end=400.0):
    """Return the finding of a node that was seen in these states: (t, node)."""
    lines = [
        {"t": t, "type": "MODIFIED" if n else "ADDED", "kind": "Node", "object": obj}
        for n, (t, obj) in enumerate(states)
    ]
    for t, reason in events:
        about = {"kind": "Node", "name": "a", "uid": "a"}
        body = {"kind": "Event", "metadata": {"name": f"e{t}", "uid": f"e{t}"}, "involvedObject": about}
        body |= {"reason": reason, "type": "Normal", "message": "", "source": {"component": "kubelet"}}
        lines.append({"t": t, "type": "ADDED", "kind": "Event", "object": body})
    seen = recordings.evidence_of([*lines, {"t": end, "type": "NOTE", "note": "end"}], header={"given": TOLD})
    return decide(gpu_count.gpus_as_declared, seen, gpu_count.nodes_listed, gpu_count.gpu_nodes_report)


def booted(boot, *args, **more):
    """Return a node of one boot."""
    found = copy.deepcopy(node("a", *args, **more))
    found["status"]["nodeInfo"]["bootID"] = boot
    return found


FULL, NONE, GONE = node("a"), node("a", 8, 0), node("a", 8, ready="Unknown")


@pytest.mark.parametrize(
    ("states", "events"),
    [
        (((0, FULL), (100, GONE), (260, NONE), (290, FULL)), ()),
        (((0, FULL), (100, node("a", 8, 0, ready="False")), (130, FULL)), ()),
        (((0, GONE), (5, NONE), (20, FULL)), ()),
        (((0, booted("x")), (100, booted("y", 8, 0)), (110, booted("y"))), ()),
        (((0, FULL), (100, NONE), (110, FULL)), ((99, "Starting"),)),
        (((0, FULL), (100, NONE), (110, FULL)), ((100, "Rebooted"),)),
        (((0, FULL), (50, GONE), (60, NONE), (70, FULL), (200, GONE), (220, NONE), (230, FULL)), ()),
    ],
)  # fmt: skip
def test_a_restart_is_no_coming_and_going(states, events):
    """All devices go at once and come back soon after the kubelet; it is told, and violates nothing."""
    finding = life(*states, events=events)
    assert finding.verdict == "pass", finding.observed
    assert "a restarted" in finding.observed


@pytest.mark.parametrize(
    ("states", "said"),
    [
        # Some are missing after it, for a time or for good.
        (((0, FULL), (100, GONE), (200, node("a", 8, 7)), (300, FULL)), "for a time 1 GPU node did not"),
        (((0, FULL), (100, GONE), (200, NONE), (230, node("a", 8, 7))), "a offers 7 of 8"),
        # Nobody restarted.
        (((0, FULL), (100, NONE), (130, FULL)), "for a time 1 GPU node did not"),
        # The restart was over, and devices went again.
        (((0, FULL), (50, GONE), (60, NONE), (70, FULL), (200, NONE), (230, FULL)), "for a time"),
        # The plugin took too long.
        (((0, FULL), (10, GONE), (20, NONE), (380, FULL)), "for a time"),
        (((0, FULL), (10, GONE), (20, NONE)), "a offers 0 of 8"),
    ],
)  # fmt: skip
def test_what_no_restart_explains(states, said):
    """A GPU that is lost, a plugin that leaves, a restart that is over."""
    finding = life(*states)
    assert finding.verdict == "fail", finding.observed
    assert said in finding.observed


def test_a_restart_that_is_not_over():
    """Whether all devices come back was not seen yet."""
    finding = life((0, FULL), (300, GONE), (350, NONE))
    assert finding.verdict == "inconclusive"
    assert "still restarting: a restarted" in finding.observed
