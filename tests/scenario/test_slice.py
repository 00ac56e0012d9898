"""Freezing: what belongs to a scenario's evidence, in order, with its coverage."""

import math

import hypothesis
import hypothesis.strategies as st

from pytest_gpucluster import evidence
from pytest_gpucluster.kube import coverage
from pytest_gpucluster.scenario import slice as slices

VC = "Job.batch.volcano.sh"


def freeze(theatre, tmp_path, *, seeds=("uid-g",), context=frozenset(), first=0, horizon=None):
    """Cut, write and read back."""
    cut = slices.cut(
        theatre.log.entries(),
        theatre.log.spans(),
        scenario="play",
        first=first,
        end=theatre.log.now(),
        seeds=seeds,
        context=context,
        header={"scenario": "play", "clock": "receipt", "given": {"n": 4}},
        horizon=horizon,
    )
    cut.write(tmp_path / "evidence" / "play.jsonl")
    return evidence.read(tmp_path / "evidence" / "play.jsonl")


def seen(found):
    """Return the watch lines, briefly."""
    return [(line.type, line.kind, line.name) for line in found if line.kind]


def test_slice_is_the_closure_over_owners_and_involved_objects(theatre, tmp_path):
    """Pods that came before their owner, PodGroups, Services and Events are in; strangers are not."""
    theatre.see("ADDED", "Pod", "g-0", owner="uid-g")
    theatre.see("ADDED", VC, "g")
    theatre.see("ADDED", "PodGroup", "pg", owner="uid-g")
    theatre.see("ADDED", "Service", "svc", owner="uid-g")
    theatre.see("ADDED", "Event", "e1", involvedObject={"uid": "uid-g-0"})
    theatre.see("ADDED", "Event", "e2", involvedObject={"uid": "uid-stranger"})
    theatre.see("ADDED", "Pod", "stranger", owner="uid-other")
    theatre.see("ADDED", "ConfigMap", "labelled", meta={"labels": {"gpucluster.dev/scenario": "play"}})
    theatre.see("ADDED", "ConfigMap", "foreign", meta={"labels": {"gpucluster.dev/scenario": "other"}})
    theatre.see("DELETED", VC, "g")
    found = freeze(theatre, tmp_path)
    assert [name for _, _, name in seen(found)] == ["g-0", "g", "pg", "svc", "e1", "labelled", "g"]
    assert found.given == {"n": 4}


def test_context_is_the_slots_nodes_the_nodes_of_pods_and_the_queue(theatre, tmp_path):
    """Of nodes and queues only those concerned are kept, with their last state from before the scenario."""
    for name in ("n0", "n1", "n2"):
        theatre.see("ADDED", "Node", name, namespace="", status={"images": [1], "x": 1})
        theatre.see("MODIFIED", "Node", name, namespace="", status={"x": 2})
    theatre.see("ADDED", "Queue", "default", namespace="")
    theatre.see("ADDED", "Queue", "other", namespace="")
    first = theatre.log.mark()
    theatre.see("ADDED", VC, "g")
    theatre.see("ADDED", "Pod", "g-0", owner="uid-g", spec={"nodeName": "n1"})
    found = freeze(theatre, tmp_path, context=frozenset({("Queue", "default"), ("Node", "n0")}), first=first)
    assert seen(found) == [
        ("MODIFIED", "Node", "n0"),
        ("MODIFIED", "Node", "n1"),
        ("ADDED", "Queue", "default"),
        ("ADDED", VC, "g"),
        ("ADDED", "Pod", "g-0"),
    ]


def test_notes_and_answers_of_other_scenarios_stay_out(theatre, tmp_path):
    """Only the scenario's own notes, answers and container logs are in its evidence."""
    theatre.stage.note("end")
    theatre.log.add("NOTE", "other", {"note": "end"})
    theatre.log.add("LOG", "play", {"pod": "p", "uid": "u", "container": "c", "line": "hello"})
    found = freeze(theatre, tmp_path)
    assert [line.type for line in found] == ["NOTE", "LOG"]


def test_spans_are_cut_to_the_scenario(theatre, tmp_path):
    """Coverage begins with the scenario, ends with its last proof, and shows the gap between two lists."""
    one = coverage.Coverage()
    theatre.log.covers("Pod", one)
    one.listed(100.0, "list")
    theatre.clock.at(102.0, lambda: None)
    theatre.clock.wait(theatre.log.condition, 5)
    first = theatre.log.mark()
    theatre.see("ADDED", VC, "g")
    one.proven(103.0, 103.0)
    theatre.log.add("NOTE", "play", {"note": "proven", "kinds": ["Pod"], "seconds": 0.0})
    one.lost(103.5)
    one.listed(104.0, "relist 2")
    theatre.clock.at(107.0, lambda: one.proven(106.0, 107.0))
    theatre.clock.wait(theatre.log.condition, 9)
    theatre.log.add("NOTE", "play", {"note": "proven", "kinds": ["Pod"], "seconds": 0.0})
    found = freeze(theatre, tmp_path, first=first)
    assert [(s.start, s.end, s.how) for s in found.spans] == [(2.0, 3.0, "list"), (4.0, 7.0, "relist 2")]
    assert found.gaps("Pod", 2.0, 7.0) == ((3.0, 4.0),)


def test_what_was_told_after_the_horizon_is_left_out(theatre, tmp_path):
    """Clearing the stage is no story: what came after the last proof is told by chance. Logs may come late."""
    theatre.see("ADDED", VC, "g")
    for moment, act in (
        (101.0, lambda: theatre.stage.note("end")),
        (102.0, lambda: theatre.see("DELETED", VC, "g")),
        (
            103.0,
            lambda: theatre.log.add("LOG", "play", {"pod": "p", "uid": "u", "container": "c", "line": "x"}),
        ),
    ):
        theatre.clock.at(moment, act)
        theatre.clock.wait(theatre.log.condition, 5)
    found = freeze(theatre, tmp_path, seeds=["uid-g"], horizon=1.0)
    assert [line.type for line in found] == ["ADDED", "NOTE", "LOG"]
    assert found.end == 1.0
    assert "damage" not in found.header


def test_open_spans_of_the_session_log_have_no_end(theatre):
    """The session log's own file says null for a span that goes on."""
    from pytest_gpucluster.scenario import log

    assert '"end":null' in log.span_line(evidence.Span("Pod", 0.0, math.inf, "list"))


def test_session_log_is_written_as_things_happen(theatre):
    """Each line is in the file before the next comes, so that a kill loses nothing; it reads as evidence."""
    theatre.see("ADDED", "Pod", "a", meta={"managedFields": [1]})
    theatre.see("ADDED", "Secret", "s", data={"key": "c2VjcmV0"})
    theatre.stage.note("end")
    text = theatre.log.path.read_text()
    assert text.count("\n") == 4, "the header says that nothing counts without proofs"
    assert "managedFields" not in text
    assert "c2VjcmV0" not in text
    found = evidence.read(theatre.log.path)
    assert len(found.lines) == 3
    assert found.gaps("Pod", 0.0, 1.0) == ((0.0, 1.0),), (
        "of a session that was killed nothing counts as watched"
    )


EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20)


@hypothesis.given(EDGES, st.sets(st.integers(0, 9)))
def test_closure_is_reachability(edges, seeds):
    """The closure is what can be reached from the seeds over owner references, in any order of the lines."""
    from pytest_gpucluster.scenario.entry import Entry

    def entry(child, owner):
        return Entry(0.0, "ADDED", "Pod", f"{child}", "ns", f"{child}", (f"{owner}",), "", "", "", "")

    lines = [entry(child, owner) for owner, child in edges]
    reached = {f"{seed}" for seed in seeds}
    while grown := {f"{c}" for o, c in edges if f"{o}" in reached} - reached:
        reached |= grown
    assert slices.closure(lines, [f"{s}" for s in seeds], "play") == reached
    assert slices.closure(reversed(lines), [f"{s}" for s in seeds], "play") == reached
