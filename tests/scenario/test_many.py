"""What thousands of nodes need: little kept of each, and one waking for a whole list."""

import json

from pytest_gpucluster.kube import clock
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log


def node(number):
    """Return a node as an API server lists it."""
    return {
        "metadata": {
            "name": f"n{number}",
            "uid": f"u{number}",
            "labels": {
                "a": f"of zone {number % 1}",
                "kubernetes.io/hostname": f"n{number}",
                f"{log.NOISE}AVX": "true",
            },
            "annotations": {"example.com/x": "y", names.ANNOTATION_EXPIRES: "later"},
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"taints": [{"key": "k"}]},
        "status": {"images": [{"names": ["big"]}], "capacity": {"cpu": "1"}},
    }


def test_of_a_node_is_kept_what_judges_read():
    """Labels, taints and status stay; images, foreign annotations and field owners go; equal texts are one."""
    first, second = (log.lean("Node", node(number)) for number in (1, 2))
    assert first["metadata"]["annotations"] == {names.ANNOTATION_EXPIRES: "later"}
    assert "managedFields" not in first["metadata"]
    assert first["status"] == {"capacity": {"cpu": "1"}}
    assert first["spec"] == {"taints": [{"key": "k"}]}
    assert set(first["metadata"]["labels"]) == {"a", "kubernetes.io/hostname"}
    assert first["metadata"]["labels"]["a"] is second["metadata"]["labels"]["a"]


def test_a_node_without_status_or_labels_stays_as_it_is():
    """What is not there is not made up."""
    bare = {"metadata": {"name": "n"}, "spec": {}}
    assert log.lean("Node", bare) == bare
    odd = {"metadata": {"name": "n", "labels": {"a": []}}, "status": None}
    assert log.lean("Node", odd) == odd


def test_a_list_wakes_once_and_is_written_out_with_its_end(tmp_path):
    """Until a list is whole nobody can decide by it; then all its lines are in the file."""
    seen = log.SessionLog(tmp_path / "s.jsonl", clock.FakeClock(), scenario_label="l")
    woken = []
    seen.condition.notify_all = lambda: woken.append(1)
    seen.expect("Node")
    for number in range(50):
        seen.line("ADDED", "Node", log.lean("Node", node(number)), 0.0)
    assert not woken
    seen.in_sync("Node", 0.0, "list")
    assert len(woken) == 1
    head, *lines = [json.loads(line) for line in seen.path.read_text().splitlines()]
    assert head["type"] == "HEADER"
    assert [line["object"]["metadata"]["name"] for line in lines] == [f"n{n}" for n in range(50)]
    seen.line("MODIFIED", "Node", node(1), 0.0)
    assert len(woken) == 2
    seen.close()
