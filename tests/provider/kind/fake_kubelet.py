"""The device manager's side of a kubelet, over real gRPC: takes registrations, watches devices, allocates."""

import pathlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import grpc

from payloads import device_plugin as wire

REPLY = 10.0


class FakeKubelet:
    """Serves `kubelet.sock` in a folder, as a kubelet does: what lies there before is removed."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Start serving."""
        self.folder = folder
        self.devices: dict[str, list[dict[str, Any]]] = {}
        """Resource -> what its plugin told last; empty once its stream ended."""
        self.registrations: list[dict[str, Any]] = []
        self._seen = threading.Condition()
        self._channels: dict[str, grpc.Channel] = {}
        for path in folder.iterdir():
            path.unlink()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        register = grpc.unary_unary_rpc_method_handler(self._register)
        handler = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register})
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
        self._server.start()

    def _register(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        told = wire.decode(wire.REGISTER, request)
        if told["version"] != "v1beta1":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "unsupported version")
        channel = grpc.insecure_channel(f"unix:{self.folder / told['endpoint']}")
        self._channels[told["resource_name"]] = channel
        options = self._call(channel, "GetDevicePluginOptions", b"")
        with self._seen:
            self.registrations.append({**told, "answered": wire.decode(wire.OPTIONS, options)})
            self._seen.notify_all()
        threading.Thread(target=self._watch, args=(told["resource_name"], channel), daemon=True).start()
        return b""

    def _call(self, channel: grpc.Channel, method: str, request: bytes) -> bytes:
        answer = channel.unary_unary(f"/v1beta1.DevicePlugin/{method}")(request, timeout=REPLY)
        assert isinstance(answer, bytes)
        return answer

    def _watch(self, resource: str, channel: grpc.Channel) -> None:
        try:
            for answer in channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b""):
                self._told(resource, wire.decode(wire.DEVICES, answer)["devices"])
        except (grpc.RpcError, ValueError):
            pass
        finally:
            self._told(resource, [])

    def _told(self, resource: str, devices: list[dict[str, Any]]) -> None:
        with self._seen:
            self.devices[resource] = devices
            self._seen.notify_all()

    def allocate(self, resource: str, *containers: Sequence[str]) -> list[dict[str, str]]:
        """Allocate devices to containers; returns each one's environment."""
        return [one["envs"] for one in self.allocated(resource, *containers)]

    def allocated(self, resource: str, *containers: Sequence[str]) -> list[dict[str, Any]]:
        """Allocate devices to containers; returns all that each one gets."""
        wanted = {"container_requests": [{"devices_ids": ids} for ids in containers]}
        answer = self._call(self._channels[resource], "Allocate", wire.encode(wire.ALLOCATE, wanted))
        return list(wire.decode(wire.ALLOCATED, answer)["container_responses"])

    def wait(self, what: str, true: Callable[["FakeKubelet"], bool]) -> None:
        """Wait until something is true of what plugins told."""
        ends = time.monotonic() + REPLY
        with self._seen:
            while not true(self):
                left = ends - time.monotonic()
                assert left > 0, f"not within {REPLY:g} s: {what}; {self.registrations} {self.devices}"
                self._seen.wait(left)

    def healthy(self, resource: str) -> int:
        """Return what a kubelet calls allocatable."""
        return sum(device["health"] == "Healthy" for device in self.devices.get(resource, []))

    def capacity(self, resource: str) -> int:
        """Return what a kubelet calls capacity."""
        return len(self.devices.get(resource, []))

    def close(self) -> None:
        """End, as a kubelet does: connections are closed, the socket goes."""
        for channel in self._channels.values():
            channel.close()
        self._server.stop(0).wait(REPLY)
        (self.folder / "kubelet.sock").unlink(missing_ok=True)
