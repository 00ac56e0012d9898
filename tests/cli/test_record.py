"""`gpucluster record`: a scenario of the suite becomes a recording, on whichever cluster."""

import json

import pytest
import yaml

from pytest_gpucluster.cli import record
from pytest_gpucluster.kube import objects


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


def test_a_gpu_resource_that_no_node_offers_is_an_error_before_the_run(call, tmp_path, monkeypatch):
    """As a run says it: nothing is started, and the folder stays as it was."""
    (tmp_path / "there.yaml").write_text(
        "connection: {kubeconfig: kubeconfig, context: there}\nscheduler: volcano\nqueue: default\n"
        "gpu_resource: nvidia.com/gpus\ngpus_per_node: 8\n"
    )
    (tmp_path / "kubeconfig").write_text(
        "clusters: [{name: there, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: [{name: me, user: {}}]\n"
        "contexts: [{name: there, context: {cluster: there, user: me}}]\n"
    )
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8", "nvidia.com/gpu": "8"}}}
    monkeypatch.setattr(objects.Objects, "list", lambda *_args, **_more: [node])
    monkeypatch.setattr(record, "_run", lambda *_args: pytest.fail("a run was started"))
    out = tmp_path / "out"
    status, said, errors = call("record", "scarce", "--cluster=there", "--profiles", tmp_path, "--out", out)
    assert (status, said) == (2, "")
    assert (
        "there.yaml:4: gpu_resource = 'nvidia.com/gpus': no node offers it; did you mean 'nvidia.com/gpu'?"
        in errors
    )
    assert not out.exists()


def test_what_is_no_recording_is_not_overwritten(call, tmp_path):
    """A folder with other files is left alone, before anything is run."""
    (tmp_path / "notes.txt").write_text("mine")
    status, _, errors = call("record", "scarce", "--cluster=embedded", "--out", tmp_path)
    assert status == 2
    assert (
        errors
        == f"gpucluster: record: {tmp_path} exists but is not a recording: name another folder with --out\n"
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
