"""Switching of defects as tests do it: both halves at once, told by the facts of the cluster and by evidence."""

import dataclasses
from pathlib import Path

import pytest

from pytest_gpucluster import profile, provider
from pytest_gpucluster.provider import defects, switching
from pytest_gpucluster.provider.embedded import EmbeddedProvider
from pytest_gpucluster.scenario import Needs, RunStore, Scenario, Session, Stage

LOADED = profile.load("embedded", cli=["nodes=simulated"])


def _told(cluster: provider.Cluster, folder: Path) -> object:
    """Return the defects that the evidence of a scenario names."""

    def run(stage: Stage) -> None:
        stage.note("seen")

    scenario = Scenario("seen", "notes something", run, Needs(pods_run=False, gang=False), ("Node",))
    with Session(cluster, LOADED.profile, RunStore(folder)) as session:
        return session.evidence(scenario).header["source"].get(defects.FACT)


def test_facts_and_evidence_name_what_is_in_force(tmp_path):
    """Those with which a cluster started, and those that were switched since; none leaves no word."""
    with provider.start(LOADED, tmp_path / "c", source=EmbeddedProvider(switchable=True)) as cluster:
        assert defects.FACT not in cluster.facts
        planted = switching.switch(cluster, ["queue.forgets-promises", "gang.forgets-room"])
        assert planted.facts[defects.FACT] == ["gang.forgets-room", "queue.forgets-promises"]
        assert _told(planted, tmp_path / "with") == planted.facts[defects.FACT]
        after = switching.switch(planted, [])
        assert after == cluster
        assert _told(after, tmp_path / "without") is None
        with pytest.raises(
            provider.ProviderError, match=r"^defect 'node.slow-start' is a defect of nodes, but this"
        ):
            switching.switch(cluster, ["node.slow-start"])
    with provider.start(LOADED, tmp_path / "d", ["scheduler.down"]) as cluster:
        assert _told(cluster, tmp_path / "down") == ["scheduler.down"]


def test_a_cluster_of_a_run_is_not_switched(tmp_path):
    """It has nothing that would take it; other clusters plant nothing at all; each in one line."""
    with provider.start(LOADED, tmp_path / "c") as cluster:
        with pytest.raises(provider.ProviderError, match=r"this cluster was not started for this$"):
            switching.switch(cluster, ["gang.forgets-room"])
        elsewhere = dataclasses.replace(cluster, provider="existing")
        with pytest.raises(
            provider.ProviderError, match=r"^defect 'gang.forgets-room': defects are planted in the"
        ):
            switching.switch(elsewhere, ["gang.forgets-room"])


def test_what_cannot_be_switched_is_refused_before_anything_is_asked(tmp_path):
    """Unknown names with the nearest, and those that decide what is started."""
    cluster = provider.Cluster("embedded", "embedded", str(tmp_path / "none"), "none")
    with pytest.raises(provider.ProviderError, match=r"^unknown defect 'gang.forgets-rom'; did you mean"):
        switching.switch(cluster, ["gang.forgets-rom"])
    for name in sorted(defects.at_start()):
        with pytest.raises(
            provider.ProviderError, match=f"^defect '{name}' changes the start of the cluster"
        ):
            switching.switch(cluster, [name])
