"""Reading evidence: every format, and clear errors for what is none."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.evidence import EVERY_KIND, EvidenceError, lines_of, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.judge.gang import all_or_nothing
from pytest_gpucluster.plain import names
from tests import recordings

STAMP = "2026-03-02T08:00:{:02d}Z"


def _pod(
    name: str, version: int, second: int, *, node: str = "", scheduler: str = "default-scheduler"
) -> dict[str, Any]:
    conditions = (
        [{"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP.format(second)}]
        if node
        else []
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "train",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": STAMP.format(1),
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
            ],
        },
        "spec": {"schedulerName": scheduler, "containers": [], **({"nodeName": node} if node else {})},
        "status": {"phase": "Pending", "conditions": conditions},
    }


def _job() -> dict[str, Any]:
    meta = {
        "name": "j",
        "namespace": "train",
        "uid": "uid-j",
        "resourceVersion": "1",
        "creationTimestamp": STAMP.format(0),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"parallelism": 2, "completions": 2},
    }


def _event(second: int) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "train", "name": "b", "uid": "uid-b"}
    meta = {"name": "b.1", "namespace": "train", "uid": "uid-e", "resourceVersion": "9"}
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about, "reason": "FailedScheduling",
        "type": "Warning", "lastTimestamp": STAMP.format(second), "reportingComponent": "default-scheduler",
    }  # fmt: skip


def _watch(*events: tuple[str, dict[str, Any]]) -> str:
    return "\n".join(json.dumps({"type": kind, "object": obj}, indent=4) for kind, obj in events) + "\n"


def test_a_recording_is_read_with_its_responses():
    """The responses beside a stream are read too, and the whole of it counts as watched, for every kind."""
    evidence = recordings.stream("d-refusals")
    assert len(evidence.responses()) == 44
    assert {span.kind for span in evidence.spans} == {EVERY_KIND}
    assert evidence.gaps("Secret", evidence.lines[0].t, evidence.end) == ()
    assert evidence.clock == "receipt"


def test_responses_take_the_time_at_which_their_object_was_created():
    """A response without a time stands where the driver noted the create call."""
    case = next(
        r for r in recordings.stream("d-refusals").responses() if r.data.get("case") == "duplicate-task"
    )
    assert case.t == pytest.approx(5.5143)


def test_responses_alone_are_evidence():
    """A responses.jsonl can be judged without its stream."""
    evidence = read(recordings.VOLCANO / "d-refusals" / "responses.jsonl")
    assert recordings.JUDGES["REF-003"](evidence, {}).verdict == "pass"


def test_a_folder_stands_for_its_files():
    """Naming the folder of a recording reads the same evidence."""
    assert len(read(recordings.VOLCANO / "a-gang-fits")) == len(recordings.stream("a-gang-fits"))


def test_a_frozen_slice_reads_back_as_it_was(tmp_path: Path):
    """What is written of an evidence is read back with the same lines, header and coverage."""
    evidence = recordings.healthy()
    path = tmp_path / "healthy.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines_of(evidence)))
    again = read(path)
    assert [(ln.t, ln.type, ln.kind, ln.object, ln.data) for ln in again] == [
        (ln.t, ln.type, ln.kind, ln.object, ln.data) for ln in evidence
    ]
    assert again.given == evidence.given
    assert again.spans == evidence.spans


def test_the_output_of_kubectl_watches_is_merged_on_the_clock_of_the_objects(tmp_path: Path):
    """Files of pretty-printed watch events, one a kind, become one evidence in whole seconds."""
    pods, jobs, events = tmp_path / "pods.json", tmp_path / "jobs.json", tmp_path / "events.json"
    pods.write_text(
        _watch(
            ("ADDED", _pod("a", 2, 1)),
            ("ADDED", _pod("b", 3, 1)),
            ("MODIFIED", _pod("a", 4, 3, node="node-1")),
        )
    )
    jobs.write_text(_watch(("ADDED", _job())))
    events.write_text(_watch(("ADDED", _event(9))))
    evidence = read([pods, jobs, events])
    assert evidence.clock == "object"
    assert [(ln.t, ln.kind, ln.name) for ln in evidence] == [
        (0.0, "Job.batch", "j"),
        (1.0, "Pod", "a"),
        (1.0, "Pod", "b"),
        (3.0, "Pod", "a"),
        (9.0, "Event", "b.1"),
    ]
    (found,) = gangs.gangs(evidence)
    assert (found.minimum, found.generations[0].first_bind, found.whole) == (2, 3.0, None)
    assert all_or_nothing.all_or_nothing(evidence, {}).verdict == "fail"


def test_a_difference_of_whole_seconds_is_not_trusted_to_the_second(tmp_path: Path):
    """Three seconds between two time stamps may be two: no verdict is built on the last one."""
    pods, jobs = tmp_path / "pods.json", tmp_path / "jobs.json"
    pods.write_text(
        _watch(("ADDED", _pod("a", 2, 3, node="n")), ("ADDED", _pod("b", 3, 1)), ("ADDED", _pod("b", 9, 6)))
    )
    jobs.write_text(_watch(("ADDED", _job())))
    assert all_or_nothing.all_or_nothing(read([pods, jobs]), {}).verdict == "inconclusive"


def test_a_list_is_a_state_and_no_watch(tmp_path: Path):
    """The objects of `kubectl get -o json` are read, and nothing counts as watched."""
    path = tmp_path / "pods.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_pod("a", 2, 1), _pod("b", 3, 1)]})
    )
    evidence = read(path)
    assert [line.type for line in evidence] == ["ADDED", "ADDED"]
    assert evidence.spans == ()


def test_objects_without_uid_get_one():
    """An object of a case that carries no uid is told apart by kind, namespace and name."""
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "n"}}
    evidence = recordings.evidence_of([{"t": 0, "type": "ADDED", "object": obj}])
    assert evidence.uids("Pod") == ("Pod/n/x",)


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_recording_that_was_killed_is_read_without_its_last_line(tmp_path: Path, cut: int):
    """A cut last line is left out and noted."""
    text = (recordings.VOLCANO / "a-gang-fits" / "events.jsonl").read_text().rstrip("\n")
    path = tmp_path / "events.jsonl"
    text = text + "\n" + text.splitlines()[-3][:-cut]
    path.write_text(text)
    evidence = read(path)
    assert len(evidence) == 61
    assert "cut off" in evidence.header["reading"][0]


def test_a_cut_kubectl_object_is_left_out(tmp_path: Path):
    """A kubectl that was killed in the middle of an object leaves the objects before it."""
    path = tmp_path / "pods.json"
    path.write_text(_watch(("ADDED", _pod("a", 2, 1)), ("ADDED", _pod("b", 3, 1)))[:-40])
    evidence = read(path)
    assert [line.name for line in evidence] == ["a"]
    assert "cut off" in evidence.header["reading"][0]


BAD = [
    ("x.jsonl", "", r"x\.jsonl: empty; expected"),
    ("x.jsonl", "hello\n", r"x\.jsonl:1: not JSON .*expected one JSON object a line"),
    ("x.jsonl", '{"t":0,"type":"NOTE"}\nnope\n{"t":1,"type":"NOTE"}\n', r"x\.jsonl:2: not JSON"),
    ("x.jsonl", '{"t":0,"type":"NOTES"}\n', r"x\.jsonl:1: unknown line type 'NOTES'; did you mean 'NOTE'"),
    ("x.jsonl", '{"t":"soon","type":"NOTE"}\n', r"x\.jsonl:1: `t` is 'soon'; expected seconds"),
    ("x.jsonl", '{"t":0,"type":"ADDED","kind":"Pod"}\n', r"x\.jsonl:1: ADDED line without an `object`"),
    (
        "x.jsonl",
        '{"type":"HEADER","schema":99}\n',
        r"x\.jsonl:1: evidence schema 99; this version reads 1 to 2",
    ),
    ("x.jsonl", '{"type":"SPAN","kind":"Pod","start":"a"}\n', r"x\.jsonl:1: malformed SPAN"),
    ("x.jsonl", "[1, 2]\n", r"x\.jsonl:1: list found; expected a JSON object"),
    ("x.json", '{\n  "a": 1\n}\n', r"x\.json:1: no Kubernetes object; expected the output of `kubectl"),
    ("x.json", '{\n  "type": "GONE",\n  "object": {}\n}\n', r"x\.json:1: unknown watch event type 'GONE'"),
    ("x.json", '{\n "kind": "Pod", oops\n}\n{\n}\n', r"x\.json:2: not JSON"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_what_is_no_evidence_is_refused_in_one_line(tmp_path: Path, name: str, text: str, message: str):
    """An error names file and line, what is wrong and what is expected."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(EvidenceError) as caught:
        read(path)
    assert re.search(message, str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path):
    """A missing file is named."""
    with pytest.raises(EvidenceError, match=r"nothing\.jsonl: cannot be read"):
        read(tmp_path / "nothing.jsonl")


def test_two_clocks_are_not_mixed(tmp_path: Path):
    """A recording and kubectl output cannot be merged."""
    path = tmp_path / "pods.json"
    path.write_text(_watch(("ADDED", _pod("a", 2, 1))))
    with pytest.raises(EvidenceError, match="different clocks"):
        read([recordings.VOLCANO / "a-gang-fits" / "events.jsonl", path])


def test_the_key_of_a_watch_line_is_that_of_its_object():
    """Recordings write the bare kind; a line whose object does not say its kind keeps what is written."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "a", "uid": "a"},
    }
    assert (
        ingest.make_line(0.0, "ADDED", {"kind": "PodGroup", "object": group}, 0).kind
        == names.NATIVE_POD_GROUP
    )
    nameless = {"metadata": {"name": "a", "uid": "a"}}
    assert ingest.make_line(0.0, "ADDED", {"kind": "PodGroup", "object": nameless}, 0).kind == names.POD_GROUP


def test_brackets_without_end_are_one_line(tmp_path):
    """A file that is nested deeper than anybody reads is told as that."""
    path = tmp_path / "deep.jsonl"
    path.write_text('{"type": "NOTE", "t": 0}\n' + "[" * 100_000 + "\n", encoding="utf-8")
    with pytest.raises(EvidenceError, match=r"deep\.jsonl:2: brackets are nested too deep"):
        ingest.read(path)
