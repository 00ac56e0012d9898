"""INV-004: labels by which nodes tell their place in the network."""

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.judge.inventory import topology_labels as judge
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.judge.inventory import cluster

BLOCK, RACK = "example.com/block", "example.com/rack"
TOLD = {"topology": {"levels": [BLOCK, RACK], "required": RACK}}


def at(name, block="b0", rack="r0", **more):
    """Return a GPU node with a place; None for a label that it lacks."""
    labels = {BLOCK: block, RACK: rack, **more}
    return cluster.node(name, labels={key: value for key, value in labels.items() if value is not None})


def decided(*nodes, told=TOLD, later=()):
    """Return the finding on nodes, some of them seen again."""
    lines = [{"t": 0.0, "type": "ADDED", "kind": "Node", "object": node} for node in nodes]
    lines += [{"t": 1.0, "type": kind, "kind": "Node", "object": node} for kind, node in later]
    lines.append({"t": 2.0, "type": "NOTE", "note": "end"})
    return judge.labels_carried(recordings.evidence_of(lines, header={"given": {**cluster.TOLD, **told}}))


@pytest.mark.parametrize(
    ("nodes", "verdict", "told"),
    [
        ([at("a"), at("b", rack="r1")], Verdict.PASS, "2 domains of example.com/rack"),
        ([at("a"), at("b", rack=None)], Verdict.FAIL, "b lacks example.com/rack; 1 GPU node of 2 carries all levels"),
        ([at("a"), at("b", rack="")], Verdict.FAIL, "b lacks example.com/rack"),
        ([at("a"), at("b", rack=" ")], Verdict.FAIL, "b lacks example.com/rack"),
        ([at("a", block=None, rack=None)], Verdict.FAIL, "a lacks example.com/block, example.com/rack"),
        ([at("a", block=None, **{"example.com/blocks": "b"})], Verdict.FAIL, "did you mean 'example.com/blocks'?"),
        ([at("a"), at("b")], Verdict.PASS, "all of them are in one domain of example.com/rack"),
        ([at("a"), at("b", block="b1")], Verdict.PASS, "example.com/rack=r0 stands in 2 domains of example.com/block"),
        ([at("a"), cluster.node("cpu", gpus=None)], Verdict.PASS, "1 GPU node, all with a place"),
        ([cluster.node("cpu", gpus=None)], Verdict.INCONCLUSIVE, "no GPU node was seen"),
        ([], Verdict.INCONCLUSIVE, "no GPU node was seen"),
    ],
)  # fmt: skip
def test_labels_of_nodes(nodes, verdict, told):
    """A level that a GPU node does not tell is a fail; nodes without GPUs have no place to tell."""
    found = decided(*nodes)
    assert (found.verdict, told in found.observed) == (verdict, True), found.observed


def test_every_node_without_a_label_is_named():
    """With how many there are."""
    found = decided(*(at(f"n{n}", rack=None if n % 2 else "r") for n in range(8)))
    assert found.where == ("Node/n1", "Node/n3", "Node/n5", "Node/n7")
    assert found.numbers[0].value == 4


@pytest.mark.parametrize(
    ("later", "verdict", "told"),
    [
        (
            [("MODIFIED", at("a", rack="r9"))],
            Verdict.INCONCLUSIVE,
            "a changed example.com/rack from r0 to r9",
        ),
        ([("MODIFIED", at("a", rack=None))], Verdict.FAIL, "a lacks example.com/rack"),
        ([("DELETED", at("a"))], Verdict.INCONCLUSIVE, "a left the cluster"),
        (
            [("DELETED", at("a")), ("ADDED", at("a", rack="r9"))],
            Verdict.INCONCLUSIVE,
            "a changed example.com/rack",
        ),
        ([("MODIFIED", at("a"))], Verdict.PASS, "2 GPU nodes"),
    ],
)
def test_places_that_change_leave_the_row_open(later, verdict, told):
    """A node that moved, or left, is none that carried its labels for as long as it was watched."""
    found = decided(at("a"), at("b", rack="r1"), later=later)
    assert (found.verdict, told in found.observed) == (verdict, True), found.observed


def test_nothing_declared_does_not_apply_and_what_cannot_be_read_is_no_pass():
    """A header whose levels are damaged, or that does not say whether any are declared, is undecided."""
    assert decided(at("a"), told={"topology": None}).verdict is Verdict.NOT_APPLICABLE
    for told in ({}, {"topology": {}}, {"topology": ""}, {"topology": []}):
        assert decided(at("a"), told=told).verdict is Verdict.INCONCLUSIVE
    for levels in (None, [], "example.com/rack", [RACK, RACK], [RACK, 7], [""], [BLOCK]):
        assert (
            decided(at("a"), told={"topology": {"levels": levels, "required": RACK}}).verdict
            is Verdict.INCONCLUSIVE
        )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "topology.levels: is missing"),
        ("{levels: []}", "topology.levels"),
        ("{levels: [a/b, a/b]}", "topology: must name each level once in `levels`"),
        (
            "{levels: [kubernetes.io/hostname, a/b]}",
            "must name kubernetes.io/hostname as the last of `levels`",
        ),
        (
            "{levels: [a/block, a/rack], required: a/racks}",
            "must name one of `levels` as `required`: a/block, a/rack",
        ),
        ("{levels: ['no key!']}", "topology.levels.0 = 'no key!': must be the key of a label"),
        ("{level: [a/b]}", "topology.level: unknown key"),
    ],
)
def test_mistakes_in_the_profile_are_one_line(tmp_path, text, problem):
    """What, where, and what is allowed."""
    with pytest.raises(profile.ProfileError) as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("{levels: [a/block, a/rack]}", "a/rack"),
        ("{levels: [a/block, a/rack, kubernetes.io/hostname]}", "a/rack"),
        ("{levels: [a/block, a/rack], required: a/block}", "a/block"),
        ("{levels: [kubernetes.io/hostname]}", "kubernetes.io/hostname"),
    ],
)
def test_the_level_that_gangs_must_not_leave(tmp_path, text, level):
    """As declared; else the finest above single nodes."""
    assert load(tmp_path, text).topology.level == level


def load(folder, text):
    """Return a profile with a topology."""
    start = "connection: {kubeconfig: k, context: c}\nscheduler: volcano\nqueue: q\ngpu_resource: nvidia.com/gpu\n"
    (folder / "prod-a.yaml").write_text(f"{start}gpus_per_node: 8\ntopology: {text}\n")
    return profile.load("prod-a", [folder]).profile
