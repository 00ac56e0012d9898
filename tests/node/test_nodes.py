"""Node objects, leases, slots and GPUs on the API server."""

import json
from collections.abc import Callable

from pytest_gpucluster.plain.names import ANNOTATION_KUBELET_SOCKET
from tests.node.harness import PODS, Nodes


def gpus(count: int) -> dict[str, object]:
    """Return a container that asks for GPUs and says which it got."""
    return {"container": {"resources": {"limits": {"nvidia.com/gpu": str(count)}}}}


def test_node_objects(nodes: Nodes) -> None:
    """Each node is Ready with its resources, labels and address, and says where its logs are served."""
    node = nodes.api.get("/api/v1/nodes/gpu-1")
    assert node is not None
    wanted = {"cpu": "96", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    assert node["status"]["capacity"] == node["status"]["allocatable"] == wanted
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-1"
    assert node["metadata"]["annotations"][ANNOTATION_KUBELET_SOCKET] == nodes.ready["kubelet_socket"]
    assert {"type": "InternalIP", "address": "10.88.0.3"} in node["status"]["addresses"]
    assert nodes.ready["nodes"] == ["gpu-0", "gpu-1"]


def test_leases_are_renewed(start: Callable[..., Nodes]) -> None:
    """Each node's lease exists and its time moves."""
    nodes = start(lease_seconds=1)
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-0"
    lease = nodes.api.wait(lambda: nodes.api.get(path))
    first = lease["spec"]["renewTime"]
    nodes.api.wait(lambda: nodes.api.get(path)["spec"]["renewTime"] > first)


def test_slots_are_copied_to_allocatable(nodes: Nodes) -> None:
    """A foreign extended resource patched into capacity appears in allocatable, changes and vanishes with it."""
    path, slot = "/api/v1/nodes/gpu-0", "slots.gpucluster.dev/x"

    def allocatable() -> dict[str, str]:
        return nodes.api.get(path)["status"]["allocatable"]

    nodes.api.patch(path, {"status": {"capacity": {slot: "3"}}})
    nodes.api.wait(lambda: allocatable().get(slot) == "3")
    nodes.api.patch(path, {"status": {"capacity": {slot: "2"}}})
    nodes.api.wait(lambda: allocatable().get(slot) == "2")
    nodes.api.patch(path, {"status": {"capacity": {slot: None}}})
    nodes.api.wait(lambda: slot not in allocatable())
    assert allocatable()["nvidia.com/gpu"] == "8"


def test_gpus_are_given_and_returned(start: Callable[..., Nodes]) -> None:
    """A pod sees the GPUs that it was given; they are free again when it has ended."""
    nodes = start()
    for attempt in range(2):
        said = nodes.output(f"eight-{attempt}", "echo $NVIDIA_VISIBLE_DEVICES", **gpus(8))
        assert sorted(said.strip().split(",")) == [f"GPU-fake-{i}" for i in range(8)]


def test_shortage_is_refused_at_admission(start: Callable[..., Nodes]) -> None:
    """A pod bound to a node without free GPUs is refused: Failed, UnexpectedAdmissionError, no container."""
    nodes = start()
    nodes.run("holds", "exec sleep 60", **gpus(7))
    nodes.wait_phase("holds", "Running")
    nodes.run("short-of-gpus", "true", **gpus(2))
    status = nodes.wait_end("short-of-gpus")
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "containerStatuses" not in status


def test_topology_refusal_as_recorded(start: Callable[..., Nodes]) -> None:
    """Five GPUs under single-numa-node: the status, the event and the answer to a log request of kubelet v1.34.3."""
    nodes = start(topology_policy="single-numa-node")
    nodes.run("five", "true", **gpus(5))
    status = nodes.wait_end("five")
    text = "Resources cannot be allocated with Topology locality"
    assert status.pop("startTime")
    assert status == {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "message": f"Pod was rejected: {text}",
    }
    nodes.api.wait(lambda: ("Warning", "TopologyAffinityError", text) in nodes.api.events("five"))
    assert nodes.logs("five") == (400, 'container "c" in pod "five" is not available')
    nodes.api.delete(f"{PODS}/five")
    nodes.api.wait(lambda: nodes.phase("five") == "gone")


def test_ended_pods_of_an_earlier_life_are_left_alone(nodes: Nodes) -> None:
    """A pod that is in a final phase when first seen is not run again; when deleted it is removed."""
    body = {
        "kind": "Pod", "metadata": {"name": "old"}, "status": {"phase": "Failed"},
        "spec": {"nodeName": "gpu-0", "containers": [{"name": "c", "image": "test", "command": ["true"]}]},
    }  # fmt: skip
    nodes.api.create(PODS, body)
    nodes.output("after-old", "true")
    assert [o["status"] for _, o in nodes.history("old")] == [{"phase": "Failed"}]
    nodes.api.delete(f"{PODS}/old")
    nodes.api.wait(lambda: nodes.phase("old") == "gone")


def test_a_kubelet_says_how_it_is_configured(start: Callable[..., Nodes]) -> None:
    """Each node answers for itself by the Host of the request, as `/proxy/configz` of the API server asks."""
    nodes = start(
        topology_policy="restricted", nodes=[{"name": "gpu-0"}, {"name": "gpu-1", "topology_scope": "pod"}]
    )
    status, told = nodes.ask("gpu-1", "GET", "/configz")
    assert status == 200
    found = json.loads(told)["kubeletconfig"]
    assert (found["topologyManagerPolicy"], found["topologyManagerScope"]) == ("restricted", "pod")
    assert (
        json.loads(nodes.ask("gpu-0", "GET", "/configz")[1])["kubeletconfig"]["topologyManagerScope"]
        == "container"
    )
    assert nodes.ask("gpu-9", "GET", "/configz")[0] == 404


def test_a_restarted_node_refuses_what_held_its_devices(start: Callable[..., Nodes]) -> None:
    """Pods with devices end as Failed, UnexpectedAdmissionError; devices are offered once their plugin is back."""
    nodes = start()
    nodes.run("holds", "exec sleep 60", **gpus(3))
    nodes.wait_phase("holds", "Running")
    assert nodes.ask("gpu-0", "POST", "/reboot")[0] == 202
    status = nodes.wait_end("holds")
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert status["message"].startswith("Pod was rejected: Allocate failed due to no healthy devices present")

    def offered() -> list[str]:
        seen = [
            o["status"]["allocatable"]["nvidia.com/gpu"]
            for _, c, o in nodes.api.history
            if o["kind"] == "Node"
        ]
        return seen[-1:] if "0" in seen else []

    nodes.api.wait(lambda: offered() == ["8"])
    assert nodes.output("after", "echo $GPUCLUSTER_DEVICES", **gpus(1)).startswith("GPU-fake-")
    assert nodes.ask("gpu-9", "POST", "/reboot")[0] == 404


def test_devices_turn_unhealthy_while_the_node_runs(start: Callable[..., Nodes]) -> None:
    """What the plugin calls unhealthy is counted, not offered and not handed out, until it is healthy again."""
    nodes = start()

    def amounts() -> tuple[str, str]:
        states = [
            o["status"]
            for _, c, o in nodes.api.history
            if o["kind"] == "Node" and o["metadata"]["name"] == "gpu-0"
        ]
        return states[-1]["capacity"]["nvidia.com/gpu"], states[-1]["allocatable"]["nvidia.com/gpu"]

    assert nodes.ask("gpu-0", "PUT", "/unhealthy", ["GPU-fake-0", "GPU-fake-1"])[0] == 202
    nodes.api.wait(lambda: amounts() == ("8", "6"))
    said = nodes.output("rest", "echo $NVIDIA_VISIBLE_DEVICES", **gpus(6))
    assert not {"GPU-fake-0", "GPU-fake-1"} & set(said.strip().split(","))
    assert nodes.ask("gpu-0", "PUT", "/unhealthy", [])[0] == 202
    nodes.api.wait(lambda: amounts() == ("8", "8"))
    assert nodes.ask("gpu-9", "PUT", "/unhealthy", [])[0] == 404
