"""The judge of what comes before a launcher: the network first, then the launcher; in vain only for a bounded time."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.judge.rendezvous import network_ready, node_labels
from pytest_gpucluster.mutants import base
from tests import recordings


def evidence() -> Evidence:
    """Return the recorded waits for the network."""
    return recordings.embedded("prepared")


def judged(changed: Evidence) -> Any:
    """Return what the judge finds."""
    return network_ready.ready_first(changed, changed.given)


def of_held(event: str, change: Callable[[dict[str, Any]], Any]) -> Evidence:
    """Return the recording with a fact of the members changed that waited for peers."""

    def act(line: Any, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == event and "late" in str(line.data.get("pod")):
            change(told)
        return told

    return base.words(evidence(), act)


def test_waits_that_end_well_and_in_vain_pass_with_both_times() -> None:
    """How long each waited, with its bound; the interface that never came is named."""
    finding = judged(evidence())
    assert finding.verdict == "pass"
    assert [number.value < number.bound + 1 for number in finding.numbers] == [True, True]
    assert "wg-none0" in finding.observed


def test_the_members_clock_decides_the_order() -> None:
    """Log lines may come in another order than they were written."""
    lines = [
        dataclasses.replace(line, t=line.t + 5.0)
        if line.type == "LOG" and '"gate' in str(line.data["line"])
        else line
        for line in evidence().lines
    ]
    assert judged(base.with_lines(evidence(), lines)).verdict == "pass"


def test_a_launcher_that_did_not_wait_is_named_with_pod_and_node() -> None:
    """A violation, also where nothing else was shown."""
    act = mutants.MUTANTS["rendezvous.launched-early"].act
    finding = judged(act(evidence()))
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "Pod/prepared-late-" in finding.observed
    assert " on gpu-" in finding.observed
    assert "init container" in finding.causes[0].fix


def test_a_launcher_beside_a_wait_without_end_fails() -> None:
    """The wait tells that it began, the launcher started, and the network was never there."""
    finding = judged(base.drop("gate")(evidence()))
    assert finding.verdict == "fail"
    assert "while the wait for the network went on" in finding.observed


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda w: w.update(ok=False, error="interface eth0 is down after 10 s (99 looks)"), "eth0 is down"),
        (lambda w: w.update(ok=False), "the network did not come"),
    ],
    ids=["down", "unsaid"],
)
def test_a_network_that_never_came_names_the_interface(
    change: Callable[[dict[str, Any]], Any], text: str
) -> None:
    """Without a launcher it is a fail and no violation of the order."""
    changed = base.drop("launching")(of_held("gate", change))
    finding = judged(changed)
    assert (finding.verdict, finding.violation) == ("fail", False)
    assert text in finding.observed
    assert finding.causes == (network_ready.INTERFACE,)


def test_peers_that_do_not_answer_are_told_from_unknown_names() -> None:
    """Names that nobody knows are DNS's matter, and what this row presupposes."""

    def silent(word: dict[str, Any]) -> None:
        for one in word["peers"].values():
            one.update(answer="", error="timed out")
        word.update(ok=False, error="prepared-late-0.prepared-late does not answer over eth0 within 10 s")

    changed = base.drop("launching")(of_held("gate", silent))
    assert judged(changed).causes == (network_ready.PEERS,)
    assert network_ready.peers_known(changed, changed.given).held is True

    def unknown(word: dict[str, Any]) -> None:
        silent(word)
        for one in word["peers"].values():
            one.update(address="")

    state = network_ready.peers_known(of_held("gate", unknown), evidence().given)
    assert state.held is False
    assert name_resolution.NO_SERVER in state.causes


@pytest.mark.parametrize("event", ["launching", "gate-began"])
def test_what_was_not_told_leaves_the_row_open(event: str) -> None:
    """A launcher that was not seen; a wait without its beginning still has its end."""
    verdict = judged(base.drop(event)(evidence())).verdict
    assert verdict == ("inconclusive" if event == "launching" else "pass")


def test_half_a_line_leaves_the_row_open() -> None:
    """The wait said something that cannot be read, and no launcher was seen."""
    lines = [
        dataclasses.replace(line, data={**line.data, "line": str(line.data["line"])[:120]})
        if line.type == "LOG" and '"gate"' in str(line.data["line"])
        else line
        for line in evidence().lines
    ]
    finding = judged(base.drop("launching")(base.with_lines(evidence(), lines)))
    assert finding.verdict == "inconclusive"
    assert "is cut" in finding.observed


def test_lines_told_twice_change_nothing() -> None:
    """A collector may repeat them."""
    lines = [line for line in evidence().lines for _ in range(2 if line.type == "LOG" else 1)]
    assert judged(base.with_lines(evidence(), lines)).verdict == "pass"


@pytest.mark.parametrize("name", [path.name for path in recordings.folders()])
def test_no_recorded_stream_is_judged(name: str) -> None:
    """Streams of others tell of no such wait."""
    assert network_ready.ready_first(recordings.stream(name), {}).verdict == "inconclusive"


# --- RDZV-007 ---


def arrived(changed: Evidence, **more: Any) -> Any:
    """Return what the judge of labels finds."""
    return node_labels.labels_arrive(changed, {**changed.given, **more})


def test_labels_of_the_own_node_pass_with_their_number() -> None:
    """Both kinds of labels were tried: those that nodes have, and those that they lack."""
    finding = arrived(evidence())
    assert finding.verdict == "pass"
    assert (finding.numbers[0].value, finding.numbers[0].bound) == (4.0, 4.0)
    assert "gpucluster.dev/no-such-label" in finding.observed


@pytest.mark.parametrize(
    ("code", "error", "cause"),
    [
        (403, 'nodes "gpu-0" is forbidden: User "x" cannot get resource', node_labels.FORBIDDEN),
        (401, "Unauthorized", node_labels.FORBIDDEN),
        (0, "timed out", node_labels.UNREACHABLE),
        (200, "", node_labels.NOT_SHARED),
    ],
)
def test_empty_where_the_node_has_a_label_tells_why(code: int, error: str, cause: object) -> None:
    """Forbidden, out of reach, or written and lost."""
    emptied = of_held("launching", lambda w: w.update(env=dict.fromkeys(w["env"], "")))

    def act(line: Any, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == "labels":
            told.update(code=code, error=error, ok=not error)
        return told

    finding = arrived(base.words(emptied, act))
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "is empty, the node has kubernetes.io/hostname=gpu-" in finding.observed
    assert finding.causes == (cause,)
    assert " on gpu-" in finding.where[0]


def test_a_variable_that_is_not_exported_is_told_from_a_file_that_is_not_shared() -> None:
    """The first was written; the second never was."""
    bare = of_held("launching", lambda w: w.update(env={}))
    assert arrived(bare).causes == (node_labels.NOT_EXPORTED,)
    unwritten = base.drop("labels")(bare)
    assert arrived(unwritten).causes == (node_labels.NOT_SHARED,)


def test_labels_of_another_node_name_both() -> None:
    """What the launcher has, and what the node of its pod has."""
    finding = arrived(of_held("launching", lambda w: w["env"].update(NODE_HOSTNAME="elsewhere")))
    assert finding.verdict == "fail"
    assert "is elsewhere, the node gpu-" in finding.observed
    assert finding.causes == (node_labels.OTHER_NODE,)


def test_a_value_for_a_label_that_no_node_has_is_wrong() -> None:
    """A missing label is empty, not the text of an error."""
    finding = arrived(of_held("launching", lambda w: w["env"].update(NODE_NO_SUCH_LABEL="<none>")))
    assert finding.verdict == "fail"
    assert "no such label" in finding.observed


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["kubernetes.io/hostname"], "no wanted label is missing"),
        (["gpucluster.dev/no-such-label"], "no wanted label is on any node"),
    ],
)
def test_one_case_alone_shows_half(labels: list[str], text: str) -> None:
    """Both are tried, or the row is open."""
    finding = arrived(evidence(), labels=labels)
    assert finding.verdict == "inconclusive"
    assert text in finding.observed


def test_nodes_that_were_not_seen_leave_the_row_open() -> None:
    """There is nothing to compare with."""
    finding = arrived(mutants.without(evidence(), lambda line: line.kind == "Node"))
    assert finding.verdict == "inconclusive"
    assert "labels of node gpu-" in finding.observed


def test_an_init_container_that_fails_for_a_missing_label_fails_the_row() -> None:
    """The whole gang would stand for one label."""

    def fails(obj: dict[str, Any]) -> None:
        for status in obj["status"].get("initContainerStatuses") or []:
            status["state"] = {"terminated": {"exitCode": 1}}

    lost = base.drop("launching")(base.drop("labels")(evidence()))
    of_pods = mutants.each(lost, lambda line: line.kind == "Pod" and "late" in line.name, fails)
    finding = arrived(of_pods)
    assert finding.verdict == "fail"
    assert finding.causes == (node_labels.FAILED,)


@pytest.mark.parametrize("name", [path.name for path in recordings.folders()])
def test_no_recorded_stream_tells_labels(name: str) -> None:
    """Streams of others have no such words."""
    assert node_labels.labels_arrive(recordings.stream(name), {}).verdict == "inconclusive"
