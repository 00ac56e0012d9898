"""What the parts of the agent share."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gpucluster.node.admission import Admission
from pytest_gpucluster.node.api import Api
from pytest_gpucluster.node.config import AgentConfig, NodeSpec
from pytest_gpucluster.node.network import Addresses, Network
from pytest_gpucluster.node.rootfs import HostLayout
from pytest_gpucluster.node.writer import EventWriter


@dataclass(frozen=True)
class Runtime:
    """Everything that pods of all nodes use.

    Attributes:
        config: What the agent was told.
        api: The API server.
        events: Where events go.
        network: Bridge and pod networks.
        addresses: Address of bridge, nodes and pods.
        layout: How the host is shown in containers.
        work: Folder in memory for pods.
        gate: Bounds how many containers are started at once.
    """

    config: AgentConfig
    api: Api
    events: EventWriter
    network: Network
    addresses: Addresses
    layout: HostLayout
    work: Path
    gate: asyncio.Semaphore

    @property
    def logs(self) -> Path:
        """Return the folder of container logs, which outlives the sandbox."""
        return self.config.state_dir / "logs"


@dataclass
class PlayedNode:
    """One node: what it has, its address, and who decides which pods it takes and what they get.

    Attributes:
        spec: What it has.
        ip: Its address.
        admission: Who decides; another one after defects were switched.
    """

    spec: NodeSpec
    ip: str
    admission: Admission


async def first_of(event: asyncio.Event, work: Coroutine[Any, Any, Any]) -> bool:
    """Run `work` until it is done or `event` is set, whichever is first; the other is cancelled.

    Returns:
        Whether the work was done. An exception of the work is raised.
    """
    doing = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
            return True
        return False
    finally:
        for task in (doing, waiting):
            task.cancel()
        await asyncio.gather(doing, waiting, return_exceptions=True)
