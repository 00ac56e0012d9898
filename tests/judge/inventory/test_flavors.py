"""INV-005: quota of flavors, each against the nodes that it stands for, and quota that gives nothing."""

import pytest

from pytest_gpucluster.judge.inventory import flavors, gpu_count, training_queue
from tests.judge.inventory.cluster import GPU, decide, evidence, node, queue_of

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def machine(name, gpus=8, taints=(), **labels):
    """Return a node with labels and taints."""
    found = node(name, gpus, labels={key.replace("__", "/"): value for key, value in labels.items()})
    found["spec"]["taints"] = list(taints)
    return found


def flavor(name, taints=(), **labels):
    """Return a ResourceFlavor."""
    spec = {"nodeLabels": labels, "nodeTaints": list(taints)}
    return {"kind": "ResourceFlavor", "metadata": {"name": name, "uid": f"f-{name}"}, "spec": spec}


def quota(*rows, cohort=""):
    """Return a ClusterQueue with quota: (flavor, resource, amount)."""
    groups = [
        {"flavors": [{"name": of, "resources": [{"name": resource, "nominalQuota": amount}]}]}
        for of, resource, amount in rows
    ]
    spec = {"resourceGroups": groups, **({"cohortName": cohort} if cohort else {})}
    status = {"conditions": [{"type": "Active", "status": "True"}]}
    return {"kind": "ClusterQueue", "metadata": {"name": "cq", "uid": "cq"}, "spec": spec, "status": status}


def fits(*objects, **told):
    """Return the finding of INV-005 behind Kueue."""
    seen = evidence(*objects)
    given = {"scheduler": "kueue", "kueue": {"cluster_queue": "cq"}, **told}
    return decide(
        training_queue.queue_fits, seen, gpu_count.nodes_listed, training_queue.nodes_in_service, **given
    )


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        # No node carries the label: another value, a key that is nearly there, none at all.
        ([flavor("h100", gpu="h100"), machine("a"), machine("b")], "no node has label gpu=h100"),
        ([flavor("h100", gpu="h100"), machine("a", gpu="H100"), machine("b", gpu="a100")], "nodes have H100, a100"),
        ([flavor("h100", gpus="h100"), machine("a", gpu="h100"), machine("b", gpu="h100")], "did you mean 'gpu'"),
        # Nor the taint.
        ([flavor("h100", [TAINT]), machine("a"), machine("b")], "no node has taint gpu"),
        ([flavor("h100", [TAINT], gpu="h100"), machine("a", gpu="h100"), machine("b", taints=[TAINT])], "taint gpu"),
        # Nodes that carry it lack the resource, or have too little of it.
        ([flavor("h100", gpu="h100"), machine("a", None, gpu="h100"), machine("b"), machine("c")], "allocatable (a)"),
        ([flavor("h100", gpu="h100"), machine("a", gpu="h100"), machine("b")], "its nodes have 8 allocatable (a)"),
    ],
)  # fmt: skip
def test_quota_of_a_flavor_that_its_nodes_do_not_have(objects, said):
    """Enough in the whole cluster does not help: pods of the flavor go to its nodes only."""
    finding = fits(quota(("h100", GPU, 16)), *objects)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert said in finding.observed
    assert "16 nvidia.com/gpu of flavor h100" in finding.observed
    assert finding.causes[0] is flavors.NO_NODE


@pytest.mark.parametrize(
    "objects",
    [
        [flavor("h100"), machine("a"), machine("b")],
        [flavor("h100", gpu="h100"), machine("a", gpu="h100"), machine("b", gpu="h100"), machine("c")],
        [flavor("h100", [TAINT]), machine("a", taints=[TAINT]), machine("b", taints=[TAINT])],
        # Preferences keep nobody away.
        [flavor("h100", [{**TAINT, "effect": "PreferNoSchedule"}]), machine("a"), machine("b")],
    ],
)
def test_quota_that_the_nodes_of_its_flavor_have(objects):
    """Labels and taints fit, and there is as much."""
    finding = fits(quota(("h100", GPU, 16)), *objects)
    assert finding.verdict == "pass", finding.observed


def test_each_flavor_is_held_against_its_own_nodes():
    """Two flavors whose sum fits and of which one does not."""
    kinds = [machine("a", kind="x"), machine("b", kind="x"), machine("c", kind="y")]
    both = [flavor("x", kind="x"), flavor("y", kind="y")]
    assert fits(quota(("x", GPU, 16), ("y", GPU, 8)), *both, *kinds).verdict == "pass"
    finding = fits(quota(("x", GPU, 8), ("y", GPU, 16)), *both, *kinds)
    assert finding.verdict == "fail"
    assert "16 nvidia.com/gpu of flavor y, its nodes have 8" in finding.observed


def test_a_flavor_that_was_not_seen():
    """For which nodes the quota stands is not known."""
    finding = fits(quota(("h100", GPU, 8)), machine("a"))
    assert finding.verdict == "inconclusive"
    assert "which was not seen" in finding.observed


def test_nodes_of_a_flavor_that_are_out_of_service():
    """There are enough others: the flavor's own are cordoned."""
    own = machine("a", gpu="h100")
    own["spec"]["unschedulable"] = True
    finding = fits(quota(("h100", GPU, 8)), flavor("h100", gpu="h100"), own, machine("b"))
    assert finding.verdict == "environment"
    assert "its nodes in service have 0" in finding.observed


@pytest.mark.parametrize(
    ("made", "verdict", "said"),
    [
        (quota(("h100", GPU, 0)), "fail", "its quota of nvidia.com/gpu is 0"),
        (quota(("h100", GPU, "0")), "fail", "its quota of nvidia.com/gpu is 0"),
        (quota(("h100", GPU, 8), ("h100", "cpu", 0)), "fail", "its quota of cpu is 0"),
        (
            quota(("h100", GPU, 0), cohort="all"),
            "inconclusive",
            "the quota that its cohort all lends was not seen",
        ),
        (quota(("h100", "cpu", 8)), "inconclusive", "it has no quota of nvidia.com/gpu"),
        (quota(), "inconclusive", "it has no quota of nvidia.com/gpu"),
    ],
)
def test_quota_that_gives_nothing(made, verdict, said):
    """Active, and no Job is ever admitted."""
    finding = fits(made, flavor("h100"), machine("a"))
    assert finding.verdict == verdict
    assert said in finding.observed


def test_a_cohort_that_lends():
    """No quota of its own, and another queue's to borrow."""
    lender = quota(("h100", GPU, 8), cohort="all")
    lender["metadata"] = {"name": "other", "uid": "other"}
    finding = fits(quota(("h100", GPU, 0), cohort="all"), lender, flavor("h100"), machine("a"))
    assert finding.verdict == "pass"


@pytest.mark.parametrize(
    ("capability", "verdict"), [({GPU: "0"}, "fail"), ({"cpu": 0}, "fail"), ({GPU: "8"}, "pass")]
)
def test_a_queue_of_volcano_that_may_use_nothing(capability, verdict):
    """Open, with a capability of zero."""
    seen = evidence(queue_of(capability=capability), machine("a"))
    finding = decide(training_queue.queue_fits, seen, gpu_count.nodes_listed, training_queue.nodes_in_service)
    assert finding.verdict == verdict
