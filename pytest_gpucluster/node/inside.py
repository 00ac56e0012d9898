"""The agent's process, inside the sandbox: configuration in, ready line out, end with the input."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from pytest_gpucluster.node import config
from pytest_gpucluster.node.agent import Agent, AgentError
from pytest_gpucluster.node.network import NetworkError

# How long the agent may take to take leave; then it ends all the same.
LEAVE_SECONDS = 1.0


def main() -> int:
    """Run the agent until standard input ends."""
    began = time.monotonic()
    logging.basicConfig(level=os.environ.get("GPUCLUSTER_NODE_LOG", "WARNING"), stream=sys.stderr)
    try:
        parsed = config.parse(sys.stdin.buffer.readline().decode())
    except config.ConfigError as error:
        return _refuse(str(error))
    try:
        asyncio.run(_serve(parsed, began))
    except (AgentError, NetworkError) as error:
        return _refuse(str(error))
    except (OSError, subprocess.SubprocessError) as error:
        return _refuse(f"the nodes cannot be started: {error}")
    return 0


async def _serve(parsed: config.AgentConfig, began: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    threading.Thread(target=_watch_input, args=(loop, over), daemon=True).start()
    # Not left by the context manager: pods need no farewell, the kernel ends them with this process.
    async with Agent(parsed) as agent:
        ready = {
            "ready": True,
            "nodes": [spec.name for spec in parsed.nodes],
            "kubelet_socket": parsed.kubelet_socket,
            "seconds": round(time.monotonic() - began, 3),
        }
        print(json.dumps(ready), flush=True)
        ends = [asyncio.create_task(over.wait()), asyncio.create_task(agent.broken.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        Path(parsed.kubelet_socket).unlink(missing_ok=True)  # noqa: ASYNC240 - the loop is over
        os._exit(1 if agent.broken.is_set() else 0)


def _watch_input(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    """Wait for the end of standard input in a thread, so that a busy loop cannot delay the end."""
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(over.set)
    time.sleep(LEAVE_SECONDS)
    os._exit(0)


def _refuse(text: str) -> int:
    print(json.dumps({"error": text}), flush=True)
    return 2
