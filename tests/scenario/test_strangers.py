"""What others have in a namespace that was lent is counted, and not written down."""

import json
import pathlib

import pytest

from pytest_gpucluster.kube import clock
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log

OURS = {names.LABEL_RUN: "run-1"}


class Lent:
    """A session log in a lent namespace; the test says what the watches see."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Open it."""
        self.path = folder / "session.jsonl"
        self.log = log.SessionLog(self.path, clock.FakeClock(1.0), scenario_label="l", lent="team")

    def see(self, kind, name, *, owner="", about="", space="team", labels=None):
        """Let a watch line arrive."""
        meta = {"name": name, "namespace": space, "uid": f"uid-{name}", "labels": labels or {}}
        meta |= {"ownerReferences": [{"uid": f"uid-{owner}"}]} if owner else {}
        more = {"involvedObject": {"uid": f"uid-{about}"}} if about else {}
        self.log.line("ADDED", kind, {"kind": kind, "metadata": meta, **more}, 2.0)

    def written(self):
        """Return the names of the objects in the file."""
        lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        return [line["object"]["metadata"]["name"] for line in lines if "object" in line]


@pytest.fixture
def lent(tmp_path):
    """Give such a log."""
    made = Lent(tmp_path)
    yield made
    made.log.close()


def test_others_are_counted(lent):
    """By kind, each object once; what waits and slices look at stays whole."""
    lent.see("Pod", "theirs")
    lent.see("Pod", "theirs")
    lent.see("ConfigMap", "config")
    lent.see("Event", "event", about="theirs")
    assert lent.written() == []
    assert [entry.name for entry in lent.log.entries()] == ["theirs", "theirs", "config", "event"]
    lent.log.close()
    last = json.loads(lent.path.read_text(encoding="utf-8").splitlines()[-1])
    assert last["objects"] == {"ConfigMap": 1, "Event": 1, "Pod": 1}
    assert "theirs" not in lent.path.read_text(encoding="utf-8")


def test_ours_is_written_as_it_comes(lent):
    """What carries the label of a run, what that owns at any depth, and Events about these."""
    lent.see("Job", "job", labels=OURS)
    lent.see("Pod", "pod", owner="job")
    lent.see("Event", "event", about="pod")
    assert lent.written() == ["job", "pod", "event"]


def test_what_came_before_its_owner_is_written_when_the_owner_comes(lent):
    """An Event may come before its pod, and a pod before its Job."""
    lent.see("Event", "event", about="pod")
    lent.see("Pod", "pod", owner="job")
    lent.see("Pod", "theirs", owner="other")
    assert lent.written() == []
    lent.see("Job", "job", labels=OURS)
    assert sorted(lent.written()) == ["event", "job", "pod"]


def test_what_is_in_no_namespace_or_in_another_is_written(lent):
    """Nodes and queues belong to nobody; a namespace that the run made is its own."""
    lent.see("Node", "gpu-0", space="")
    lent.see("Pod", "pod", space="gpucluster-1")
    assert lent.written() == ["gpu-0", "pod"]


def test_a_namespace_of_our_own_is_written_whole(tmp_path):
    """Nobody else has anything there."""
    own = Lent(tmp_path / "own")
    own.log.close()
    own.log = log.SessionLog(own.path, clock.FakeClock(1.0), scenario_label="l")
    own.see("Pod", "pod")
    assert own.written() == ["pod"]
    own.log.close()
