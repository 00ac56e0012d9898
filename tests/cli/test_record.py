"""`gpucluster record`: a scenario of the suite becomes a recording, on whichever cluster."""

import json

import pytest
import yaml


@pytest.mark.slow
def test_a_scenario_on_the_embedded_cluster_becomes_a_recording(call, tmp_path):
    """The recording has the three files, can be judged without the cluster, and replaces an older one."""
    out = tmp_path / "scarce"
    out.mkdir()
    (out / "events.jsonl").write_text("older\n")
    status, said, errors = call("record", "scarce", "--cluster=embedded", "--out", out)
    assert (status, errors) == (0, ""), said
    assert "GANG-002  pass" in said
    events = [json.loads(text) for text in (out / "events.jsonl").read_text().splitlines()]
    assert events[0]["given"]["namespace"] == "case-scarce"
    assert {each["type"] for each in events} >= {"HEADER", "SPAN", "NOTE", "ADDED", "MODIFIED", "DELETED"}
    assert [each["kind"] for each in yaml.safe_load_all((out / "manifest.yaml").read_text())] == [
        "Pod",
        "Job",
    ]
    assert json.loads((out / "responses.jsonl").read_text().splitlines()[0])["code"] == 201
    status, said, _ = call("judge", out, "--requirement", "GANG-002")
    assert status == 0, said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["scrace", "--cluster=embedded"], "gpucluster: unknown scenario 'scrace'; did you mean 'scarce'?"),
        (["scarce"], "gpucluster: record: name the cluster: --cluster NAME"),
        (["scarce", "--cluster=embeded"], "embedded"),
        (
            ["scarce", "--cluster=embedded", "--otu=x"],
            "gpucluster: record: unknown option '--otu=x'; did you mean '--out'?",
        ),
        (["scarce", "--cluster=embedded", "--set=queu=x"], "queue"),
    ],
)
def test_mistakes_are_one_line_with_the_nearest_match(call, words, says):
    """Whatever is mistyped is named, with what was probably meant."""
    status, said, errors = call("record", *words)
    assert (status, said) == (2, "")
    assert errors.count("\n") == 1
    assert says in errors


def test_what_is_no_recording_is_not_overwritten(call, tmp_path):
    """A folder with other files is left alone, before anything is run."""
    (tmp_path / "notes.txt").write_text("mine")
    status, _, errors = call("record", "scarce", "--cluster=embedded", "--out", tmp_path)
    assert status == 2
    assert (
        errors
        == f"gpucluster: record: {tmp_path} is there and is no recording: name another folder with --out\n"
    )
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_scenarios_are_listed_with_their_rows(call):
    """Who records has to know what there is."""
    status, said, _ = call("record", "--list")
    assert status == 0
    assert any(line.split()[0] == "scarce" and "GANG-002" in line for line in said.splitlines())


@pytest.mark.slow
def test_a_scenario_that_does_not_run_says_why(call, tmp_path):
    """A row that does not apply on a cluster leaves no recording, and the reason is told."""
    out = tmp_path / "recording"
    words = ["closed-queue", "--cluster=embedded", "--set=scheduler=native", "--out", out]
    status, _, errors = call("record", *words)
    assert status == 3
    assert "closed-queue did not run: " in errors
    assert errors.count("\n") == 1
    assert not out.exists()
