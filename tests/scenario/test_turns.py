"""Turns between runs on one cluster."""

import threading
import time

from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.scenario import Needs, RunStore, Scenario, Session, cluster_lease, sweep

from . import conftest
from .test_session import play_slots, slots_scenario


def lease_of(cluster):
    """Return the holders of the Lease of runs."""
    opened = connection.Connection.at(cluster.url)
    found = objects.Objects(opened).list(objects.table_row("Lease"), "default")
    opened.close()
    return [
        each["spec"]["holderIdentity"].split()[0]
        for each in found
        if each["metadata"]["name"] == cluster_lease.NAME
    ]


def test_two_runs_on_one_cluster_take_turns(cluster, profile, tmp_path):
    """Both need the whole cluster; the second begins when the first has given it back, and both see their gang run."""
    order, told = [], []

    def play(stage):
        order.append((stage.name, "begin"))
        play_slots(stage)
        order.append((stage.name, "end"))

    def run(name):
        scenario = Scenario(name, "Takes the cluster.", play, Needs(slot_nodes=2, slots_per_node=8))
        with Session(cluster, profile, RunStore(tmp_path / f"run-{name}"), say=told.append) as session:
            evidence = session.evidence(scenario)
        results[name] = (evidence.header.get("problem"), session.left_overs, session.requests["requests"])

    results = {}
    threads = [threading.Thread(target=run, args=(name,)) for name in ("turn1", "turn2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: found[:2] for name, found in results.items()} == {"turn1": (None, []), "turn2": (None, [])}
    names_in_order = [name for name, _ in order]
    assert names_in_order in (["turn1"] * 2 + ["turn2"] * 2, ["turn2"] * 2 + ["turn1"] * 2), order
    assert len(told) == 1
    assert "holds the Lease default/gpucluster; waiting for at most" in told[0]
    first, second = results[names_in_order[0]][2], results[names_in_order[2]][2]
    assert sum(n for each, n in first.items() if each.endswith(" Lease")) == 2
    assert sum(n for each, n in second.items() if each.endswith(" Lease")) <= 5
    assert lease_of(cluster) == []


def test_a_run_that_waits_too_long_names_the_other(cluster, profile, tmp_path):
    """The row is environment, bounded, and the scenarios after it do not wait again."""
    impatient = conftest.make_profile(budgets={**conftest.BUDGETS, "lease": 0.3})
    with Session(cluster, profile, RunStore(tmp_path / "run-hold1")) as first:
        assert "problem" not in first.evidence(slots_scenario).header
        with Session(cluster, impatient, RunStore(tmp_path / "run-wait1"), say=lambda _: None) as second:
            problem = second.evidence(slots_scenario).header["problem"]
            again = second.evidence(
                Scenario("again", "Again.", play_slots, Needs(slot_nodes=2, slots_per_node=8))
            )
            beside = second.evidence(Scenario("beside", "Disturbs nobody.", lambda _: None))
        assert lease_of(cluster) == ["run-hold1"]
    assert problem["verdict"] == "environment"
    assert "another run is on this cluster: run-hold1 on " in problem["text"]
    assert again.header["problem"] == problem
    assert "problem" not in beside.header
    assert second.requests["requests"]["create Lease"] == 1
    assert lease_of(cluster) == []


def test_workers_of_one_run_share_the_lease(cluster, profile, tmp_path):
    """The second worker asks for nothing, and the last that leaves removes it."""
    store = RunStore(tmp_path / "run-share1")
    with Session(cluster, profile, store, worker="gw0") as first:
        first.evidence(slots_scenario)
        with Session(cluster, profile, store, worker="gw1") as second:
            second.evidence(Scenario("again", "Again.", play_slots, Needs(slot_nodes=2, slots_per_node=8)))
        assert lease_of(cluster) == ["run-share1"]
        assert "create Lease" not in second.requests["requests"]
        assert "delete Lease" not in second.requests["requests"]
    assert lease_of(cluster) == []


def test_a_lease_that_was_lost_makes_what_ran_environment(cluster, profile, tmp_path, monkeypatch):
    """Renewal finds that somebody removed it: what ran since may have been disturbed."""
    monkeypatch.setattr(cluster_lease.leases, "RENEW", 0.05)

    def play(stage):
        opened = connection.Connection.at(cluster.url)
        objects.Objects(opened).delete(objects.table_row("Lease"), cluster_lease.NAME, "default")
        opened.close()
        end = time.monotonic() + 10
        while not session._turn.lost and time.monotonic() < end:
            time.sleep(0.02)  # the renewal is no event of the cluster

    with Session(cluster, profile, RunStore(tmp_path / "run-lost1")) as session:
        lost = session.evidence(Scenario("lost", "Loses it.", play, Needs(gpus=1)))
    assert lost.header["problem"]["verdict"] == "environment"
    assert "was removed or taken over" in lost.header["problem"]["text"]


def test_cleanup_removes_the_lease_of_a_killed_run(cluster, profile, tmp_path):
    """By its run, and when it lapsed."""
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)

    def leave(run, duration):
        terms = cluster_lease.leases.Terms(
            "default", cluster_lease.NAME, run, {"gpucluster.dev/run": run}, duration=duration
        )
        cluster_lease.leases.Lease(api, terms).take(1.0)

    leave("run-dead1", 600)
    assert sweep(opened).failed == ()
    assert lease_of(cluster) == ["run-dead1"]
    swept = sweep(opened, run_id="run-dead1")
    assert any(line.startswith("Lease/gpucluster in default") for line in swept.removed), swept
    assert lease_of(cluster) == []
    leave("run-dead2", 600)
    old = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    api.patch(objects.table_row("Lease"), cluster_lease.NAME, old, "default")
    assert any("Lease/gpucluster" in line for line in sweep(opened).removed)
    assert lease_of(cluster) == []
    opened.close()
