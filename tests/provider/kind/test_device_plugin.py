"""The fake GPU device plugin against the device manager's side of the API, over real gRPC."""

import http.server
import json
import os
import pathlib
import queue
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from payloads import device_plugin as plugin
from tests.provider.kind.fake_kubelet import FakeKubelet

GPU = "nvidia.com/gpu"
EIGHT = {"count": 8, "numa": [0, 0, 0, 0, 1, 1, 1, 1]}
REPOSITORY = pathlib.Path(__file__).parents[3]


class Running:
    """The plugin as a process of its own, its settings in a file."""

    def __init__(self, folder: pathlib.Path, **settings: Any) -> None:
        """Start it."""
        self._file = folder / "settings.json"
        self.ready = folder / "ready"
        self.set(**settings)
        (folder / "plugins").mkdir(exist_ok=True)
        arguments = [f"--settings={self._file}", f"--folder={folder / 'plugins'}", f"--ready={self.ready}"]
        self.process = subprocess.Popen(
            [sys.executable, REPOSITORY / "payloads" / "device_plugin.py", *arguments, "--node=n1"],
            stdout=subprocess.PIPE,
            text=True,
        )

    def set(self, **documents: Any) -> None:
        """Write other settings, in one step."""
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(documents))
        beside.replace(self._file)

    def end(self) -> str:
        """End it; returns what it said."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=20)[0]


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """A folder whose sockets have short paths."""
    with tempfile.TemporaryDirectory(prefix="gpc-") as name:
        (pathlib.Path(name) / "plugins").mkdir()
        yield pathlib.Path(name)


@pytest.fixture
def kubelet(folder: pathlib.Path) -> Iterator[FakeKubelet]:
    """A kubelet that is there before the plugin."""
    fake = FakeKubelet(folder / "plugins")
    yield fake
    fake.close()


@pytest.fixture
def running(folder: pathlib.Path, kubelet: FakeKubelet) -> Iterator[Running]:
    """The plugin with eight devices on two NUMA nodes."""
    each = Running(folder, default={GPU: EIGHT})
    yield each
    if each.process.poll() is None:
        each.end()


def test_it_registers_and_tells_numa_nodes(kubelet: FakeKubelet, running: Running) -> None:
    """What a kubelet learns of healthy devices on two NUMA nodes."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    (registered,) = kubelet.registrations
    assert registered["resource_name"] == GPU
    assert registered["answered"] == {
        "pre_start_required": False,
        "get_preferred_allocation_available": False,
    }
    told = kubelet.devices[GPU]
    assert [d["topology"]["nodes"][0]["ID"] for d in told] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert len({d["ID"] for d in told}) == 8
    assert all(len(d["ID"]) <= 63 for d in told)


def test_allocation_names_the_devices_and_their_numa_nodes(kubelet: FakeKubelet, running: Running) -> None:
    """Each container learns its own devices."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    first, second = kubelet.allocate(GPU, ["GPU-n1-3", "GPU-n1-4"], ["GPU-n1-7"])
    assert first["NVIDIA_VISIBLE_DEVICES"] == "GPU-n1-3,GPU-n1-4"
    assert first["GPUCLUSTER_DEVICES"] == "GPU-n1-3@0,GPU-n1-4@1"
    assert second["GPUCLUSTER_DEVICES"] == "GPU-n1-7@1"


def test_each_gpu_has_a_file_that_leads_nowhere(kubelet: FakeKubelet, running: Running) -> None:
    """Containers can open what they were given, and nothing else; adapters have none."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    (one,) = kubelet.allocated(GPU, ["GPU-n1-3"])
    file = {"container_path": "/dev/gpucluster/GPU-n1-3", "host_path": "/dev/null", "permissions": "rw"}
    assert one["devices"] == [file]


def test_count_and_health_change_in_flight(kubelet: FakeKubelet, running: Running) -> None:
    """The same registration tells the new devices: no restart, no new stream."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    running.set(default={GPU: {**EIGHT, "unhealthy": [3]}})
    kubelet.wait("one is sick", lambda k: (k.capacity(GPU), k.healthy(GPU)) == (8, 7))
    assert kubelet.devices[GPU][3]["health"] == "Unhealthy"
    running.set(default={GPU: {"count": 7}})
    kubelet.wait("seven devices", lambda k: (k.capacity(GPU), k.healthy(GPU)) == (7, 7))
    assert all(device["topology"] is None for device in kubelet.devices[GPU])
    assert len(kubelet.registrations) == 1


def test_one_node_has_settings_of_its_own(folder: pathlib.Path, kubelet: FakeKubelet) -> None:
    """A node that is short of one GPU, beside others that are not."""
    running = Running(folder, default={GPU: EIGHT}, n1={GPU: {"count": 7}})
    kubelet.wait("seven devices", lambda k: k.healthy(GPU) == 7)
    running.end()


def test_several_resources_and_one_that_goes(kubelet: FakeKubelet, running: Running) -> None:
    """Each resource has its own socket; one that is withdrawn has no stream any longer."""
    running.set(default={GPU: EIGHT, "rdma/hca": {"count": 2, "numa": [0, 1]}})
    kubelet.wait("two adapters", lambda k: k.healthy("rdma/hca") == 2)
    ids = [device["ID"] for device in kubelet.devices["rdma/hca"]]
    assert kubelet.allocate("rdma/hca", ids[:1]) == [{"GPUCLUSTER_DEVICES_HCA": "HCA-n1-0@0"}]
    running.set(default={GPU: EIGHT})
    kubelet.wait("no adapters", lambda k: k.capacity("rdma/hca") == 0)
    assert kubelet.healthy(GPU) == 8


def test_a_kubelet_that_starts_again_gets_the_devices_again(
    folder: pathlib.Path, kubelet: FakeKubelet, running: Running
) -> None:
    """It removes every socket; the plugin serves and registers anew."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    kubelet.close()
    again = FakeKubelet(folder / "plugins")
    try:
        again.wait("eight devices", lambda k: k.healthy(GPU) == 8)
        assert again.allocate(GPU, ["GPU-n1-0"])[0]["NVIDIA_VISIBLE_DEVICES"] == "GPU-n1-0"
        assert len(again.registrations) == 1
    finally:
        again.close()


def test_a_plugin_that_is_there_before_the_kubelet_waits(folder: pathlib.Path) -> None:
    """No kubelet: nothing is registered, and nothing fails."""
    running = Running(folder, default={GPU: EIGHT})
    late = FakeKubelet(folder / "plugins")
    late.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    late.close()
    running.end()


def test_settings_that_cannot_be_played_are_said_and_change_nothing(
    kubelet: FakeKubelet, running: Running
) -> None:
    """One line says what is wrong where; devices stay as they are."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    running.set(default={GPU: {"count": 4, "numa": [0]}})
    running.set(default={GPU: {**EIGHT, "unhealthy": [0]}})
    kubelet.wait("one is sick", lambda k: (k.capacity(GPU), k.healthy(GPU)) == (8, 7))
    said = running.end()
    assert '"event":"registered","pod"' in said


def test_it_ends_when_asked_and_takes_its_socket_along(
    folder: pathlib.Path, kubelet: FakeKubelet, running: Running
) -> None:
    """TERM ends it at once; the kubelet sees the stream end."""
    kubelet.wait("eight devices", lambda k: k.healthy(GPU) == 8)
    running.end()
    assert running.process.returncode == 0
    kubelet.wait("no devices", lambda k: k.capacity(GPU) == 0)
    assert [path.name for path in (folder / "plugins").iterdir()] == ["kubelet.sock"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("[]", "default: an object of resources is needed"),
        ("{", "default: no JSON"),
        ('{"a/gpu": {"cuont": 8}}', "default: a/gpu: allowed are count, numa, unhealthy; not cuont"),
        ('{"a/gpu": {"count": -1}}', "count is a whole number of 0 or more, not -1"),
        ('{"a/gpu": {"count": 2, "numa": [0]}}', "numa has one entry for each of the 2 devices"),
        ('{"a/gpu": {"count": 1, "numa": [-1]}}', "numa holds numbers of NUMA nodes"),
        ('{"a/gpu": {"count": 2, "unhealthy": [2]}}', "unhealthy holds places of devices, 0 to 1"),
    ],
)
def test_mistakes_in_settings(wanted: str, said: str) -> None:
    """The line names the document, the resource and what is allowed."""
    with pytest.raises(plugin.SettingsError, match=re.escape(said)):
        plugin.read_settings({"default": wanted}, "n1")


def test_a_node_without_settings_has_nothing() -> None:
    """Neither its own name nor `default`."""
    assert plugin.read_settings({"other": '{"a/gpu": {"count": 1}}'}, "n1") == {}


# --- messages ---


TEXT = st.text(max_size=20)
DEVICE = st.fixed_dictionaries(
    {
        "ID": TEXT,
        "health": TEXT,
        "topology": st.none()
        | st.fixed_dictionaries(
            {"nodes": st.lists(st.fixed_dictionaries({"ID": st.integers(-(2**63), 2**63 - 1)}), max_size=3)}
        ),
    }
)


@settings(deadline=None)
@given(st.lists(DEVICE, max_size=10))
def test_devices_come_back_as_they_were(devices: list[dict[str, Any]]) -> None:
    """Written and read."""
    message = {"devices": devices}
    assert plugin.decode(plugin.DEVICES, plugin.encode(plugin.DEVICES, message)) == message


@settings(deadline=None)
@given(st.lists(st.dictionaries(TEXT, TEXT, max_size=4), max_size=3))
def test_maps_come_back_as_they_were(envs: list[dict[str, str]]) -> None:
    """Written and read."""
    message = {"container_responses": [{"envs": each, "devices": []} for each in envs]}
    assert plugin.decode(plugin.ALLOCATED, plugin.encode(plugin.ALLOCATED, message)) == message


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No other error, and no endless loop."""
    for message in (plugin.DEVICES, plugin.ALLOCATE, plugin.ALLOCATED, plugin.REGISTER):
        try:
            plugin.decode(message, raw)
        except (plugin.WireError, UnicodeDecodeError):
            continue


@pytest.mark.parametrize(
    ("message", "values", "raw"),
    [
        # As the Go library writes them.
        (
            plugin.REGISTER,
            {"version": "v1beta1", "endpoint": "a.sock", "resource_name": "nvidia.com/gpu"},
            b"\n\x07v1beta1\x12\x06a.sock\x1a\x0envidia.com/gpu",
        ),
        (
            plugin.DEVICES,
            {"devices": [{"ID": "a", "health": "Healthy", "topology": {"nodes": [{"ID": 0}, {"ID": 1}]}}]},
            b"\n\x14\n\x01a\x12\x07Healthy\x1a\x06\n\x00\n\x02\x08\x01",
        ),
        (plugin.TOPOLOGY, {"nodes": [{"ID": -1}]}, b"\n\x0b\x08" + b"\xff" * 9 + b"\x01"),
        (
            plugin.ALLOCATED,
            {"container_responses": [{"envs": {"A": "1"}}]},
            b"\n\x08\n\x06\n\x01A\x12\x011",
        ),
        (plugin.OPTIONS, {"pre_start_required": True}, b"\x08\x01"),
    ],
)
def test_bytes_are_those_of_protobuf(message: plugin.Message, values: dict[str, Any], raw: bytes) -> None:
    """Defaults are left out, an empty message is a length of zero, negative numbers take ten bytes."""
    assert plugin.encode(message, values) == raw


def test_unknown_fields_are_passed_over() -> None:
    """A newer kubelet may say more, in each of the wire types."""
    more = b"\x50\x05" + b"\x59" + bytes(8) + b"\x62\x02hi" + b"\x6d" + bytes(4)
    raw = plugin.encode(plugin.ALLOCATE, {"container_requests": [{"devices_ids": ["a"]}]}) + more
    assert plugin.decode(plugin.ALLOCATE, raw) == {"container_requests": [{"devices_ids": ["a"]}]}


def test_the_program_needs_nothing_of_ours() -> None:
    """It is mounted alone into an image that has never heard of this package."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "-P", REPOSITORY / "payloads" / "device_plugin.py", "--help"],
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        check=True,
    )
    assert "--config-map" in told.stdout


# --- settings from the API ---


class FakeApi:
    """Serves the watch of one ConfigMap over TLS: the states it is given, then silence until it is closed."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Listen, and lay a service account into a folder."""
        self.asked: list[tuple[str, str]] = []
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.status = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                self.send_response(outer.status)
                self.end_headers()
                while outer.status == 200 and (event := outer.events.get()) is not None:
                    self.wfile.write(json.dumps(event).encode() + b"\n")

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        (folder / "token").write_text("secret-of-the-account\n")
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def tell(self, kind: str, data: dict[str, str]) -> None:
        """Send one event of the watch."""
        self.events.put({"type": kind, "object": {"data": data}})

    def close(self) -> None:
        """End the watch and the server."""
        self.events.put(None)
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def api(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """An API server as a pod knows it."""
    fake = FakeApi(tmp_path)
    monkeypatch.setattr(plugin, "ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(fake.port))
    yield fake
    fake.close()


def test_settings_are_watched_and_a_watch_that_ends_is_begun_again(api: FakeApi) -> None:
    """One request tells what is there and what comes; its end is no end of the settings."""
    stop = threading.Event()
    told = plugin.from_api("gpucluster-system/fake-gpus-settings", stop)
    api.tell("ADDED", {"default": "{}"})
    assert next(told) == {"default": "{}"}
    api.tell("BOOKMARK", {})
    api.tell("MODIFIED", {"n1": "{}"})
    assert next(told) == {"n1": "{}"}
    api.events.put(None)
    api.tell("ADDED", {"n2": "{}"})
    assert next(told) == {"n2": "{}"}
    stop.set()
    path, token = api.asked[0]
    assert path.startswith("/api/v1/namespaces/gpucluster-system/configmaps?watch=1")
    assert "fieldSelector=metadata.name%3Dfake-gpus-settings" in path
    assert token == "Bearer secret-of-the-account"
    assert len(api.asked) == 2


def test_an_api_that_refuses_is_said_once_and_asked_again(
    api: FakeApi, capfd: pytest.CaptureFixture[str]
) -> None:
    """The role is not there yet when the pod starts: no settings, one line, no end."""
    stop = threading.Event()
    api.status = 403
    found: list[Any] = []

    def follow() -> None:
        found.extend(plugin.from_api("ns/settings", stop))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    ends = time.monotonic() + 10
    while len(api.asked) < 3 and time.monotonic() < ends:
        time.sleep(0.05)
    stop.set()
    thread.join(10)
    assert len(api.asked) >= 3
    assert found == []
    said = capfd.readouterr().out
    assert said.count("the API answers 403") == 1
