"""How long the embedded cluster takes: to the first answered list, and from there to all nodes Ready.

Reference in the same run: a bare Python interpreter that imports aiohttp, which no control plane of ours can beat.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

RUNS = 5


def reference() -> float:
    """Return the seconds of an interpreter that imports aiohttp."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import aiohttp.web"], check=True)
    return time.monotonic() - began


def start(folder: pathlib.Path) -> tuple[float, float]:
    """Return the seconds to the first answered list, and from there to all nodes Ready."""
    config = {
        "host": "127.0.0.1",
        "port": 0,
        "socket": str(folder / "api.sock"),
        "defects": [],
        "kueue": True,
    }
    began = time.monotonic()
    control = _process("embedded", config)
    url = _ready(control)["url"]
    with urllib.request.urlopen(f"{url}/api/v1/nodes", timeout=10) as answer:  # noqa: S310 - loopback
        json.load(answer)
    listed = time.monotonic() - began
    nodes = {
        "api_socket": str(folder / "api.sock"),
        "nodes": [{"name": f"gpu-{i}", "gpus": 8, "numa": 2} for i in range(3)],
        "state_dir": str(folder),
    }
    began = time.monotonic()
    agent = _process("node", nodes)
    _ready(agent)
    ready = time.monotonic() - began
    for process in (agent, control):
        _end(process)
    return listed, ready


def _process(module: str, config: dict[str, object]) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", f"pytest_gpucluster.{module}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if process.stdin is None:
        raise RuntimeError("no standard input")
    process.stdin.write(json.dumps(config) + "\n")
    process.stdin.flush()
    return process


def _ready(process: "subprocess.Popen[str]") -> dict[str, str]:
    if process.stdout is None:
        raise RuntimeError("no standard output")
    line = json.loads(process.stdout.readline())
    if not line.get("ready"):
        raise RuntimeError(f"did not start: {line}")
    return dict(line)


def _end(process: "subprocess.Popen[str]") -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait(timeout=20)
    if process.stdout is not None:
        process.stdout.close()


def main() -> None:
    """Print the medians, their limits, and the ratios against the reference."""
    bare, lists, nodes = [], [], []
    for _ in range(RUNS):
        bare.append(reference())
        with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as folder:
            listed, ready = start(pathlib.Path(folder))
        lists.append(listed)
        nodes.append(ready)
    base = statistics.median(bare)
    print(f"reference: import aiohttp.web in a bare interpreter: {base:.2f} s (median of {RUNS})")
    for name, times, limit in (("first answered list", lists, 1.0), ("3 nodes Ready after it", nodes, 2.0)):
        middle = statistics.median(times)
        print(
            f"{name}: {middle:.2f} s (min {min(times):.2f}, max {max(times):.2f}), limit {limit:.1f} s, "
            f"{middle / base:.1f} x the reference"
        )


if __name__ == "__main__":
    main()
