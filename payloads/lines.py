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


def digits(value: float) -> float:
    """Return a number with five significant digits: a line must stay short."""
    return float(f"{value:.5g}")
