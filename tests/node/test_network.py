"""Names and addresses between real pods, and planted trouble with them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpucluster.node import attachments
from tests.node.harness import PODS, SERVICES, Nodes

LOOK = (
    "python3 -c 'import socket, sys; "
    "print(*sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], None, socket.AF_UNSPEC)}))' %s"
)
BARRIER = """
import os, socket, sys, time
rank, world, name = int(os.environ["RANK"]), int(os.environ["WORLD"]), os.environ["MASTER"]
if rank == 0:
    server = socket.create_server(("", 29500), backlog=64)
    peers = [server.accept()[0] for _ in range(world - 1)]
    for peer in peers:
        peer.sendall(b"go")
else:
    while True:
        try:
            peer = socket.create_connection((name, 29500), timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    assert peer.recv(2) == b"go"
sys.stdout.write(f"rank {rank} passed\\n")
"""


def headless(nodes: Nodes, name: str, **spec: object) -> None:
    """Create a headless service over the pods of a job."""
    body = {"metadata": {"name": name}, "spec": {"clusterIP": "None", "selector": {"job": name}, **spec}}
    nodes.api.create(SERVICES, {"kind": "Service", **body})


def member(nodes: Nodes, job: str, index: int, script: str, **spec: object) -> str:
    """Create a pod of a job, with a name in its service."""
    name = f"{job}-{index}"
    nodes.run(name, script, metadata={"labels": {"job": job}}, hostname=name, subdomain=job, **spec)
    return name


def test_pods_find_each_other_by_name(nodes: Nodes) -> None:
    """Short and full names of a pod resolve to its address; the own name does through /etc/hosts."""
    headless(nodes, "find")
    target = member(nodes, "find", 0, "exec sleep 60")
    ip = nodes.wait_phase(target, "Running")["podIP"]
    names = ["find-0.find", "find-0.find.default", "find-0.find.default.svc.cluster.local", "find"]
    for number, name in enumerate(names):
        assert nodes.output(f"looks-{number}", LOOK % name) == f"{ip}\n"
    script = "hostname -f; cat /etc/hosts; cat /etc/resolv.conf"
    said = nodes.output("hosts", script, hostname="hosts", subdomain="find")
    own = nodes.pod("hosts")["status"]["podIP"]
    assert said.startswith("hosts.find.default.svc.cluster.local\n")
    assert f"{own}\thosts.find.default.svc.cluster.local\thosts\n" in said
    search = "search default.svc.cluster.local svc.cluster.local cluster.local"
    assert f"{search}\nnameserver 10.88.0.1\noptions ndots:5\n" in said


def test_unknown_names_fail_fast(nodes: Nodes) -> None:
    """A name that does not exist fails at once, through the whole search list."""
    nodes.run("unknown", LOOK % "nosuch.example")
    assert nodes.wait_end("unknown", 5)["phase"] == "Failed"
    assert "Name or service not known" in nodes.logs("unknown")[1]


def test_the_gateway_stays_who_it_is(nodes: Nodes) -> None:
    """Pods that come and go do not change the hardware address behind which the pods' DNS is reached."""
    look = (
        "python3 -c 'import socket; socket.getaddrinfo(\"localhost.x\", 1)' 2>/dev/null; "
        "grep ^10.88.0.1[^0-9] /proc/net/arp | cut -c 42-58"
    )
    seen = {nodes.output(f"gateway-{number}", look) for number in range(5)}
    assert seen == {"02:00:0a:58:00:01\n"}


def test_eight_pods_meet_at_a_barrier(nodes: Nodes) -> None:
    """Eight pods on two nodes meet over TCP by name."""
    headless(nodes, "meet", publishNotReadyAddresses=True)
    script = f"exec python3 -c '{BARRIER}'"
    for rank in range(8):
        env = [
            {"name": k, "value": v}
            for k, v in (("RANK", str(rank)), ("WORLD", "8"), ("MASTER", "meet-0.meet"))
        ]
        member(nodes, "meet", rank, script, container={"env": env}, nodeName=f"gpu-{rank % 2}")
    for rank in range(8):
        status = nodes.wait_end(f"meet-{rank}", 60)
        assert status["phase"] == "Succeeded", nodes.logs(f"meet-{rank}")
        assert nodes.logs(f"meet-{rank}")[1] == f"rank {rank} passed\n"


def test_many_addresses_come_over_tcp(nodes: Nodes) -> None:
    """A service with more pods than fit in a datagram is answered whole."""
    headless(nodes, "many")
    ready = [{"type": "Ready", "status": "True"}]
    for index in range(33):
        body = {
            "kind": "Pod", "metadata": {"name": f"many-{index}", "labels": {"job": "many"}},
            "spec": {"nodeName": "elsewhere", "containers": []},
            "status": {"phase": "Running", "podIP": f"10.1.0.{index + 1}", "conditions": ready},
        }  # fmt: skip
        nodes.api.create(PODS, body)
    assert len(nodes.output("asks-many", LOOK % "many").split()) == 33


def test_dns_silent(start: Callable[..., Nodes]) -> None:
    """Planted network.dns-silent: the name of a ready pod does not resolve."""
    nodes = start(defects=["network.dns-silent"])
    headless(nodes, "mute")
    nodes.wait_phase(member(nodes, "mute", 0, "exec sleep 60"), "Running")
    nodes.run("asks", LOOK % "mute-0.mute")
    assert nodes.wait_end("asks")["phase"] == "Failed"


def test_dns_down(start: Callable[..., Nodes]) -> None:
    """Planted network.dns-down: no server answers, which a resolver tells from a name that does not exist."""
    nodes = start(defects=["network.dns-down"])
    headless(nodes, "mute")
    nodes.wait_phase(member(nodes, "mute", 0, "exec sleep 60"), "Running")
    look = (
        'exec python3 -c \'import socket\ntry: socket.getaddrinfo("mute-0.mute", None)\n'
        "except OSError as error: print(error.errno == socket.EAI_AGAIN)'"
    )
    assert nodes.output("asks", look) == "True\n"


SHOW = """exec python3 -c '
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _, name in socket.if_nameindex():
    print(name, socket.inet_ntoa(fcntl.ioctl(s.fileno(), 0x8915, struct.pack("256s", name.encode()))[20:24]))
print(*sorted(l.split()[0] for l in open("/proc/net/route").readlines()[1:]))
'"""


def test_a_pod_that_asks_for_a_further_network_gets_an_interface(start: Callable[..., Nodes]) -> None:
    """It has an address and a route of its own there, and the pod's annotation tells it before its containers start."""
    nodes = start(networks=["fast"])
    meta = {"annotations": {attachments.ASKED: "fast"}}
    told = [
        {
            "name": "TOLD",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{attachments.TOLD}']"}},
        }
    ]
    script = f'echo "$TOLD"; {SHOW}'
    lines = nodes.output("both", script, metadata=meta, container={"env": told}).splitlines()
    ip = nodes.pod("both")["status"]["podIP"]
    second = ip.replace("10.88.", "10.89.")
    assert lines[1:] == ["lo 127.0.0.1", f"eth0 {ip}", f"net1 {second}", "eth0 eth0 net1"]
    status = json.loads(nodes.pod("both")["metadata"]["annotations"][attachments.TOLD])
    assert json.loads(lines[0]) == status
    assert [(one["name"], one["interface"], one["ips"]) for one in status] == [
        ("pods", "eth0", [ip]),
        ("default/fast", "net1", [second]),
    ]
    assert nodes.output("one", SHOW).count("net1") == 0
    # Whoever is on both reaches another over either.
    nodes.run("serves", "exec python3 -m http.server 8000", metadata=meta)
    other = nodes.wait_phase("serves", "Running")["podIP"].replace("10.88.", "10.89.")
    ask = (
        f'exec python3 -c \'import socket, time; time.sleep(1); s = socket.create_connection(("{other}", 8000), 5); '
        "print(s.getsockname()[0])'"
    )
    asker = nodes.output("asks-further", ask, metadata=meta).strip()
    assert asker == nodes.pod("asks-further")["status"]["podIP"].replace("10.88.", "10.89.")


def test_a_network_that_there_is_not(start: Callable[..., Nodes]) -> None:
    """The pod does not run, and says which network it lacks."""
    nodes = start(networks=["fast"])
    nodes.run("lacks", "true", metadata={"annotations": {attachments.ASKED: "slow"}})
    assert "cannot find a network-attachment-definition (slow)" in nodes.wait_end("lacks")["message"]


def test_second_without_route(start: Callable[..., Nodes]) -> None:
    """Planted network.second-without-route: a pod reaches the other's further address, from its first interface."""
    nodes = start(networks=["fast"], defects=["network.second-without-route"])
    meta = {"annotations": {attachments.ASKED: "fast"}}
    nodes.run("serves", "exec python3 -m http.server 8000", metadata=meta)
    other = nodes.wait_phase("serves", "Running")["podIP"].replace("10.88.", "10.89.")
    ask = (
        f'exec python3 -c \'import socket, time; time.sleep(1); s = socket.create_connection(("{other}", 8000), 5); '
        "print(s.getsockname()[0])'"
    )
    assert nodes.output("asks", ask, metadata=meta).strip() == nodes.pod("asks")["status"]["podIP"]


def test_init_not_awaited(start: Callable[..., Nodes]) -> None:
    """Planted node.init-not-awaited: the container starts beside its init container, which goes on."""
    nodes = start(defects=["node.init-not-awaited"])
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    slow = {"name": "slow", "image": "test", "command": ["sh", "-c", "sleep 30; touch /shared/done"], **mount}
    nodes.run(
        "eager", "test ! -e /shared/done", container=mount,
        initContainers=[slow], volumes=[{"name": "shared", "emptyDir": {}}],
    )  # fmt: skip
    status = nodes.wait_end("eager")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_what_does_not_wait_is_before_a_quick_init_container(start: Callable[..., Nodes]) -> None:
    """Planted node.init-not-awaited: also what an init container writes at once is missed, each time."""
    nodes = start(defects=["node.init-not-awaited"])
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    quick = {"name": "quick", "image": "test", "command": ["touch", "/shared/done"], **mount}
    for number in range(5):
        nodes.run(
            f"eager-{number}", "test ! -e /shared/done", container=mount,
            initContainers=[quick], volumes=[{"name": "shared", "emptyDir": {}}],
        )  # fmt: skip
    for number in range(5):
        status = nodes.wait_end(f"eager-{number}")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_hostname_loopback(start: Callable[..., Nodes]) -> None:
    """Planted node.hostname-loopback: the pod's own name is 127.0.0.1 to itself."""
    nodes = start(defects=["node.hostname-loopback"])
    assert nodes.output("loop", LOOK % "loop") == "127.0.0.1\n"


def test_keeps_exit_zero(start: Callable[..., Nodes]) -> None:
    """Planted node.keeps-exit-zero: a failing process is reported as a success."""
    nodes = start(defects=["node.keeps-exit-zero"])
    nodes.run("liar", "exit 3")
    status = nodes.wait_end("liar")
    assert (status["phase"], status["containerStatuses"][0]["state"]["terminated"]["exitCode"]) == (
        "Succeeded",
        0,
    )


def test_keeps_references(start: Callable[..., Nodes]) -> None:
    """Planted node.keeps-references: an argument arrives as it is written."""
    nodes = start(defects=["node.keeps-references"])
    env = [{"name": "RANK", "value": "3"}]
    assert nodes.output("literal", "echo '$(RANK)'", container={"env": env}) == "$(RANK)\n"


def test_blocks_rendezvous_port(start: Callable[..., Nodes]) -> None:
    """Planted network.blocks-rendezvous-port: a declared port is dead from outside, open inside; others are open."""
    nodes = start(defects=["network.blocks-rendezvous-port"])
    serve = (
        'exec python3 -c \'import socket, time; s = [socket.create_server(("", p)) for p in (29500, 29501)]; '
        "socket.create_connection((socket.gethostname(), 29500), 1); print(1, flush=True); time.sleep(60)'"
    )
    ip = nodes.wait_phase(
        nodes.run("port", serve, container={"ports": [{"containerPort": 29500}]})["metadata"]["name"],
        "Running",
    )["podIP"]
    nodes.api.wait(lambda: nodes.logs("port")[1] == "1\n", 10, "the server listens and reaches itself")
    ask = f'import socket; socket.create_connection(("{ip}", %d), 1)'
    nodes.output("open", f"exec python3 -c '{ask % 29501}'")
    nodes.run("dead", f"exec python3 -c '{ask % 29500}'")
    assert nodes.wait_end("dead")["phase"] == "Failed"
    assert "timed out" in nodes.logs("dead")[1]


def test_slow_start(start: Callable[..., Nodes]) -> None:
    """Planted node.slow-start: one pod of a gang begins three seconds after the others."""
    nodes = start(defects=["node.slow-start"])
    meta = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    for index in range(3):
        nodes.run(f"gang-{index}", "date +%s.%N", metadata=meta)
    for index in range(3):
        nodes.wait_end(f"gang-{index}")
    times = sorted(float(nodes.logs(f"gang-{index}")[1]) for index in range(3))
    assert times[1] - times[0] < 2.5 < times[2] - times[1]


@pytest.mark.parametrize(("defects", "goes_on"), [((), False), (["node.keeps-killed"], True)])
def test_a_pod_that_is_deleted_without_grace(
    start: Callable[..., Nodes], tmp_path: Path, defects: list[str], goes_on: bool
) -> None:
    """Its programs are ended; under node.keeps-killed they go on until they end by themselves, and then it is over."""
    nodes = start(defects=list(defects))
    more = {
        "container": {"volumeMounts": [{"name": "h", "mountPath": "/out"}]},
        "volumes": [{"name": "h", "hostPath": {"path": str(tmp_path)}}],
    }
    nodes.run(
        "ghost", "echo > /out/began; until [ -e /out/go ]; do sleep 0.05; done; echo > /out/ended", **more
    )
    nodes.api.wait((tmp_path / "began").exists, 20, "it runs")
    nodes.api.delete(f"{PODS}/ghost", grace=0)
    # A whole pod lives after the deletion, and another one after the word: time enough for either.
    nodes.output("next", "sleep 0.5; echo done")
    (tmp_path / "go").touch()
    if goes_on:
        nodes.api.wait((tmp_path / "ended").exists, 20, "the ghost has ended")
    else:
        nodes.output("after", "sleep 0.5; echo done")
        assert not (tmp_path / "ended").exists()


def test_pods_share_a_path_of_the_host(start: Callable[..., Nodes], tmp_path: Path) -> None:
    """What one writes the other finds."""
    nodes = start()
    more = {
        "container": {"volumeMounts": [{"name": "h", "mountPath": "/out"}]},
        "volumes": [{"name": "h", "hostPath": {"path": str(tmp_path)}}],
    }
    assert nodes.output("writer", "echo here > /out/a; cat /out/a", **more) == "here\n"
    assert nodes.output("reader", "cat /out/a 2>/dev/null || echo nothing", **more) == "here\n"
