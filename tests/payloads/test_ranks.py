"""Payloads of two Jobs, of what comes before a launcher, and of a second interface: each as a pod runs it."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from payloads import ready, secondary_interface

FOLDER = pathlib.Path(ready.__file__).parent


def lines(
    program: str, *args: str, env: dict[str, str] | None = None, code: int = 0
) -> list[dict[str, object]]:
    """Run a payload and return what it said."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / program), *args],
        capture_output=True, text=True, timeout=110, check=False, env={**os.environ, **(env or {})},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    told = [line.partition("GPUCONF1 ")[2] for line in done.stdout.splitlines()]
    assert all(told), done.stdout
    assert all(len(line) < 4000 for line in told)
    return [json.loads(line) for line in told]


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_peer_answers_by_refusing_and_by_taking_a_connection() -> None:
    """Either crosses the network both ways."""
    port = free_port()
    _, gate = lines("ready.py", "network", "localhost", "--interface=lo", f"--port={port}", "--within=5")
    assert gate["ok"] is True
    assert gate["peers"]["localhost"]["answer"] == "refused"
    with socket.create_server(("127.0.0.1", port)):
        _, gate = lines("ready.py", "network", "localhost", f"--port={port}", "--within=5")
    assert gate["peers"]["localhost"]["answer"] == "open"


def test_a_wait_in_vain_ends_in_time_and_names_what_it_lacks() -> None:
    """An interface that is not there, and a peer that nobody knows."""
    _, gate = lines("ready.py", "network", "--interface=wg-none0", "--within=0.3", code=5)
    assert gate["interface"]["state"] == "absent"
    assert "wg-none0" in gate["error"]
    _, gate = lines("ready.py", "network", "nobody.invalid", "--within=0.5", code=5)
    assert "nobody.invalid" in gate["error"]
    assert gate["seconds"] < 5


def test_labels_that_cannot_be_read_are_empty_variables(tmp_path: pathlib.Path) -> None:
    """The file has a line for each, and a shell can source it; the launcher finds them exported."""
    target = tmp_path / "env"
    env = {
        "NODE_NAME": "n",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(free_port()),
    }
    keys = ("kubernetes.io/hostname", "nvidia.com/gpu.product")
    (told,) = lines("ready.py", "labels", *keys, f"--file={target}", env=env)
    assert told["ok"] is False
    assert told["error"]
    assert target.read_text() == "NODE_HOSTNAME=''\nNODE_GPU_PRODUCT=''\n"
    target.write_text("NODE_HOSTNAME=gpu-0\nNODE_GPU_PRODUCT=''\n")
    script = f"set -a; . {target}; set +a; exec {sys.executable} {FOLDER / 'ready.py'} launch"
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    env_of_launcher = json.loads(said.partition("GPUCONF1 ")[2])["env"]
    assert env_of_launcher["NODE_HOSTNAME"] == "gpu-0"
    assert env_of_launcher["NODE_GPU_PRODUCT"] == ""


def test_a_pod_without_the_interface_says_what_it_has() -> None:
    """And ends at once, with a code of its own."""
    (told,) = lines(
        "secondary_interface.py", "--interface=net-none", "--first=localhost", "--members=2", code=5
    )
    assert told["ok"] is False
    assert told["has"]["lo"] == "127.0.0.1"


def test_a_connection_is_seen_with_both_ends() -> None:
    """As the kernel writes them."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        other, _ = server.accept()
        with other:
            found = list(secondary_interface.connections(os.getpid()))
            assert (*one.getsockname(), *one.getpeername()) in found
            assert (*one.getpeername(), *one.getsockname()) in found


@pytest.mark.slow
def test_a_world_of_one_trains_as_one_process() -> None:
    """It is launcher and rank, exchanges its nonce with itself, and agrees with itself to the last bit."""
    pytest.importorskip("torch", reason="the payload computes with torch")
    endpoint = f"127.0.0.1:{free_port()}"
    began, exchanged, stepped = lines(
        "ranks.py", "--nodes=1", "--id=alone", f"--endpoint={endpoint}", "--train"
    )
    assert began["id"] == exchanged["id"] == "alone"
    assert exchanged["got"] == [[0, exchanged["nonce"]]]
    assert exchanged["store"] == ["127.0.0.1"]
    assert stepped["ddp"]["losses"] == stepped["fsdp"]["losses"] == stepped["reference"]
    assert stepped["fsdp"]["own"] == stepped["fsdp"]["of"]
    assert stepped["moved"] > 1e-3


@pytest.mark.slow
def test_what_is_no_number_is_told_as_text() -> None:
    """JSON has neither NaN nor infinity."""
    pytest.importorskip("torch", reason="the payload computes with torch")
    from payloads import ranks

    assert [ranks.plain(value) for value in (1.5, float("nan"), float("inf"))] == [1.5, "nan", "inf"]


@pytest.mark.parametrize(("gpus", "method"), [(True, "spawn"), (False, "fork")])
@pytest.mark.parametrize("program", ["ranks", "secondary_interface"])
def test_ranks_of_gpus_are_not_forked_from_a_launcher_that_opened_the_driver(
    program: str, gpus: bool, method: str
) -> None:
    """Seen on two H200: "Cannot re-initialize CUDA in forked subprocess", and both Jobs of RDZV-005 failed."""
    code = f"""
import sys, types
sys.path.insert(0, {str(FOLDER)!r})
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_available=lambda: {gpus})
api = types.ModuleType("torch.distributed.launcher.api")
api.LaunchConfig = lambda **how: print(how["start_method"]) or how
api.elastic_launch = lambda config, work: lambda *arguments: None
for name in ("torch", "torch.distributed", "torch.distributed.launcher"):
    sys.modules[name] = torch if name == "torch" else types.ModuleType(name)
sys.modules[api.__name__] = api
import {program}
options = types.SimpleNamespace(nodes=2, id="x", within=1, endpoint="a:1", train=False)
options.__dict__.update(index=0, members=2, port=1, interface="eth0", first="a", run="x")
{program}.launch(*((options,) if "{program}" == "ranks" else (options, "192.0.2.1", "192.0.2.1")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [method]), done.stderr
