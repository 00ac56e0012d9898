"""What DCGM's exporter of each GPU node answers: a page of Prometheus' text format, at the node's own address.

Its GPUs are played, and so are the values; the page, its collection interval and the connection are not.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from aiohttp import web

from pytest_gpucluster.node import defects, machine
from pytest_gpucluster.node.config import AgentConfig, NodeSpec
from pytest_gpucluster.node.devices import Device

INTERVAL = 0.2
"""Seconds for which a collection is answered; 30 of DCGM's exporter unless it is told another."""
CONTENT = "text/plain; version=0.0.4; charset=utf-8"
IDLE_WATTS = 70.0
MODEL = "Embedded-GPU"
FAMILIES: Mapping[str, tuple[str, str]] = {
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C)."),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W)."),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Total energy consumption since boot (in mJ)."),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %)."),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered."),
}
"""Metric -> its type and its help, as the shipped list of counters has them."""


def values(number: int, seconds: float) -> dict[str, float]:
    """Return what the sensors of an idle GPU say some seconds after they were switched on."""
    watts = IDLE_WATTS + 0.1 * (number % 8)
    return {
        "DCGM_FI_DEV_GPU_TEMP": 31 + number % 4,
        "DCGM_FI_DEV_POWER_USAGE": watts,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": round(1000 * watts * (3600 + seconds)),
        "DCGM_FI_DEV_GPU_UTIL": 0,
        "DCGM_FI_DEV_FB_USED": 4,
        "DCGM_FI_DEV_XID_ERRORS": 0,
    }


def text(node: str, devices: Iterable[Device], seconds: float) -> str:
    """Return the page of a node."""
    found = []
    read = {device.id: values(number, seconds) for number, device in enumerate(devices)}
    for name, (kind, about) in FAMILIES.items():
        found += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for number, (device, of_gpu) in enumerate(read.items()):
            labels = {
                "gpu": str(number),
                # Played devices are called alike on all nodes; no two GPUs of a cluster are.
                "UUID": f"{device}.{node}",
                "device": f"nvidia{number}",
                "modelName": MODEL,
                "Hostname": node,
            }
            shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
            found.append(f"{name}{{{shown}}} {of_gpu[name]:.10g}")
    return "\n".join([*found, ""])


class Exporter:
    """Answers `/metrics` at the address of a node, with values of the last collection; a context manager."""

    def __init__(
        self,
        spec: NodeSpec,
        config: AgentConfig,
        address: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Describe; nothing listens yet.

        Args:
            spec: the node.
            config: of the agent, whose defects are asked at each collection.
            address: of the node.
            clock: seconds on a clock that only goes forward.
        """
        self._spec, self._config, self._address, self._clock = spec, config, address, clock
        self._begun = self._collected = clock()
        self._page = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Collect, and listen."""
        self.collect()
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address, self._config.metrics_port).start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop."""
        if self._runner is not None:
            await self._runner.cleanup()

    def collect(self) -> None:
        """Read all sensors anew, but for planted departures."""
        last = self._config.is_last(self._spec.name)
        if last and self._page and defects.METRICS_STALE in self._config.defects:
            return
        devices = machine.reported(self._spec, self._config)
        self._collected = self._clock()
        self._page = text(self._spec.name, devices, self._collected - self._begun)

    async def _answer(self, _request: web.Request) -> web.Response:
        if self._clock() >= self._collected + INTERVAL:
            self.collect()
        return web.Response(body=self._page.encode(), headers={"Content-Type": CONTENT})
