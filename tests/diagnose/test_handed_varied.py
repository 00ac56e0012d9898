"""Inputs from the field with other words, numbers and orders: what is said changes with what decides it."""

from pathlib import Path

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.evidence.log import ingest
from tests import recordings
from tests.diagnose import building

FOLDER = recordings.FOLDER / "diagnose"


def said(tmp_path: Path, name: str, *changes: tuple[str, str]) -> str:
    """Return what is said of a handed input in which some words were replaced."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    evidence = diagnose.revive(ingest.read([path]))
    (found, *_) = diagnose.subjects(evidence, "", "")
    return " ".join(diagnose.render(diagnose.diagnose(found, recordings.JUDGES)).split())


@pytest.mark.parametrize("words", ["Driver/library version mismatch", "driver/library version mismatch"])
def test_a_driver_that_does_not_match_in_either_spelling(tmp_path: Path, words: str) -> None:
    """The library of the runtime and nvidia-smi write it differently."""
    text = said(tmp_path, "driver-library-mismatch.json", ("driver/library version mismatch", words))
    assert "the GPU driver and its libraries on g-5 do not match" in text


def test_a_member_that_was_killed_did_not_end_by_itself(tmp_path: Path) -> None:
    """137 is SIGKILL: the program did not end with it when it got SIGTERM."""
    text = said(tmp_path, "terminated.jsonl", ('"exitCode": 15', '"exitCode": 137'))
    assert "137 (SIGKILL" in text
    assert "137 when it got SIGTERM" not in text


def test_a_failed_member_on_which_no_policy_acts_is_not_denied(tmp_path: Path) -> None:
    """A failed member is in the evidence, whether or not a policy is that acts on it."""
    text = said(tmp_path, "terminated.jsonl", ('"event": "PodFailed"', '"event": "JobUnknown"'))
    assert "fjord-node-1 Failed" in text
    assert "no failed member" not in text


def test_a_warning_that_is_known_is_not_called_unknown(tmp_path: Path) -> None:
    """Where the program went on, it is a note, with the meaning that it has."""
    text = said(
        tmp_path, "regmr.jsonl", ("vole-0:12:30 [2] NCCL INFO transport/net.cc:683 -> 2", "step 17 loss 1.9")
    )
    assert "healthy" in text
    assert "memory cannot be registered" in text
    assert "does not know the warning" not in text


def test_an_error_after_the_watchdog_is_not_what_it_waited_for(tmp_path: Path) -> None:
    """The times say which came first."""
    text = said(tmp_path, "nvlink-hardware-error.jsonl", ("09:23:", "09:53:"))
    assert "earlier: this may follow from what stalled there" in text
    assert "only waited for this rank" not in text


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("nvidia.com/gpu.unhealthy", "find out why m4 was given the taint", "toleration"),
        ("team-b", "add the toleration", "find out why"),
    ],
)
def test_a_taint_for_ill_devices_is_not_to_be_tolerated(key: str, right: str, wrong: str) -> None:
    """Who keeps pods off a sick node does not want them there."""
    cluster = building.Cluster()
    cluster.queue()
    cluster.node("m4", 4, taints=[{"key": key, "effect": "NoSchedule"}])
    cluster.gang(1, 4, message=f"0/1 nodes are available: 1 node(s) had untolerated taint {{{key}: }}.")
    text = " ".join(diagnose.render(cluster.diagnose()).split())
    assert right in text
    assert wrong not in text


def test_a_lost_node_rejects_nobody() -> None:
    """NodeLost is said of a kubelet that is silent."""
    cluster = building.Cluster()
    cluster.queue()
    cluster.node("g-2", 8)
    cluster.node("g-3", 8)
    pod = cluster.gang(2, 8, at=("g-2", "g-3"))[1]
    pod["status"] = {"phase": "Failed", "reason": "NodeLost", "message": "g-3 is unresponsive"}
    text = " ".join(diagnose.render(cluster.diagnose()).split())
    assert "the kubelet of g-3 does not answer" in text
    assert "rejects" not in text


def test_a_device_that_the_node_lacks_is_its_drivers() -> None:
    """A runtime that adds a device file of a driver finds it only where the driver is loaded."""
    cluster = building.Cluster()
    cluster.queue()
    for name in ("g-5", "g-6"):
        cluster.node(name, 8, resource="amd.com/gpu")
    pod = cluster.gang(2, 8, at=("g-5", "g-6"), resource="amd.com/gpu")[1]
    message = (
        'error gathering device information while adding custom device "/dev/kfd": no such file or directory'
    )
    ended = {"exitCode": 128, "reason": "StartError", "message": message, "finishedAt": building.ago(100)}
    pod["status"]["phase"] = "Failed"
    pod["status"]["containerStatuses"] = [
        {
            "name": "main",
            "image": "reg/x:1",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
    ]
    text = " ".join(diagnose.render(cluster.diagnose()).split())
    assert "the GPU driver of g-6 is not loaded" in text
    assert "rocm-smi" in text
    assert "nvidia" not in text


@pytest.mark.parametrize(("cpus", "told"), [("1", True), ("500m", False)])
def test_an_init_container_with_whole_cpus_may_be_what_was_aligned(cpus: str, told: bool) -> None:
    """It takes CPUs of one NUMA node before the main container is looked at, and the message names no container."""
    cluster = building.Cluster()
    cluster.queue()
    cluster.node("g-2", 8)
    cluster.node("g-3", 8)
    before = {"name": "wait-dns", "resources": {"requests": {"cpu": cpus}, "limits": {"cpu": cpus}}}
    pod = cluster.gang(2, 8, at=("g-2", "g-3"), spec={"initContainers": [before]})[1]
    message = "Resources cannot be allocated with Topology locality"
    pod["status"] = {"phase": "Failed", "reason": "TopologyAffinityError", "message": message}
    text = " ".join(diagnose.render(cluster.diagnose()).split())
    assert ("init container wait-dns" in text) is told
    assert ("topologyManagerScope pod" in text) is told
