"""Payloads of elastic jobs: what is asked before an agent starts, and training that does not depend on its world."""

import http.server
import json
import os
import pathlib
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from payloads import elastic_client

FOLDER = pathlib.Path(elastic_client.__file__).parent
CLIENT = FOLDER / "elastic_client.py"


def asked(backend: str, endpoint: str, code: int, within: float = 0.3) -> dict[str, object]:
    """Run the program as a worker does and return what it says of the store, or of the image where it asks no store."""
    done = subprocess.run(
        [sys.executable, str(CLIENT), backend, endpoint, f"--within={within}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert (endpoint in done.stderr) is (code == 4)
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1].partition("GPUCONF1 ")[2])
    return told


class _Etcd(http.server.BaseHTTPRequestHandler):
    """Answers like an etcd."""

    answers: dict[str, tuple[int, str]] = {}  # noqa: RUF012 - each test has a class of its own

    def do_GET(self) -> None:
        """Answer."""
        code, text = self.answers.get(self.path, (404, "404 page not found"))
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
        """Say nothing."""


@pytest.fixture
def serve() -> Iterator[object]:
    """Return a function that lets a handler answer at a port of this machine."""
    servers: list[socketserver.BaseServer] = []

    def start(handler: type[socketserver.BaseRequestHandler]) -> str:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def etcd(**answers: tuple[int, str]) -> type[_Etcd]:
    """Return the handler of an etcd with some answers."""
    paths = {"version": "/version", "keys": "/v2/keys/"}
    return type("Etcd", (_Etcd,), {"answers": {paths[name]: answer for name, answer in answers.items()}})


VERSION = (200, '{"etcdserver":"3.6.4","etcdcluster":"3.6.0"}')


@pytest.mark.parametrize(
    ("answers", "kind", "text"),
    [
        ({"version": VERSION}, "no-v2", "etcd 3.6.4 answered 404"),
        ({"version": (200, "<html>welcome</html>")}, "garbage", "/version"),
        ({"version": VERSION, "keys": (200, "hello")}, "garbage", "/v2/keys"),
        ({"version": VERSION, "keys": (503, "busy")}, "garbage", "503"),
    ],
)
def test_a_store_that_is_no_etcd_for_torch_is_told(serve, answers, kind, text, monkeypatch):
    """Each in its own word; an etcd without the v2 API with its version."""
    monkeypatch.setattr(elastic_client, "IMPORTED", {})
    endpoint = serve(etcd(**answers))
    host, _, port = endpoint.rpartition(":")
    with pytest.raises(elastic_client.UnusableError, match=text) as caught:
        elastic_client.etcd(host, int(port))
    assert caught.value.kind == kind


def test_an_etcd_with_the_v2_api_is_good(serve):
    """Its version is told."""
    host, _, port = serve(etcd(version=VERSION, keys=(200, '{"action":"get"}'))).rpartition(":")
    assert elastic_client.etcd(host, int(port)) == "3.6.4"


class _Babble(socketserver.BaseRequestHandler):
    """Answers anything with what no store says."""

    def handle(self) -> None:
        """Babble."""
        self.request.recv(64)
        self.request.sendall(b"SSH-2.0-other\r\n")


def test_what_is_no_tcp_store_is_told(serve):
    """Something else listens at the port: told at once, not after the time for a store that is not there yet."""
    told = asked("c10d-store-pod", serve(_Babble), 4, within=30)
    assert (told["ok"], told["kind"], told["tries"]) == (False, "garbage", 1)


def test_a_store_that_is_not_there_is_waited_for_and_then_told():
    """Nobody listens; and a name that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    told = asked("c10d-store-pod", f"127.0.0.1:{free}", 4)
    assert (told["kind"], told["ok"]) == ("unreachable", False)
    assert isinstance(told["tries"], int)
    assert told["tries"] > 1
    assert asked("c10d-store-pod", "nobody.invalid:29400", 4)["kind"] == "unresolved"


def test_a_store_inside_a_worker_is_not_asked():
    """It starts with the agent of that worker."""
    assert asked("c10d", "nobody.invalid:29400", 0)["event"] == "elastic-client"


def test_an_image_without_the_client_is_told(monkeypatch, capfdbinary):
    """What cannot be imported, whatever the import raises."""
    monkeypatch.setattr(elastic_client, "IMPORTED", {"etcd-v2": ("json", "no_such_client")})
    monkeypatch.setenv("GPUCLUSTER_POD", "w")
    assert elastic_client.image("etcd-v2") is False
    told = json.loads(capfdbinary.readouterr().out.partition(b"GPUCONF1 ")[2])
    assert list(told["missing"]) == ["no_such_client"]
    assert "ModuleNotFoundError" in told["missing"]["no_such_client"]


@pytest.mark.long
def test_torch_of_this_machine_is_greeted_as_its_store_expects():
    """The greeting of TCPStore is torch's own matter: a release that changes it is found here."""
    store = [sys.executable, str(FOLDER / "elastic_store.py"), "--port=0"]
    with subprocess.Popen(store, stdout=subprocess.PIPE, text=True, env={**os.environ}) as serving:
        assert serving.stdout is not None
        line = serving.stdout.readline()
        port = json.loads(line.partition("GPUCONF1 ")[2])["port"]
        assert asked("c10d-store-pod", f"127.0.0.1:{port}", 0, within=5)["ok"] is True
        serving.terminate()
        assert serving.wait(20) == 0


@pytest.mark.long
def test_a_step_does_not_depend_on_the_size_of_the_world(tmp_path):
    """The losses of worlds of any size are those of one process, and a checkpoint gives back what was saved."""
    torch = pytest.importorskip("torch")
    from payloads import elastic_train

    alone = elastic_train.Model(torch)
    worlds = {size: elastic_train.Model(torch) for size in (1, 2, 3, 4)}
    for _ in range(5):
        loss = alone.step(alone.part(0, 1))
        for size, model in worlds.items():
            summed = sum(model.part(rank, size) for rank in range(size))
            assert model.step(summed) == pytest.approx(loss, rel=1e-12)
    kept = elastic_train.Checkpoint(torch, str(tmp_path), "job")
    assert kept.load() == (0, None)
    assert kept.save(5, alone.weights)
    (tmp_path / "job" / "newest.unfinished").write_bytes(b"cut off")
    steps, weights = kept.load()
    assert steps == 5
    assert torch.equal(weights, alone.weights)
    assert elastic_train.Checkpoint(torch, "", "job").save(1, alone.weights) is False
