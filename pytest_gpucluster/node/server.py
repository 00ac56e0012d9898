"""The kubelets' HTTP side on a Unix socket: container logs, and what each kubelet was configured with."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from pytest_gpucluster.node.logs import ContainerLog, since_seconds
from pytest_gpucluster.node.pod import PodWorker
from pytest_gpucluster.plain.times import parse_time

Find = Callable[[str, str], PodWorker | None]
Configz = Callable[[str], dict[str, Any] | None]
Reboot = Callable[[str], bool]
Sicken = Callable[[str, list[str]], bool]
Switch = Callable[[list[str]], Awaitable[list[str]]]
NO_EXEC = "these nodes do not serve exec, attach or port-forward; let the pod run the command itself\n"


class KubeletServer:
    """Serves `/containerLogs/NAMESPACE/POD/CONTAINER` and `/configz`; an async context manager.

    All nodes share the socket. Where it matters whose kubelet is meant, the request's Host names the node.
    """

    def __init__(
        self,
        socket: str,
        find: Find,
        configz: Configz,
        reboot: Reboot,
        sicken: Sicken,
        *,
        switch: Switch | None = None,
    ) -> None:
        """Describe; nothing listens yet.

        Args:
            socket: Path of the Unix socket.
            find: Returns the worker of a pod by namespace and name.
            configz: Returns a node's configuration by the node's name, None where there is no such node.
            reboot: Begins to restart a node's machine by the node's name; False where there is no such node.
            sicken: Takes which devices of a node are unhealthy from now on; False where there is no such node.
            switch: Puts exactly these defects in force and returns them; None where nobody may.
        """
        self._socket = Path(socket)
        self._find = find
        self._configz = configz
        self._reboot = reboot
        self._sicken = sicken
        self._switch = switch
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/configz", self._tell_configuration)
        app.router.add_post("/reboot", self._restart_machine)
        app.router.add_put("/unhealthy", self._change_health)
        if self._switch is not None:
            app.router.add_put("/defects", self._switch_defects)
        app.router.add_get("/healthz", _healthz)
        for verb in ("exec", "attach", "portForward", "run"):
            app.router.add_route("*", f"/{verb}/{{tail:.*}}", _not_served)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._socket.unlink(missing_ok=True)
        await web.UnixSite(self._runner, str(self._socket)).start()
        self._socket.chmod(0o600)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.unlink(missing_ok=True)

    async def _tell_configuration(self, request: web.Request) -> web.Response:
        found = self._configz(request.host)
        if found is None:
            return web.Response(status=404, text=f"no node {request.host}\n")
        return web.json_response(found)

    async def _restart_machine(self, request: web.Request) -> web.Response:
        """Take the request of whoever has the machine in its hand; a kubelet has no such path."""
        if not self._reboot(request.host):
            return web.Response(status=404, text=f"no node {request.host}\n")
        return web.Response(status=202)

    async def _change_health(self, request: web.Request) -> web.Response:
        """Take the list of devices that are unhealthy from now on, as a device plugin would tell its kubelet."""
        listed = await request.json()
        if not isinstance(listed, list):
            return web.Response(status=400, text="expected a JSON list of device ids\n")
        if not self._sicken(request.host, [str(each) for each in listed]):
            return web.Response(status=404, text=f"no node {request.host}\n")
        return web.Response(status=202)

    async def _switch_defects(self, request: web.Request) -> web.Response:
        """Take the list of defects that are in force from now on; only tests start nodes that take it."""
        listed = await request.json()
        if self._switch is None or not isinstance(listed, list):
            return web.Response(status=400, text="expected a JSON list of names of defects\n")
        try:
            return web.json_response(await self._switch([str(each) for each in listed]))
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        namespace, pod, name = (request.match_info[key] for key in ("namespace", "pod", "container"))
        worker = self._find(namespace, pod)
        if worker is None:
            return web.Response(status=404, text=f'pod "{pod}" not found\n')
        previous = request.query.get("previous") in ("true", "1")
        found = choose_log(worker, pod, name, previous=previous)
        if isinstance(found, web.Response):
            return found
        try:
            options = _options(request)
        except ValueError as error:
            return web.Response(
                status=400, text=f"unable to decode the request for container logs: {error}\n"
            )
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async for part in found.read(**options):
            if part:
                await response.write(part)
        await response.write_eof()
        return response


def choose_log(worker: PodWorker, pod: str, name: str, *, previous: bool) -> ContainerLog | web.Response:
    """Return the log that was asked for, or the refusal in the words of a kubelet."""
    loop = next((x for x in worker.loops if x.spec["name"] == name), None)
    if loop is None:
        if not any(c["name"] == name for c in _containers(worker.pod)):
            return web.Response(status=404, text=f'container "{name}" not found in pod "{pod}"\n')
        return web.Response(status=400, text=f'container "{name}" in pod "{pod}" is not available')
    log = loop.log(previous=previous)
    if log is not None:
        return log
    if previous:
        return web.Response(
            status=400, text=f'previous terminated container "{name}" in pod "{pod}" not found'
        )
    waiting = loop.state.state.get("waiting")
    if waiting:
        text = f'container "{name}" in pod "{pod}" is waiting to start: {waiting["reason"]}'
        return web.Response(status=400, text=text)
    return web.Response(status=400, text=f'container "{name}" in pod "{pod}" is not available')


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]


def _options(request: web.Request) -> dict[str, Any]:
    query = request.query
    options: dict[str, Any] = {
        "follow": query.get("follow") in ("true", "1"),
        "timestamps": query.get("timestamps") in ("true", "1"),
    }
    if "tailLines" in query:
        options["tail_lines"] = int(query["tailLines"])
        if options["tail_lines"] < 0:
            raise ValueError("tailLines must not be negative")
    if "sinceSeconds" in query:
        options["since"] = since_seconds(float(query["sinceSeconds"]))
    elif "sinceTime" in query:
        options["since"] = parse_time(query["sinceTime"])
    return options


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _not_served(_request: web.Request) -> web.Response:
    return web.Response(status=501, text=NO_EXEC)
