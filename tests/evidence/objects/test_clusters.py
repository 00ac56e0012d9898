"""Which cluster a run is of, and what changed since."""

import dataclasses

import pytest

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects import clusters
from tests.acceptance.toy import cluster, node
from tests.defects.matrix import RECORDED


def test_recorded_evidence_tells_its_nodes():
    """Nodes with GPUs, their machines, versions of the server and of components."""
    found = clusters.of_evidence(read(RECORDED / "inventory.jsonl"))
    assert sorted(found.nodes) == ["gpu-0", "gpu-1", "gpu-2"]
    assert found.nodes["gpu-0"].offered == found.nodes["gpu-0"].healthy == 8
    assert {"uid", "machineID", "kubeletVersion"} <= set(found.nodes["gpu-0"].facts)
    assert set(found.versions) >= {"kubernetes", "volcano"}


@pytest.mark.parametrize(
    ("run", "now", "said"),
    [
        (cluster(), cluster(), ""),
        (cluster(), cluster(uid="c-2"), "its API server is another one (uid c-1, now c-2)"),
        # One of the two may not be read: the nodes decide.
        (cluster(uid=""), cluster(), ""),
        (cluster(), cluster(uid=""), ""),
        (cluster(node("gpu-9"), uid=""), cluster(), "none of its nodes is in the cluster: gpu-9"),
        (
            cluster(node("gpu-0", uid="other"), uid=""),
            cluster(),
            "none of its nodes is in the cluster: gpu-0",
        ),
        (clusters.Cluster("", {}, {}), cluster(), "nothing in its evidence says of which cluster it is"),
        (clusters.Cluster("", {"gpu-0": clusters.Node("gpu-0", "", {})}, {}), cluster(), "none of its nodes"),
    ],
)
def test_a_run_of_another_cluster_is_told(run, now, said):
    """What cannot be compared is never the same."""
    found = clusters.another(run, now)
    assert found.startswith(said) if said else found == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (node("a"), node("a"), ""),
        (node("a", driver="570"), node("a", driver="575"), "the GPU driver (570, now 575)"),
        (node("a", machineID="m"), node("a", machineID="n"), "the machine (m, now n)"),
        (node("a", driver="570"), node("a"), ""),
        (node("a", gpus=["GPU-1"]), node("a", gpus=["GPU-2"]), ""),
        (
            node("a", gpus=[f"GPU-{n}" for n in range(8)]),
            node("a", gpus=["GPU-0", "GPU-9"]),
            "its GPUs (9 UUIDs were seen, it has 8)",
        ),
    ],
)
def test_a_replaced_node_is_told(before, after, said):
    """A run may see some of a node's GPUs; more than it has are other ones."""
    assert after.changes(before) == said


def test_a_node_that_offers_another_number_of_gpus_is_the_same_machine():
    """What nobody told is no change."""
    before, after = (dataclasses.replace(node("gpu-0"), healthy=number) for number in (8, 0))
    assert after.offers_otherwise(before) == "the number of GPUs that it offers (8, now 0)"
    assert after.changes(before) == ""
    assert node("gpu-0").offers_otherwise(before) == before.offers_otherwise(node("gpu-0")) == ""
    together = clusters.together([cluster(before), cluster(after), cluster(node("gpu-0"))])
    assert together.nodes["gpu-0"].healthy == 8


def test_another_version_is_told():
    """Only what both know is compared."""
    run = cluster(kubernetes="v1.36.1", volcano="v1.14.4")
    assert clusters.outdated(run, cluster(kubernetes="v1.37.2")) == "kubernetes v1.36.1, now v1.37.2"
    assert clusters.outdated(run, cluster(kueue="v0.17.0")) == ""


def test_files_of_one_run_are_put_together():
    """The last state counts, what is known stays known, and GPUs add up."""
    one = cluster(node("a", gpus=["GPU-1"], driver="570"), uid="")
    other = cluster(node("a", "cordoned", gpus=["GPU-2"]), uid="c-1", volcano="v1.14.4")
    found = clusters.together([one, other])
    assert (found.uid, found.versions) == ("c-1", {"volcano": "v1.14.4"})
    assert found.nodes["a"].state == "cordoned"
    assert found.nodes["a"].facts["driver"] == "570"
    assert found.nodes["a"].gpus == {"GPU-1", "GPU-2"}


def test_a_live_cluster_reads_as_its_evidence_does():
    """What is read now is compared with what was recorded: both in one form."""
    evidence = read(RECORDED / "inventory.jsonl")
    recorded = clusters.of_evidence(evidence)
    nodes = {line.name: line.object for line in evidence.of_kind("Node")}
    answers = {str(line.data.get("case")): line.data for line in evidence.responses()}
    deployments = [
        item
        for case, data in answers.items()
        if case.startswith("read:deployments")
        for item in data.get("items") or []
    ]
    found = clusters.of_objects(
        "nvidia.com/gpu", recorded.uid, nodes.values(), answers["read:version"]["object"], deployments
    )
    assert found == recorded
    assert clusters.another(recorded, found) == ""
    assert clusters.outdated(recorded, found) == ""


def test_payloads_tell_gpus_and_nccl():
    """UUIDs are those of the driver; other words are none."""
    told = '{"event":"rank","node":"gpu-0","uuid":"%s","nccl":"2.28.9"}'
    lines = [
        Line(1.0, "LOG", "", {}, {"uid": "p", "line": f"GPUCONF1 {told % uuid}"}, number)
        for number, uuid in enumerate(["GPU-1", "GPU-2", "unknown"])
    ]
    status = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    lines.append(
        Line(0.0, "ADDED", "Node", {"metadata": {"name": "gpu-0", "uid": "u"}, "status": status}, {}, 9)
    )
    found = clusters.of_evidence(Evidence(lines, header={"given": {"gpu_resource": "nvidia.com/gpu"}}))
    assert found.nodes["gpu-0"].gpus == {"GPU-1", "GPU-2"}
    assert found.versions == {"nccl": "2.28.9"}
