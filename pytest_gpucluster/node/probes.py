"""Readiness probes: exec, tcpSocket, httpGet."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pytest_gpucluster.node.container import RunningContainer
from pytest_gpucluster.node.process import run

Object = dict[str, Any]


async def check(probe: Object, ports: Object, ip: str, running: RunningContainer) -> tuple[bool, str]:
    """Probe once.

    Args:
        probe: The probe's spec.
        ports: Container port name -> number.
        ip: Address of the pod.
        running: The container.

    Returns:
        Whether it succeeded, and what was seen.
    """
    timeout = float(probe.get("timeoutSeconds") or 1)
    if "exec" in probe:
        code, said = await run([*running.enter(), *probe["exec"]["command"]], timeout)
        return code == 0, said.strip() or (f"exit code {code}" if code is not None else "timed out")
    if "tcpSocket" in probe or "httpGet" in probe:
        spec = probe.get("tcpSocket") or probe["httpGet"]
        port = ports.get(spec["port"], spec["port"])
        host = spec.get("host") or ip
        try:
            async with asyncio.timeout(timeout):
                if "tcpSocket" in probe:
                    return await _tcp(host, int(port))
                return await _http(host, int(port), spec.get("path") or "/")
        except (TimeoutError, OSError, ValueError) as error:
            return False, f"dial tcp {host}:{port}: {error or 'timed out'}"
    return True, "no handler that these nodes know"


async def _tcp(host: str, port: int) -> tuple[bool, str]:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return True, ""


async def _http(host: str, port: int, path: str) -> tuple[bool, str]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: kube-probe\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        await writer.drain()
        words = (await reader.readline()).split()
        if len(words) < 2 or not words[1].isdigit():
            return False, "no HTTP answer"
        status = int(words[1])
        return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def watch(
    container: Object, ip: str, running: RunningContainer, report: Callable[[bool, str], None]
) -> None:
    """Probe in the declared rhythm until cancelled and report each change of readiness.

    Args:
        container: The container's spec, with a readinessProbe.
        ip: Address of the pod.
        running: The container.
        report: Called with readiness and what was seen, for each change and for each failure.
    """
    probe = container["readinessProbe"]
    ports = {port["name"]: port["containerPort"] for port in container.get("ports") or [] if port.get("name")}
    needed = {True: int(probe.get("successThreshold") or 1), False: int(probe.get("failureThreshold") or 3)}
    await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
    ready, streak, last = False, 0, None
    while True:
        good, seen = await check(probe, ports, ip, running)
        streak = streak + 1 if good == last else 1
        last = good
        changed = good != ready and streak >= needed[good]
        if changed:
            ready = good
        if changed or not good:
            report(ready, seen)
        await asyncio.sleep(float(probe.get("periodSeconds") or 10))
