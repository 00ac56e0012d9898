"""Recordings: nothing of the run, the machine or a secret is left, and judges decide the same on them."""

import json
import pathlib
import re

import pytest

from pytest_gpucluster.evidence.log import ingest, recording
from pytest_gpucluster.report import decisions

EMBEDDED = pathlib.Path(__file__).parents[3] / "fixtures" / "recorded" / "embedded"
NAMES = sorted(path.stem for path in EMBEDDED.glob("*.jsonl"))
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
YEAR = re.compile(r"\b(20\d\d)-\d\d-\d\dT")


def lines_of(name):
    """Return the lines of a run's evidence."""
    with (EMBEDDED / f"{name}.jsonl").open() as file:
        return [json.loads(line) for line in file]


def text_of(made):
    """Return everything that a recording says."""
    return recording.as_lines([*made.events, *made.responses, *made.manifest])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_of_one_run_is_gone(name):
    """No uid, node, namespace or run of the original is left; times begin at the same moment everywhere."""
    lines = lines_of(name)
    text = text_of(recording.normalised(lines))
    run = lines[0]["source"]["run"]
    assert run not in text
    assert f"-{run.rpartition('-')[2]}-" not in text
    assert lines[0]["source"]["namespace"] not in text
    assert not {each for each in UID.findall(text) if not each.startswith("00000000-0000-4000-8000-")}
    assert not re.search(r"\bgpu-\d\b", text)
    assert set(YEAR.findall(text)) <= {"2025", "2026"}
    assert '"managedFields"' not in text


@pytest.mark.parametrize("name", ["scarce", "healthy", "over-large", "lost"])
def test_judges_decide_the_same(name, tmp_path):
    """Each row of the scenario has the verdict that it has on the run's own evidence."""
    from pytest_gpucluster.cli import common

    made = recording.normalised(lines_of(name))
    (tmp_path / "events.jsonl").write_text(recording.as_lines(made.events))
    (tmp_path / "responses.jsonl").write_text(recording.as_lines(made.responses))
    rows = [row for row in common.registry() if row.scenario.name == name]
    assert rows
    ours, theirs = ingest.read(EMBEDDED / f"{name}.jsonl"), ingest.read(tmp_path)
    for row in rows:
        found = [decisions.decide(row, each, dict(each.given)).verdict for each in (ours, theirs)]
        assert found[0] == found[1], row.id


def test_two_recordings_of_one_run_are_the_same():
    """What replaces an identity depends on the order in which identities appear, and on nothing else."""
    lines = lines_of("scarce")
    # Each digit of a uid for another: still one uid an object, all of them different from the first run's.
    turned = str.maketrans("0123456789", "9876543210")
    other = json.loads(UID.sub(lambda found: found[0].translate(turned), json.dumps(lines)))
    assert other != lines
    assert text_of(recording.normalised(lines)) == text_of(recording.normalised(other))


def line(kind, **fields):
    """Return a watch line."""
    meta = {"name": "x", "uid": "11111111-2222-3333-4444-555555555555"}
    return {"type": "ADDED", "t": 7.5, "kind": kind, "object": {"kind": kind, "metadata": meta, **fields}}


def test_secrets_are_replaced_by_their_lengths():
    """The bytes of a Secret never stand in a recording."""
    (event,) = recording.normalised(
        [line("Secret", data={"id_rsa": "c2VjcmV0"}, stringData={"a": "xyz"})]
    ).events
    assert "c2VjcmV0" not in json.dumps(event)
    assert event["object"]["data"]["id_rsa"] in ("<8 base64 bytes>", "[redacted]")


def test_a_node_whose_name_is_a_word_is_masked_where_it_stands_as_a_node():
    """A node called `blue` is masked as a node, and a message that speaks of blue is left alone."""
    pod = line("Pod", spec={"nodeName": "blue"}, status={"message": "the blue one"})
    node = line("Node", status={"nodeInfo": {"machineID": "abc"}, "images": [{"names": ["a"]}]})
    node["object"]["metadata"] = {"name": "blue", "labels": {"kubernetes.io/hostname": "blue"}}
    events = recording.normalised([pod, node]).events
    assert events[0]["object"]["spec"]["nodeName"] == "node-1"
    assert events[0]["object"]["status"]["message"] == "the blue one"
    assert events[1]["object"]["metadata"]["labels"] == {"kubernetes.io/hostname": "node-1"}
    assert events[1]["object"]["status"] == {"nodeInfo": {"machineID": "masked"}}


def test_longer_names_are_not_cut_by_shorter_ones():
    """`lab-worker` does not stand inside `lab-worker2`."""
    pods = [
        line("Pod", spec={"nodeName": name}, status={"message": f"to {name}."})
        for name in ("lab-worker", "lab-worker2")
    ]
    events = recording.normalised(pods).events
    assert [each["object"]["status"]["message"] for each in events] == ["to node-1.", "to node-2."]


def test_fractions_of_times_are_kept():
    """Times move together; how precise each is stays as it was."""
    status = {"a": "2026-05-05T10:00:00Z", "b": "2026-05-05T10:00:01.250000Z"}
    pod = line("Pod", status=status)
    pod["object"]["metadata"]["creationTimestamp"] = "2026-05-05T10:00:00Z"
    (event,) = recording.normalised([pod]).events
    assert event["object"]["status"] == {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T00:00:01.250000Z"}
    assert event["t"] == 0


def test_answers_and_manifests_have_files_of_their_own():
    """What was created stands in the manifest as it could be created again, its answer among the answers."""
    made = recording.normalised(lines_of("scarce"))
    assert [each["request"] for each in made.responses] == [
        "create Pod/scarce-blocker",
        "create Job.batch.volcano.sh/scarce",
    ]
    assert [each["kind"] for each in made.manifest] == ["Pod", "Job"]
    assert not any("uid" in each["metadata"] or "status" in each for each in made.manifest)
    assert "create Pod/scarce-blocker -> 201" in [each.get("text") for each in made.events]
