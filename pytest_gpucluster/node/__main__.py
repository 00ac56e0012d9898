"""Run nodes: `python -m pytest_gpucluster.node`.

Reads one JSON line of configuration from standard input and answers one JSON line on standard output:
{"ready": true, ...} once all nodes are Ready, or {"error": "..."} with exit code 2. Ends, with everything in it,
when standard input ends, on SIGTERM or SIGINT, or when the process `owner_pid` ends. Logs go to standard error.
"""

import argparse
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pytest_gpucluster.node import config, defects, limits, port_relay, sandbox

EPILOG = """\
keys of the configuration line:
  nodes        list of {"name", "gpus": 8, "numa": 2, "cpus": 96, "memory": "512Gi", "pods": 110,
               "labels": {}, "extra": {}, "topology_policy": "none", "topology_scope": "container",
               "cpu_policy": "none", "memory_policy": "None", "hardware": {}}   (required)
    hardware   what a node has of this machine: {"devices": [{"id", "numa", "files": [], "healthy": true}],
               "further": {"rdma/hca": [like devices]}, "shared": [], "cpus": {"0": [0, 1]}, "files": {},
               "variables": [], "root": "/"}
  state_dir    existing folder for logs and the kubelet socket                  (required)
  api_socket   Unix socket of the API server                                    (this or api_url is required)
  api_url      http://HOST:PORT or https://HOST:PORT; with api_token, api_ca, api_cert, api_key, api_insecure
  subnet       network of the pods, default 10.88.0.0/16
  dns_domain   default cluster.local
  gpu_resource default nvidia.com/gpu
  pod_socket   Unix socket on which the API server speaks TLS to pods, default none: they do not reach it
  networks     names of further networks, each a subnet after the pods', that pods may ask for by the annotation
               k8s.v1.cni.cncf.io/networks, default none
  metrics_port TCP port at the address of each GPU node on which an exporter of played metrics answers, default none
  topology_policy  none, best-effort, restricted or single-numa-node; default for all nodes
  images       image name or pattern -> ["/program", ...] or {"entrypoint", "path", "env"};
               default: every image is this machine
  switchable   whether tests may put other defects in force while it runs, default false
  defects      planted departures:
"""


def main() -> int:
    """Run the command line."""
    listing = "\n".join(f"                 {name}: {text}" for name, text in defects.DEFECTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m pytest_gpucluster.node",
        description=__doc__,
        epilog=EPILOG + listing,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--probe", action="store_true", help="only say whether this machine allows it")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        refusal = sandbox.probe()
        print(refusal or "sandboxes work on this machine")
        return 2 if refusal else 0
    if options.inside:
        from pytest_gpucluster.node import inside

        return inside.main()
    return _outside()


def _outside() -> int:
    line = _read_line()
    try:
        parsed = config.parse(line.decode())
        raw = json.loads(line)
        upstream = None if parsed.api_socket else port_relay.Upstream.from_config(raw)
    except ValueError as error:
        return _refuse(str(error))
    refusal = sandbox.probe()
    if refusal is not None:
        return _refuse(refusal)
    with ExitStack() as stack:
        if upstream is not None:
            socket = parsed.state_dir / "api.relay"
            stack.enter_context(port_relay.Relay(socket, upstream))
            raw |= {"api_socket": str(socket), "api_url": f"http://{upstream.host}{upstream.path}"}
        if any(spec.hardware is not None for spec in parsed.nodes):
            limits.raise_limits()
        return _supervise(raw)


def _supervise(raw: dict[str, Any]) -> int:
    package = Path(__file__).resolve().parents[2]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    inner = [sys.executable, "-m", "pytest_gpucluster.node", "--inside"]
    owner = raw.get("owner_pid")
    return sandbox.supervise(inner, json.dumps(raw).encode() + b"\n", None if owner is None else int(owner))


def _read_line() -> bytes:
    """Read up to the first newline without taking what comes after it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def _refuse(text: str) -> int:
    print(json.dumps({"error": text}), flush=True)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
