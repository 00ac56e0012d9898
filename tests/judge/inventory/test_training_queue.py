"""INV-005: the queue that the training goes to."""

import pytest

from pytest_gpucluster.judge.inventory import gpu_count, training_queue
from tests.judge.inventory.cluster import GPU, decide, evidence, node, queue_of

FLAVORS = tuple(
    {"kind": "ResourceFlavor", "metadata": {"name": name, "uid": f"f-{name}"}, "spec": {}} for name in "ab"
)
"""Flavors that stand for every node."""


def fits(*objects, **told):
    """Return the finding of INV-005; each quota's flavors stand for every node."""
    seen = evidence(*objects, *FLAVORS)
    return decide(
        training_queue.queue_fits, seen, gpu_count.nodes_listed, training_queue.nodes_in_service, **told
    )


@pytest.mark.parametrize(
    ("objects", "verdict", "said"),
    [
        ([queue_of(), node("a")], "pass", "it has no quota: the cluster limits it"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b")], "pass", "capability 16 of 16 nvidia.com/gpu"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b", 8, 7)], "fail", "nvidia.com/gpu, allocatable 15"),
        ([queue_of(capability={"cpu": "1k"}), node("a")], "fail", "capability 1k cpu, allocatable 96"),
        ([queue_of(deserved={GPU: "9"}), node("a")], "fail", "deserved 9"),
        ([queue_of(guarantee={"resource": {GPU: "9"}}), node("a")], "fail", "guarantee 9"),
        ([queue_of(capability={"example.com/x": "1"}), node("a")], "fail", "allocatable 0"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b", cordoned=True)], "environment", "b (cordoned)"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b", ready="Unknown")], "environment", "b (NotReady)"),
        ([queue_of(state="Closed"), node("a")], "fail", "is Closed"),
        ([queue_of(state="Closing"), node("a")], "fail", "is Closing"),
        ([queue_of(state=None), node("a")], "fail", "without a state"),
        ([queue_of("trainin"), node("a")], "fail", "did you mean 'trainin'"),
        ([node("a")], "fail", "there is no queue 'training'"),
        ([queue_of()], "inconclusive", "no node was seen"),
        ([queue_of(capability={GPU: "nonsense"}), node("a")], "inconclusive", "capability nvidia.com/gpu=nonsense"),
    ],
)  # fmt: skip
def test_the_training_queue(objects, verdict, said):
    """INV-005: there, Open, and promising no more than there is."""
    finding = fits(*objects)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_a_queue_that_is_not_there_is_told_with_those_that_are():
    """Other queues come by name alone, and a misspelt one is the likeliest."""
    absent = fits(node("a"), queues={"Queue": ["default", "trainings"]})
    assert absent.verdict == "fail"
    assert absent.observed == (
        "there is no queue 'training'; did you mean 'trainings'?; there are: default, trainings"
    )
    assert "no queue exists" in fits(node("a"), queues={"Queue": []}).observed
    assert fits(node("a")).observed == "there is no queue 'training'"


def cluster_queue(quota, active="True", stop=None):
    """Return a ClusterQueue with its quota in two flavors."""
    rows = [
        {"name": f, "resources": [{"name": GPU, "nominalQuota": q}]} for f, q in zip("ab", quota, strict=True)
    ]
    spec = {"resourceGroups": [{"flavors": rows}], **({"stopPolicy": stop} if stop else {})}
    status = {"conditions": [{"type": "Active", "status": active, "reason": "FlavorNotFound"}]}
    return {"kind": "ClusterQueue", "metadata": {"name": "cq", "uid": "cq"}, "spec": spec, "status": status}


LOCAL = {"kind": "LocalQueue", "metadata": {"name": "training", "uid": "lq"}, "spec": {"clusterQueue": "cq"}}


@pytest.mark.parametrize(
    ("objects", "verdict", "said"),
    [
        ([LOCAL, cluster_queue(("4", "4")), node("a")], "pass", "nominalQuota 8 of 8"),
        ([LOCAL, cluster_queue(("4", 5)), node("a")], "fail", "nominalQuota 9 nvidia.com/gpu, allocatable 8"),
        ([LOCAL, cluster_queue(("4", "4"), "False"), node("a")], "fail", "not Active (FlavorNotFound)"),
        ([LOCAL, cluster_queue(("4", "4"), stop="Hold"), node("a")], "fail", "not Active"),
        ([LOCAL, node("a")], "fail", "there is no queue"),
    ],
)  # fmt: skip
def test_a_local_queue_leads_to_its_cluster_queue(objects, verdict, said):
    """Kueue: the quota of all flavors together is what is promised."""
    finding = fits(*objects, scheduler="kueue")
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


@pytest.mark.parametrize(
    ("objects", "told", "verdict", "said"),
    [
        # Beside Volcano: both queues must hold.
        ([queue_of(), cluster_queue(("4", "4")), node("a")], {}, "pass", "it has no quota: the cluster limits it"),
        ([queue_of(), cluster_queue(("4", 5)), node("a")], {}, "fail", "ClusterQueue/cq is Active and promises more"),
        ([queue_of(), cluster_queue(("4", "4"), "False"), node("a")], {}, "fail", "ClusterQueue/cq is not Active"),
        ([queue_of(), node("a")], {}, "fail", "there is no queue 'cq'"),
        ([queue_of(state="Closed"), cluster_queue(("4", "4")), node("a")], {}, "fail", "is Closed"),
        # Kueue alone, named by its ClusterQueue or by a LocalQueue of another name than `queue`.
        ([cluster_queue(("4", "4")), node("a")], {"scheduler": "native"}, "pass", "nominalQuota 8 of 8"),
        (
            [LOCAL, cluster_queue(("4", "4")), node("a")],
            {"scheduler": "kueue", "queue": "other", "kueue": {"local_queue": "training"}},
            "pass",
            "nominalQuota 8 of 8",
        ),
    ],
)  # fmt: skip
def test_the_cluster_queue_that_the_profile_names(objects, told, verdict, said):
    """A ClusterQueue that is declared is judged as the training queue is, whoever else schedules."""
    finding = fits(*objects, **{"kueue": {"cluster_queue": "cq"}, **told})
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


@pytest.mark.parametrize(
    ("objects", "told", "verdict", "said"),
    [
        ([queue_of(state="Closed"), node("a")], {}, "not_applicable", "pending promotion: Queue/training is Closed"),
        ([queue_of(state="Closing"), node("a")], {}, "not_applicable", "pending promotion: Queue/training is Closing"),
        # It is open already, by a promotion: then it is judged as any other.
        ([queue_of(), node("a")], {}, "pass", "is Open"),
        # What is wrong with it beside being closed is said before anybody opens it.
        ([queue_of(state="Closed", capability={GPU: "16"}), node("a")], {}, "fail", "promises more"),
        ([queue_of(state=None), node("a")], {}, "fail", "without a state"),
        ([node("a")], {}, "fail", "there is no queue 'training'"),
        ([LOCAL, cluster_queue(("4", "4"), stop="Hold"), node("a")], {"scheduler": "kueue"}, "not_applicable",
         "pending promotion: ClusterQueue/cq is not Active"),
        ([LOCAL, cluster_queue(("4", "4"), "False"), node("a")], {"scheduler": "kueue"}, "fail", "FlavorNotFound"),
        ([LOCAL, cluster_queue(("4", "4"), "False", "Hold"), node("a")], {"scheduler": "kueue"}, "fail",
         "FlavorNotFound"),
        # A ClusterQueue beside it that is Active shows nothing of the queue that is held.
        ([queue_of(state="Closed"), cluster_queue(("4", "4")), node("a")], {"kueue": {"cluster_queue": "cq"}},
         "not_applicable", "pending promotion: Queue/training"),
        ([queue_of(state="Closed"), cluster_queue(("4", "9")), node("a")], {"kueue": {"cluster_queue": "cq"}}, "fail",
         "ClusterQueue/cq"),
    ],
)  # fmt: skip
def test_a_queue_that_is_held_is_pending_promotion(objects, told, verdict, said):
    """Closed as declared: neither a pass nor a fail, and everything else about it is judged."""
    finding = fits(*objects, queue_held=True, **told)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_no_queue_is_needed_where_the_scheduler_has_none():
    """The default scheduler knows no queues; Volcano declared and its API absent is a fail."""
    assert fits(node("a"), scheduler="default-scheduler").verdict == "not_applicable"
    seen = evidence(node("a"), answers=[("api:Queue", 404, {})])
    finding = decide(training_queue.queue_fits, seen, gpu_count.nodes_listed)
    assert finding.verdict == "fail"
    assert "serves no queues" in finding.observed
