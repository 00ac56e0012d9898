"""How programs in pods speak: `GPUCONF1 {json}`, one line per event.

Each line is one write of less than 4096 bytes, so that lines of several writers never mix. Mounted beside each program
that imports it. Standard library only.
"""

import json
import os
import socket
import time


def say(event: str, **fields: object) -> None:
    """Write one event as one line; of which run, attempt, pod and container is told by the environment."""
    told = {
        "run": os.environ.get("GPUCLUSTER_RUN", ""),
        "attempt": int(os.environ.get("GPUCLUSTER_ATTEMPT", "0")),
        "event": event,
        "pod": os.environ.get("GPUCLUSTER_POD", socket.gethostname()),
        "container": os.environ.get("GPUCLUSTER_CONTAINER", ""),
        "t": time.time(),
        **fields,
    }
    os.write(1, f"GPUCONF1 {json.dumps(told, separators=(',', ':'))}\n".encode())


def place_in_world() -> dict[str, object]:
    """Return who this rank is; a process that runs alone becomes a world of one, in its environment too."""
    if "RANK" not in os.environ:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    rank, world, local = (int(os.environ[key]) for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return {"rank": rank, "world": world, "local_rank": local, "host": socket.gethostname()}


def digits(value: float) -> float:
    """Return a number with five significant digits: a line must stay short."""
    return float(f"{value:.5g}")
