"""What several runs show together: the latest decided verdict, per node where rows speak of machines."""

import dataclasses
from datetime import timedelta

import pytest

from pytest_gpucluster.acceptance import shown
from tests.acceptance.toy import NODES, NOW, ago, attempt, cluster, node, run

WEEK = timedelta(days=7)


def together(*runs, now=None, age=WEEK):
    """Return the runs, to be asked."""
    return shown.Together(runs, now or cluster(), NOW, age)


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        (["pass"], "pass"),
        (["fail"], "fail"),
        (["inconclusive"], "undecided"),
        (["environment"], "undecided"),
        (["not_applicable"], "not applicable"),
        (["fail", "pass"], "pass"),
        (["pass", "fail"], "fail"),
        # What was not decided later takes nothing back, and is told.
        (["pass", "inconclusive"], "pass"),
        (["fail", "environment"], "fail"),
        (["inconclusive", "not_applicable"], "not applicable"),
        ([], "not run"),
    ],
)
def test_the_latest_decided_verdict_counts(verdicts, state):
    """In the order of time in which the evidence was taken, whatever the order of runs."""
    runs = [
        run(f"run-{number}", attempt("GANG-002", verdict, at=ago(hours=9 - number)))
        for number, verdict in enumerate(verdicts)
    ]
    for given in (runs, list(reversed(runs))):
        found = together(*given).row("GANG-002")
        assert found.state == state
        assert found.nodes == {}
    if verdicts == ["pass", "inconclusive"]:
        assert found.why == "later tried and not decided in run-1 (inconclusive: as seen)"


@pytest.mark.parametrize(
    ("at", "state", "said"),
    [
        (ago(days=7), "pass", ""),
        (ago(days=7, minutes=1), "old", "7 d old, at most 7 d is accepted"),
        (ago(days=30), "old", "30 d old, at most 7 d is accepted"),
        (NOW + timedelta(minutes=4), "pass", ""),
        (
            NOW + timedelta(hours=2),
            "old",
            "its evidence is of the future (2026-12-01 14:00 UTC): the clocks differ",
        ),
    ],
)
def test_evidence_has_an_age(at, state, said):
    """A pass that is too old, or of the future, is none."""
    found = together(run("r", attempt("GANG-002", at=at))).row("GANG-002")
    assert (found.state, found.why) == (state, said)


def test_evidence_without_a_time_is_no_pass():
    """A recording of somebody else says nothing of when it was taken."""
    made = attempt("GANG-002")
    object.__setattr__(made, "at", None)
    found = together(run("r", made)).row("GANG-002")
    assert (found.state, found.why) == ("old", "its evidence does not say when it was taken")


def test_a_row_of_every_node_that_missed_one_is_incomplete():
    """The state of the node that was missed is told."""
    now = cluster(node("gpu-0"), node("gpu-1"), node("gpu-2", "cordoned"))
    found = together(run("r", attempt("MFU-001", nodes=NODES[:2])), now=now).row("MFU-001")
    assert found.state == "incomplete"
    assert found.why == "2 of 3 GPU nodes: gpu-2: not tested (cordoned)"


def test_runs_cover_nodes_together():
    """One night some nodes, another night the others."""
    one = run("one", attempt("MFU-001", at=ago(days=2), nodes=["gpu-0"]))
    other = run("other", attempt("MFU-001", at=ago(days=1), nodes=["gpu-1", "gpu-2"]))
    found = together(one, other).row("MFU-001")
    assert found.state == "pass"
    assert {name: on.run for name, on in found.nodes.items()} == {
        "gpu-0": "one", "gpu-1": "other", "gpu-2": "other",
    }  # fmt: skip


def test_a_pass_elsewhere_does_not_clear_a_node():
    """A fabric that failed on one node is red until it passes there."""
    bad = run("bad", attempt("FAB-003", "fail", at=ago(days=2), nodes=["gpu-0", "gpu-1"], red=["gpu-1"]))
    good = run("good", attempt("FAB-003", at=ago(days=1), nodes=["gpu-0", "gpu-2"]))
    found = together(bad, good).row("FAB-003")
    assert found.state == "fail"
    assert found.why == "failed on gpu-1 in bad, and no later run passed on gpu-1"
    cleared = run("cleared", attempt("FAB-003", at=ago(hours=1), nodes=["gpu-1", "gpu-2"]))
    again = together(bad, good, cleared).row("FAB-003")
    assert again.state == "pass"
    assert again.conflict == "cleared says pass on gpu-1, gpu-2, but bad says fail on gpu-1"


def test_a_failure_on_one_node_says_nothing_of_another():
    """The other nodes of a red run are open, unless an earlier run passed there."""
    bad = run("bad", attempt("MFU-001", "fail", red=["gpu-1"]))
    found = together(bad).row("MFU-001")
    assert found.state == "fail"
    assert {name: on.state for name, on in found.nodes.items()} == {
        "gpu-0": "undecided", "gpu-1": "fail", "gpu-2": "undecided",
    }  # fmt: skip
    assert found.nodes["gpu-0"].why == "failed on gpu-1"


def test_a_replaced_machine_starts_anew():
    """What the old one showed does not count for the new one of the same name."""
    now = cluster(node("gpu-0"), node("gpu-1"), node("gpu-2", machineID="new"))
    found = together(run("r", attempt("MFU-001")), now=now).row("MFU-001")
    assert found.state == "incomplete"
    assert found.nodes["gpu-2"].state == "replaced"
    assert found.nodes["gpu-2"].why == "the machine (m-gpu-2, now new) changed since r"


def test_a_node_that_lost_gpus_shows_itself_again_and_one_that_got_them_back_has_failed():
    """The number of GPUs takes a pass away, and no failure."""
    eight, seven = (
        cluster(*(dataclasses.replace(node(name), healthy=number) for name in NODES)) for number in (8, 7)
    )
    passed = run("r", attempt("INV-002"), of=eight)
    assert together(passed, now=eight).row("INV-002").state == "pass"
    found = together(passed, now=seven).row("INV-002")
    assert found.state == "incomplete"
    assert "gpu-0: replaced (the number of GPUs that it offers (8, now 7) changed since r)" in found.why
    bad = run("bad", attempt("FAB-003", "fail", at=ago(hours=2), red=["gpu-2"]), of=seven)
    good = run("good", attempt("FAB-003", nodes=NODES[:2]), of=eight)
    assert together(bad, good, now=eight).row("FAB-003").state == "fail"


def test_a_failure_of_a_machine_that_was_replaced_is_over():
    """The new one has to show itself."""
    now = cluster(node("gpu-0"), node("gpu-1", driver="575"), node("gpu-2"))
    of = cluster(node("gpu-0"), node("gpu-1", driver="570"), node("gpu-2"))
    bad = run("bad", attempt("FAB-003", "fail", at=ago(days=2), red=["gpu-1"]), of=of)
    good = run("good", attempt("FAB-003", at=ago(days=1), nodes=["gpu-0", "gpu-2"]))
    found = together(bad, good, now=now).row("FAB-003")
    assert found.state == "pass"
    assert found.nodes["gpu-1"].state == "replaced"


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (timedelta(minutes=3), "3 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=2, minutes=5), "2 h 5 min"),
        (timedelta(days=8), "8 d"),
        (timedelta(days=8, hours=3, minutes=50), "8 d 3 h"),
    ],
)
def test_times_are_spoken(time, said):
    """In the two largest units."""
    assert shown.spoken(time) == said


def test_rows_of_every_node_are_in_the_catalogue():
    """A misspelt id would ask nothing of any node."""
    from pytest_gpucluster.requirement import catalogue

    assert all(catalogue.row(row_id) is not None for row_id in shown.EVERY_NODE)


@pytest.mark.parametrize("fact", ["uid", "kubeletVersion", "kernelVersion"])
def test_a_failure_stays_while_the_machine_is_the_same(fact):
    """A Node that was made again, or another kubelet, mends no adapter."""
    facts = {fact: "old"}
    of = cluster(node("gpu-0"), node("gpu-1", **facts), node("gpu-2"))
    now = cluster(node("gpu-0"), node("gpu-1", **{fact: "new"}), node("gpu-2"))
    bad = run("bad", attempt("FAB-003", "fail", at=ago(days=2), red=["gpu-1"]), of=of)
    good = run("good", attempt("FAB-003", at=ago(days=1), nodes=["gpu-0", "gpu-2"]), of=of)
    assert together(bad, good, now=now).row("FAB-003").state == "fail"


FABRIC = run("r", attempt("FAB-003", nodes=["gpu-0", "gpu-1"]), attempt("INV-002"))


@pytest.mark.parametrize(
    ("now", "state", "said"),
    [
        (cluster(node("gpu-0"), node("gpu-1"), node("gpu-2")), "pass", ""),
        (cluster(node("gpu-0"), node("gpu-1"), node("gpu-9")), "pass", ""),
        (
            cluster(*(node(name, driver="575") for name in NODES)),
            "incomplete",
            "the GPU driver (570, now 575)",
        ),
        (cluster(node("gpu-0", driver="570"), node("gpu-1", driver="575")), "incomplete", "gpu-1: replaced"),
        (cluster(node("gpu-0"), node("gpu-8")), "incomplete", "gpu-1: not in the cluster"),
        (cluster(node("gpu-8"), node("gpu-9")), "incomplete", "gpu-0: not in the cluster; gpu-1: not in"),
        (dataclasses.replace(cluster(), nodes={}), "incomplete", "gpu-0: not in the cluster"),
    ],
)
def test_a_pass_needs_machines_on_which_it_was_reached(now, state, said):
    """After a new driver, or on other nodes, nothing is left of what was shown between two machines."""
    of = cluster(*(node(name, driver="570") for name in NODES))
    found = together(dataclasses.replace(FABRIC, cluster=of), now=now).row("FAB-003")
    assert found.state == state
    assert said in found.why


def test_a_row_of_every_node_passes_on_no_cluster_without_nodes():
    """All of none is nothing; nodes that were removed take nothing from those that are left."""
    found = together(FABRIC, now=dataclasses.replace(cluster(), nodes={})).row("INV-002")
    assert found.state == "incomplete"
    assert together(FABRIC, now=cluster(node("gpu-2"))).row("INV-002").state == "pass"


def test_a_row_of_one_machine_needs_that_one():
    """What was shown on one node is not taken away by another."""
    one = run("one", attempt("FAB-003", nodes=["gpu-0"]))
    assert together(one).row("FAB-003").state == "pass"
    now = cluster(node("gpu-0", machineID="new"), node("gpu-1"))
    assert together(one, now=now).row("FAB-003").state == "incomplete"


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_at_once_the_failure_counts(names):
    """Whatever the runs are called."""
    passed, failed = (
        run(name, attempt("GANG-002", verdict)) for name, verdict in zip(names, ("pass", "fail"), strict=True)
    )
    assert together(passed, failed).row("GANG-002").state == "fail"


def test_a_failure_without_a_time_may_be_the_newest():
    """No pass clears it."""
    failed = run("bad", dataclasses.replace(attempt("GANG-002", "fail"), at=None))
    assert together(failed, run("good", attempt("GANG-002"))).row("GANG-002").state == "fail"
