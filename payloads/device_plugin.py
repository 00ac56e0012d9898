"""A kubelet device plugin for devices that are not there: count, NUMA nodes and health can change while it runs.

Standard library and grpcio. It says what a real plugin says to a kubelet (device plugin API v1beta1) and hands out
names instead of devices: NVIDIA_VISIBLE_DEVICES, and GPUCLUSTER_DEVICES, which tells each device's NUMA node
(`GPU-worker-0@0,GPU-worker-1@1`). Its lines begin as those of `lines.py`; it belongs to no run, so they name none.

Settings are JSON, one document a node, kept in a ConfigMap under the node's name, or `default` for all that are not
named: `{"nvidia.com/gpu": {"count": 8, "numa": [0, 0, 0, 0, 1, 1, 1, 1], "unhealthy": [3]}}`. Without `numa` the
plugin tells no topology. They come from the API (`--config-map NAMESPACE/NAME`, watched: a change arrives at once,
where a mounted ConfigMap takes a minute) or from a file that holds all documents by name (`--settings FILE`).

Messages are written here by hand: they are few, small and frozen, and generated code would have to match the version
of the library in the image.
"""

import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

VERSION = "v1beta1"
FOLDER = "/var/lib/kubelet/device-plugins"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TICK = 0.2
"""Seconds between two looks at the kubelet's socket and our own."""


def say(event: str, **fields: object) -> None:
    """Write one event as one line in one write of less than 4096 bytes."""
    told = {"event": event, "pod": socket.gethostname(), "t": time.time(), **fields}
    os.write(1, f"GPUCONF1 {json.dumps(told, separators=(',', ':'))[:4000]}\n".encode())


# --- messages -------------------------------------------------------------------------------------------------------

Message = Mapping[int, tuple[str, Any]]
"""Number of a field -> its name, and `text`, `flag`, `number`, `texts` (a map), a message, or a list of one."""

EMPTY: Message = {}
OPTIONS: Message = {1: ("pre_start_required", "flag"), 2: ("get_preferred_allocation_available", "flag")}
REGISTER: Message = {
    1: ("version", "text"), 2: ("endpoint", "text"), 3: ("resource_name", "text"), 4: ("options", OPTIONS),
}  # fmt: skip
TOPOLOGY: Message = {1: ("nodes", [{1: ("ID", "number")}])}
DEVICE: Message = {1: ("ID", "text"), 2: ("health", "text"), 3: ("topology", TOPOLOGY)}
DEVICES: Message = {1: ("devices", [DEVICE])}
ALLOCATE: Message = {1: ("container_requests", [{1: ("devices_ids", ["text"])}])}
FILE: Message = {1: ("container_path", "text"), 2: ("host_path", "text"), 3: ("permissions", "text")}
ALLOCATED: Message = {1: ("container_responses", [{1: ("envs", "texts"), 3: ("devices", [FILE])}])}
STAND_INS = "/dev/gpucluster"
"""Folder of files that stand for devices that are not there: each opens, and leads nowhere."""
ENTRY: Message = {1: ("key", "text"), 2: ("value", "text")}


class WireError(ValueError):
    """Bytes that are no message."""


def encode(message: Message, values: Mapping[str, Any]) -> bytes:
    """Write a message; fields that have their default are left out, as protobuf does."""
    out = b""
    for number, (name, kind) in message.items():
        value = values.get(name)
        if kind == "texts":
            for key, text in (value or {}).items():
                out += _field(number, ENTRY, {"key": key, "value": text})
        elif isinstance(kind, list):
            for one in value or []:
                out += _field(number, kind[0], one)
        elif isinstance(kind, Mapping):
            out += b"" if value is None else _field(number, kind, value)
        elif value:
            out += _field(number, kind, value)
    return out


def _field(number: int, kind: Any, value: Any) -> bytes:
    if kind in ("flag", "number"):
        return _varint(number << 3) + _varint(int(value) & (1 << 64) - 1)
    body = value.encode() if kind == "text" else encode(kind, value)
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def decode(message: Message, raw: bytes) -> dict[str, Any]:
    """Read a message; fields that are not known are passed over.

    Raises:
        WireError: when the bytes are no message.
    """
    empty = {"text": "", "flag": False, "number": 0}
    found: dict[str, Any] = {}
    for name, kind in message.values():
        found[name] = {} if kind == "texts" else [] if isinstance(kind, list) else None
        if isinstance(kind, str) and kind in empty:
            found[name] = empty[kind]
    for number, wire, value in _parts(raw):
        name, kind = message.get(number, ("", None))
        one = kind[0] if isinstance(kind, list) else kind
        if kind is None:
            continue
        if (wire == 0) != (one in ("flag", "number")) or wire not in (0, 2):
            raise WireError(f"field {name} has wire type {wire}")
        if one == "texts":
            entry = decode(ENTRY, value)
            found[name][entry["key"]] = entry["value"]
            continue
        read = _read(one, value)
        if isinstance(kind, list):
            found[name].append(read)
        else:
            found[name] = read
    return found


def _read(kind: Any, value: Any) -> Any:
    if kind == "text":
        return value.decode()
    if kind == "flag":
        return bool(value)
    if kind == "number":
        return value - (1 << 64) if value >> 63 else value
    return decode(kind, value)


def _parts(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and content of each field."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while at < len(raw) and shift < 70:
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1
            shift += 7
        raise WireError("a number has no end")

    while at < len(raw):
        key = varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, wire, varint()
            continue
        length = {1: 8, 5: 4}.get(wire) if wire != 2 else varint()
        if length is None or at + length > len(raw):
            raise WireError(f"wire type {wire}" if length is None else "a field reaches beyond the end")
        at += length
        yield number, wire, raw[at - length : at]


# --- settings -------------------------------------------------------------------------------------------------------

Device = Mapping[str, Any]


class SettingsError(ValueError):
    """Settings that say nothing that can be played."""


def read_settings(documents: Mapping[str, str], node: str) -> dict[str, list[Device]]:
    """Return the devices of a node by resource name, from the document with its name or from `default`.

    Raises:
        SettingsError: says in one line what is wrong where.
    """
    name = node if node in documents else "default"
    try:
        wanted = json.loads(documents.get(name, "{}"))
    except ValueError as error:
        raise SettingsError(f"{name}: no JSON: {error}") from error
    if not isinstance(wanted, dict):
        raise SettingsError(f"{name}: an object of resources is needed, this is {json.dumps(wanted)[:40]}")
    return {
        str(resource): _devices(f"{name}: {resource}", resource, node, w) for resource, w in wanted.items()
    }


def _devices(where: str, resource: str, node: str, wanted: Any) -> list[Device]:
    known = {"count", "numa", "unhealthy"}
    if not isinstance(wanted, dict) or (strange := set(wanted) - known):
        what = ", ".join(sorted(strange)) if isinstance(wanted, dict) else json.dumps(wanted)[:40]
        raise SettingsError(f"{where}: allowed are count, numa, unhealthy; not {what}")
    count, numa, sick = wanted.get("count", 0), wanted.get("numa") or [], wanted.get("unhealthy") or []
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise SettingsError(f"{where}: count is a whole number of 0 or more, not {count!r}")
    if not isinstance(numa, list) or (numa and len(numa) != count):
        raise SettingsError(f"{where}: numa has one entry for each of the {count} devices, or none")
    if not all(one is None or (isinstance(one, int) and one >= 0) for one in numa):
        raise SettingsError(
            f"{where}: numa holds numbers of NUMA nodes, or null for a device that tells none"
        )
    if not isinstance(sick, list) or not all(isinstance(one, int) and 0 <= one < count for one in sick):
        raise SettingsError(f"{where}: unhealthy holds places of devices, 0 to {count - 1}")
    prefix = "GPU" if resource.endswith("/gpu") else resource.rpartition("/")[2].upper()[:10]
    devices: list[Device] = []
    for place in range(count):
        at = numa[place] if numa else None
        devices.append(
            {
                # The API allows 63 characters.
                "ID": f"{prefix}-{node[-40:].lstrip('.-')}-{place}",
                "health": "Unhealthy" if place in sick else "Healthy",
                "topology": None if at is None else {"nodes": [{"ID": at}]},
            }
        )
    return devices


def from_file(path: str, stop: threading.Event) -> Iterator[Mapping[str, str]]:
    """Yield the documents of a settings file, again whenever it was written."""
    last: object = None
    while not stop.is_set():
        try:
            told = pathlib.Path(path).stat()
            stamp = (told.st_ino, told.st_mtime_ns, told.st_size)
            if stamp != last:
                found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
                last = stamp
                yield {str(name): json.dumps(document) for name, document in found.items()}
        except (OSError, ValueError, AttributeError) as error:
            if last != str(error):
                say("settings", ok=False, error=f"{path}: {error}")
            last = str(error)
        stop.wait(TICK)


def from_api(name: str, stop: threading.Event) -> Iterator[Mapping[str, str]]:
    """Yield the documents of a ConfigMap, again whenever it changes; waits for an API that does not answer yet."""
    last = ""
    while not stop.is_set():
        try:
            yield from _watch(name)
        except (OSError, ValueError, http.client.HTTPException) as error:
            if last != str(error):
                say("settings", ok=False, error=f"{name}: {error}")
            last = str(error)
            stop.wait(0.5)


def _watch(name: str) -> Iterator[Mapping[str, str]]:
    """Watch a ConfigMap until the server ends the watch; the first event tells what is there."""
    namespace, _, name = name.partition("/")
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
    account = pathlib.Path(ACCOUNT)
    trusted = ssl.create_default_context(cafile=str(account / "ca.crt"))
    connection = http.client.HTTPSConnection(host, port, timeout=70, context=trusted)
    query = f"watch=1&timeoutSeconds=60&fieldSelector=metadata.name%3D{name}"
    token = (account / "token").read_text(encoding="ascii").strip()
    try:
        path = f"/api/v1/namespaces/{namespace}/configmaps?{query}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"the API answers {answer.status} {answer.reason}")
        while line := answer.readline():
            event = json.loads(line)
            if event.get("type") in ("ADDED", "MODIFIED"):
                yield event["object"].get("data") or {}
    finally:
        connection.close()


# --- the plugin -----------------------------------------------------------------------------------------------------


class Endpoint:
    """One resource: its devices, its socket, and what a kubelet asks of it."""

    def __init__(self, folder: str, resource: str, devices: Sequence[Device]) -> None:
        """Keep the devices; nothing is served yet."""
        self.resource = resource
        self.path = pathlib.Path(folder) / f"gpucluster-{resource.replace('/', '-')}.sock"
        self._devices = list(devices)
        self._changed = threading.Condition()
        self._server: Any = None
        self._kubelet = pathlib.Path(folder) / "kubelet.sock"
        self._registered: object = None

    def set(self, devices: Sequence[Device]) -> None:
        """Replace the devices; whoever watches them is told."""
        with self._changed:
            if self._devices != list(devices):
                self._devices = list(devices)
                self._changed.notify_all()
                say("devices", resource=self.resource, devices=_summary(devices))

    def tend(self) -> bool:
        """Serve and register where that was not done with the kubelet that is there now; returns whether it is done."""
        now = _identity(self._kubelet)
        if now is None or (now == self._registered and self.path.exists()):
            return now is not None
        self.close()
        try:
            self._serve()
            self._register()
        except Exception as error:  # noqa: BLE001 - whatever grpc raises: said, and tried again
            say("registered", ok=False, resource=self.resource, error=str(error)[:300])
            self.close()
            return False
        self._registered = now
        say("registered", ok=True, resource=self.resource, devices=_summary(self._devices))
        return True

    def close(self) -> None:
        """Serve no longer; a kubelet then takes the devices for unhealthy."""
        self._registered = None
        if self._server is not None:
            server, self._server = self._server, None
            stopped = server.stop(0)
            with self._changed:
                self._changed.notify_all()
            stopped.wait(2)
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        import grpc  # noqa: PLC0415 - messages and settings are of use without it

        def unary(call: Callable[..., bytes]) -> Any:
            return grpc.unary_unary_rpc_method_handler(call)

        methods = {
            "GetDevicePluginOptions": unary(lambda _request, _context: encode(OPTIONS, {})),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list_and_watch),
            "Allocate": unary(self._allocate),
        }
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", methods),)
        )
        server.add_insecure_port(f"unix:{self.path}")
        server.start()
        self._server = server

    def _register(self) -> None:
        import grpc  # noqa: PLC0415

        told = {"version": VERSION, "endpoint": self.path.name, "resource_name": self.resource}
        # The library would name the socket's path as the authority, which servers written in Go refuse.
        options = (("grpc.default_authority", "localhost"),)
        with grpc.insecure_channel(f"unix:{self._kubelet}", options=options) as channel:
            channel.unary_unary(f"/{VERSION}.Registration/Register")(encode(REGISTER, told), timeout=5)

    def _list_and_watch(self, _request: bytes, context: Any) -> Iterator[bytes]:
        """Tell the devices, and tell them again whenever they change."""

        def wake() -> None:
            with self._changed:
                self._changed.notify_all()

        server = self._server
        context.add_callback(wake)
        told: list[Device] | None = None
        while True:
            with self._changed:
                while told == self._devices and context.is_active() and self._server is server:
                    self._changed.wait()
                if not context.is_active() or self._server is not server:
                    return
                told = self._devices
            yield encode(DEVICES, {"devices": told})

    def _allocate(self, request: bytes, _context: Any) -> bytes:
        """Answer with the names of the devices that the kubelet chose, and with a file for each GPU."""
        wanted = decode(ALLOCATE, request)["container_requests"]
        say("allocated", resource=self.resource, devices=[one["devices_ids"] for one in wanted])
        answers = [
            {"envs": self._envs(one["devices_ids"]), "devices": self._files(one["devices_ids"])}
            for one in wanted
        ]
        return encode(ALLOCATED, {"container_responses": answers})

    def _files(self, ids: Sequence[str]) -> list[dict[str, str]]:
        if not self.resource.endswith("/gpu"):
            return []
        return [
            {"container_path": f"{STAND_INS}/{one}", "host_path": "/dev/null", "permissions": "rw"}
            for one in ids
        ]

    def _envs(self, ids: Sequence[str]) -> dict[str, str]:
        places = {device["ID"]: device["topology"] for device in self._devices}
        told = []
        for one in ids:
            topology = places.get(one)
            told.append(f"{one}@{topology['nodes'][0]['ID']}" if topology else one)
        if self.resource.endswith("/gpu"):
            return {"NVIDIA_VISIBLE_DEVICES": ",".join(ids), "GPUCLUSTER_DEVICES": ",".join(told)}
        name = "".join(c if c.isalnum() else "_" for c in self.resource.rpartition("/")[2]).upper()
        return {f"GPUCLUSTER_DEVICES_{name}": ",".join(told)}


def _identity(path: pathlib.Path) -> object:
    """Return what tells one socket from its successor, or None where there is none."""
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_ino, told.st_ctime_ns


def _summary(devices: Sequence[Device]) -> dict[str, Any]:
    nodes = [None if d["topology"] is None else d["topology"]["nodes"][0]["ID"] for d in devices]
    return {
        "count": len(devices),
        "numa": nodes,
        "unhealthy": [d["ID"] for d in devices if d["health"] != "Healthy"],
    }


class Plugin:
    """The endpoints of a node, kept as the settings say."""

    def __init__(self, folder: str, node: str, ready: str = "") -> None:
        """Begin without devices."""
        self._folder, self._node, self._ready = folder, node, ready
        self._endpoints: dict[str, Endpoint] = {}
        self._lock = threading.Lock()

    def apply(self, documents: Mapping[str, str]) -> None:
        """Take settings; those that cannot be played are said and change nothing."""
        try:
            wanted = read_settings(documents, self._node)
        except SettingsError as error:
            say("settings", ok=False, error=str(error))
            return
        with self._lock:
            for resource in [r for r in self._endpoints if r not in wanted]:
                self._endpoints.pop(resource).close()
                say("withdrawn", resource=resource)
            for resource, devices in wanted.items():
                if resource in self._endpoints:
                    self._endpoints[resource].set(devices)
                else:
                    self._endpoints[resource] = Endpoint(self._folder, resource, devices)

    def tend(self) -> None:
        """Have each endpoint served and registered; the ready file tells whether all are."""
        with self._lock:
            done = [endpoint.tend() for endpoint in self._endpoints.values()]
        if self._ready:
            path = pathlib.Path(self._ready)
            if all(done) and done:
                path.touch()
            else:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Serve nothing any longer."""
        with self._lock:
            for endpoint in self._endpoints.values():
                endpoint.close()


def main() -> int:
    """Play the devices until the end is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config-map", metavar="NAMESPACE/NAME", help="watch this ConfigMap")
    source.add_argument("--settings", metavar="FILE", help="read this file, again whenever it is written")
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", socket.gethostname()))
    parser.add_argument("--folder", default=FOLDER, help="where the kubelet's socket is")
    parser.add_argument(
        "--ready", default="", metavar="FILE", help="there as long as the kubelet knows the devices"
    )
    args = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    plugin = Plugin(args.folder, args.node, args.ready)
    told = from_api(args.config_map, stop) if args.config_map else from_file(args.settings, stop)

    def follow() -> None:
        for documents in told:
            plugin.apply(documents)
            plugin.tend()

    threading.Thread(target=follow, daemon=True).start()
    while not stop.wait(TICK):
        plugin.tend()
    plugin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
