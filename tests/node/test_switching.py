"""Defects of nodes that run: put in force, and out of force again; refused where nobody asked for such nodes."""

import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.node.harness import PODS, Nodes, UnixConnection

GPU = "nvidia.com/gpu"
HOSTS = "cat /etc/hosts"


def switch(nodes: Nodes, *names: Any) -> tuple[int, str]:
    """Ask for exactly these defects; return status and body."""
    connection = UnixConnection(nodes.ready["kubelet_socket"])
    connection.request("PUT", "/defects", json.dumps(list(names)))
    answer = connection.getresponse()
    body = answer.read().decode().strip()
    connection.close()
    return answer.status, body


def offered(nodes: Nodes) -> list[tuple[str, str]]:
    """Return GPUs in capacity and in allocatable of each node."""
    found = [nodes.api.get(f"/api/v1/nodes/{name}") or {} for name in nodes.ready["nodes"]]
    return [(node["status"]["capacity"][GPU], node["status"]["allocatable"][GPU]) for node in found]


def test_machines_begin_anew_with_what_they_then_have(start: Callable[..., Nodes]) -> None:
    """Devices, topology policy and what kubelets say follow a switch, and are as at the start after the next one."""
    nodes = start(switchable=True)
    sound = offered(nodes)
    assert switch(nodes, "node.short-one-gpu", "node.topology-none") == (
        http.client.OK,
        '["node.short-one-gpu", "node.topology-none"]',
    )
    assert offered(nodes) == [*sound[:-1], ("7", "7")]
    assert switch(nodes, "node.device-unhealthy")[0] == http.client.OK
    assert offered(nodes) == [*sound[:-1], ("8", "7")]
    assert switch(nodes) == (http.client.OK, "[]")
    assert offered(nodes) == sound


def test_pods_that_come_afterwards_see_it(start: Callable[..., Nodes]) -> None:
    """What is asked when a pod starts or resolves a name is asked of the defects in force then."""
    nodes = start(switchable=True)

    def alone(name: str) -> bool:
        said = nodes.output(name, HOSTS)
        nodes.api.delete(f"/api/v1/namespaces/default/pods/{name}", grace=0)
        return f"127.0.0.1\t{name}" in said

    assert not alone("before")
    assert switch(nodes, "node.hostname-loopback")[0] == http.client.OK
    assert alone("planted")
    assert switch(nodes)[0] == http.client.OK
    assert not alone("after")


def test_what_cannot_be_switched_is_refused_in_one_line(start: Callable[..., Nodes]) -> None:
    """Unknown names, defects that decide what is started, pods that are still there; nothing changes."""
    nodes = start(switchable=True)
    sound = offered(nodes)
    code, said = switch(nodes, "node.short-one-gp")
    assert code == http.client.BAD_REQUEST
    assert said.startswith(
        "unknown defect 'node.short-one-gp' of the nodes; did you mean 'node.short-one-gpu'?"
    )
    assert "\n" not in said
    assert switch(nodes, "node.short-one-gpu", "network.dns-down") == (
        http.client.BAD_REQUEST,
        "defect 'network.dns-down' changes the start of the cluster: it needs its own cluster",
    )
    nodes.run("stays", "exec sleep 60")
    nodes.wait_phase("stays", "Running")
    assert switch(nodes, "node.short-one-gpu") == (
        http.client.BAD_REQUEST,
        "defects are switched on nodes without pods, these have default/stays",
    )
    assert offered(nodes) == sound


def test_a_pod_that_ends_slowly_is_waited_for(start: Callable[..., Nodes]) -> None:
    """A pod that is being deleted and takes a while for it holds a switch up, and does not refuse it."""
    nodes = start(switchable=True)
    nodes.run("slow", "trap 'sleep 2; exit 0' TERM; while :; do sleep 0.1; done")
    nodes.wait_phase("slow", "Running")
    nodes.api.delete("/api/v1/namespaces/default/pods/slow", grace=20)
    assert switch(nodes, "node.short-one-gpu")[0] == http.client.OK


def test_a_pod_that_a_defect_keeps_ends_with_a_switch(start: Callable[..., Nodes]) -> None:
    """What goes on running after its object is gone, as planted, does not outlive the next switch."""
    nodes = start(switchable=True, defects=["node.keeps-killed"])
    nodes.run("kept", "exec sleep 600")
    nodes.wait_phase("kept", "Running")
    nodes.api.delete(f"{PODS}/kept", grace=0)
    assert switch(nodes)[0] == http.client.OK


def test_a_pod_whose_end_is_told_late_is_waited_for(start: Callable[..., Nodes]) -> None:
    """A pod that is gone from the API server holds a switch up until its watch says so, as on a busy machine."""
    nodes = start(switchable=True)
    nodes.run("gone", "exec sleep 60")
    nodes.wait_phase("gone", "Running")
    path = f"{PODS}/gone"
    with ThreadPoolExecutor(1) as pool:
        with nodes.api.late():
            nodes.api.delete(path, grace=0)
            switching = pool.submit(switch, nodes, "node.short-one-gpu")
            nodes.api.wait(lambda: ("GET", path) in nodes.api.requests, what="the pod is asked for")
            assert not switching.done()
        assert switching.result(30)[0] == http.client.OK


def test_nodes_of_a_run_take_no_switch(nodes: Nodes) -> None:
    """Without the key `switchable` there is nothing to ask."""
    assert switch(nodes, "node.short-one-gpu")[0] == http.client.NOT_FOUND
