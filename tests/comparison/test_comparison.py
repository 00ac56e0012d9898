"""The comparison itself: what it sees, what it leaves out, and that its list of known differences cannot rot."""

import dataclasses
import json
import pathlib

import pytest

from tests.comparison import differences, runs, streams, table
from tests.comparison.masks import anonymous

EMBEDDED = pathlib.Path(__file__).parents[2] / "fixtures" / "recorded" / "embedded"
LISTED = pathlib.Path(__file__).parents[1] / "kind" / "differences.yaml"

WHY = "a reason that a reader can follow"


def pod(name="gang-0-bcdfg", uid="u1", phase="Pending", **more):
    """Return a line about a pod in a scenario's namespace."""
    obj = {
        "kind": "Pod",
        "metadata": {"name": name, "uid": uid, "namespace": "case-x", **more.get("meta", {})},
        "spec": more.get("spec", {}),
        "status": {"phase": phase, "conditions": more.get("conditions", [])},
    }
    return {"type": "MODIFIED", "t": 0.0, "kind": "Pod", "object": obj}


def event(message, reporter="default-scheduler", reason="FailedScheduling"):
    """Return a line with an event about a pod."""
    obj = {
        "kind": "Event",
        "metadata": {"name": "e", "uid": "e", "namespace": "case-x"},
        "involvedObject": {"kind": "Pod", "name": "gang-1-bcdfg"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "reportingComponent": reporter,
    }
    return {"type": "ADDED", "t": 0.0, "kind": "Event", "object": obj}


def test_names_that_differ_from_run_to_run_are_masked():
    """What controllers and the API server add to a name goes, with all numbers."""
    assert anonymous("gang-0-x7k2p, gang-12") == "gang-N-X, gang-N"
    assert anonymous("job-gang-1f0ab") == "job-gang-X"
    assert anonymous("gang-worker") == "gang-worker"
    assert anonymous("world-pgt-0-bd4b88f") == "world-pgt-N-X"
    assert anonymous("two-gangs-left-0-x7k2p") == anonymous("two-gangs-right-1-qqqqq")


def test_the_same_run_has_no_differences():
    """Evidence beside itself, for every recorded scenario."""
    read = {path.stem: streams.read(path) for path in sorted(EMBEDDED.glob("*.jsonl"))}
    for name, seen in read.items():
        assert differences.of_streams(name, seen, seen) == []
    assert len(read["scarce"].seen) > 10


def test_a_state_an_event_and_an_order_are_seen():
    """Each is named with the side that has it."""
    waits, bound = pod(), pod(spec={"nodeName": "n"})
    runs_ = pod(phase="Running", spec={"nodeName": "n"})
    ours = streams.of([waits, bound, runs_, event("0/3 nodes: 3 full")])
    theirs = streams.of([waits, runs_, bound, event("0/4 nodes: 4 full"), event("other")])
    found = differences.of_streams("x", ours, theirs)
    assert [(each.what, each.side, each.of) for each in found] == [
        ("event", "kind", "Pod/gang-N-X"),
        ("order", "either", "Pod/gang-N-X"),
    ]
    assert found[0].text == "Warning FailedScheduling by default-scheduler: other"
    assert "Pending bound, then Running bound" in found[1].text


def test_pods_that_can_stand_for_each_other_are_one():
    """Which of a gang's pods went through a state is chance; that one did is not."""
    ours = streams.of([pod("gang-0-bcdfg", "a"), pod("gang-1-hjklm", "b", "Running")])
    theirs = streams.of([pod("gang-2-npqrs", "c", "Running"), pod("gang-3-tvwxz", "d")])
    assert differences.of_streams("x", ours, theirs) == []


def test_other_namespaces_kubelets_and_the_control_planes_taint_do_not_count():
    """They are of the cluster, not of what was asked of it."""
    elsewhere = pod(meta={"namespace": "kube-system"})
    assert streams.of([elsewhere, event("Pulled", "kubelet", "Pulled")]).seen == frozenset()
    with_taint = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient x."
    without = "0/3 nodes are available: 3 Insufficient x."
    assert streams.of([event(with_taint)]) == streams.of([event(without)])


def test_what_only_one_side_watched_is_not_compared():
    """A watch that another scenario opened stays open, and shows more than this one asked for."""
    group = {**pod("gang-group", "g"), "kind": "PodGroup"}
    spans = [{"type": "SPAN", "kind": kind, "start": 0.0, "end": 1.0} for kind in ("Pod", "PodGroup")]
    ours = streams.of([spans[0], pod()])
    theirs = streams.of([*spans, pod(), group])
    assert differences.of_streams("x", ours, theirs) == []
    assert differences.of_streams("x", streams.of([*spans, pod()]), theirs) != []


def test_verdicts_are_compared_where_both_decided():
    """A row that one side did not decide is no difference; it is told in the table."""
    ours = {"A-001": "pass", "A-002": "pass", "A-003": "not_applicable", "A-004": "pass"}
    theirs = {"A-001": "pass", "A-002": "fail", "A-003": "pass"}
    assert [str(each) for each in differences.of_verdicts(ours, theirs)] == [
        "A-002: verdict of A-002: embedded pass, kind fail"
    ]


def entry(tmp_path, **fields):
    """Return a list with one entry."""
    path = tmp_path / "differences.yaml"
    path.write_text(json.dumps([{"what": "state", "side": "kind", "why": WHY, **fields}]))
    return differences.load(path)


FOUND = differences.Difference("state", "scarce", "kind", "Pod/x-N", "Running bound")


@pytest.mark.parametrize(
    ("fields", "covered"),
    [
        ({}, True),
        ({"side": "either"}, True),
        ({"side": "embedded"}, False),
        ({"what": "event"}, False),
        ({"scenarios": ["scarce"]}, True),
        ({"scenarios": ["scar"]}, False),
        ({"of": "Pod/.*"}, True),
        ({"of": "Pod"}, False),
        ({"text": "Running.*"}, True),
        ({"text": "bound"}, False),
    ],
)
def test_an_entry_covers_what_it_says_and_no_more(tmp_path, fields, covered):
    """Patterns match whole texts, so that an entry for one state is not one for all that contain it."""
    reviewed = differences.review([FOUND], entry(tmp_path, **fields), "native")
    assert (reviewed.unknown == []) is covered


def test_an_entry_that_covers_nothing_is_stale(tmp_path):
    """Unless it depends on milliseconds, or on another scheduler than the one of the run."""
    for fields, stale in (({}, 1), ({"sometimes": True}, 0), ({"schedulers": ["volcano"]}, 0)):
        listed = entry(tmp_path, **fields)
        assert len(differences.review([], listed, "native").stale) == stale, fields


VERDICT = differences.Difference("verdict", "REF-001", "either", "REF-001", "embedded pass, kind fail")


@pytest.mark.parametrize(
    ("again", "compared", "left"),
    [
        ([], {"scarce"}, [VERDICT]),
        ([FOUND], {"scarce"}, [FOUND, VERDICT]),
        ([dataclasses.replace(FOUND, side="embedded")], {"scarce"}, [VERDICT]),
        ([dataclasses.replace(FOUND, where="healthy")], {"scarce", "healthy"}, [VERDICT]),
        ([], {"healthy"}, [FOUND, VERDICT]),
        ([], set(), [FOUND, VERDICT]),
    ],
)
def test_a_moment_that_is_gone_when_run_again_is_none_and_a_verdict_stays(again, compared, left):
    """Nothing is gone from a scenario that was not compared again; what is gone is still shown."""
    reviewed = differences.review([FOUND, VERDICT], [], "native")
    assert reviewed.unsettled == {"scarce"}
    settled = reviewed.beside(again, compared)
    assert settled.unknown == left
    empty = runs.Run(pathlib.Path(), {}, {})
    shown = table.markdown(empty, empty, settled, "native")
    assert str(FOUND) in shown
    assert ("Seen once" in shown) is (FOUND not in left)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"wherever": "x"}, "unknown key 'wherever'"),
        ({"what": "stat"}, "what: 'stat' is none of"),
        ({"side": "left"}, "side: 'left' is none of"),
        ({"why": "it differs"}, "a difference that nobody can explain is a defect"),
    ],
)
def test_an_entry_has_to_say_what_and_why(tmp_path, fields, says):
    """A list of exceptions is worth what its reasons are."""
    with pytest.raises(differences.ListError, match=says):
        entry(tmp_path, **fields)


def test_the_list_of_the_project_can_be_read():
    """Also where no kind cluster is there to use it."""
    assert len(differences.load(LISTED)) < 40


def test_the_page_is_the_same_whatever_was_seen(tmp_path):
    """What is committed does not change with milliseconds; what a run prints does."""
    listed = entry(tmp_path, sometimes=True)
    ours = runs.Run(tmp_path, {"A-001": "pass", "A-002": "pass"}, {})
    theirs = runs.Run(tmp_path, {"A-001": "pass", "A-002": "not_applicable"}, {})
    page = table.page(ours, theirs, listed, "native")
    assert "| A-001 | pass | pass | same |" in page
    assert "Decided by one side only: A-002 (only embedded)." in page
    assert "applies to the kind cluster" not in page
    assert WHY in page
    shown = table.markdown(ours, theirs, differences.review([FOUND], listed, "native"), "native")
    assert "1 times in scarce" in shown
    unknown = table.markdown(ours, theirs, differences.review([FOUND], [], "native"), "native")
    assert "- scarce: state of Pod/x-N: only kind: Running bound" in unknown


def test_what_kind_cannot_run_is_named_and_not_compared(tmp_path):
    """The page is the same whether the embedded cluster ran such rows or not; a row that kind tried is in both runs."""
    theirs = runs.Run(
        tmp_path,
        {"A-001": "pass", "A-002": "not_applicable", "B-001": "not_applicable"},
        {},
        frozenset({"beta"}),
        {"alpha": frozenset({"A-001", "A-002"}), "beta": frozenset({"B-001"})},
    )
    assert runs.tried(theirs) == ["A-001", "A-002"]
    verdicts = {"A-001": "pass", "A-002": "pass"}
    page = table.page(runs.Run(tmp_path, verdicts, {}), theirs, [], "native")
    assert "Nothing in these scenarios applies to the kind cluster: beta." in page
    assert "Decided by one side only: A-002 (only embedded)." in page
    assert page == table.page(runs.Run(tmp_path, {**verdicts, "B-001": "pass"}, {}), theirs, [], "native")
