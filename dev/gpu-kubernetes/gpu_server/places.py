"""Folders of the parts and of a cluster that runs, and the addresses in it."""

import dataclasses
import os
from pathlib import Path

HOME = Path(os.environ.get("GPU_KUBERNETES_HOME") or Path(__file__).resolve().parents[1])
"""Where the archives were unpacked: `kubernetes`, `programs`, `images`, `site` and these modules lie side by side."""
STATE = Path(os.environ.get("GPU_KUBERNETES_STATE") or HOME / "state")
"""All that a cluster writes. It is removed with it."""

# A range that no network uses (RFC 2544, for benchmarks), since none of the machine's own may be met.
HOST, CONTROL_PLANE_FOR_HOST = "198.18.0.1", "198.18.0.2"
HOST_PREFIX = 30
CONTROL_PLANE = "198.18.1.1"
NODE_PREFIX = 24
SERVICES, API_SERVICE, DNS_SERVICE = "198.19.0.0/16", "198.19.0.1", "198.19.0.10"
PODS = "198.18.64.0/18"
API_PORT = 6443
DOMAIN = "cluster.local"

GROUP = "gpu-kubernetes"
"""Name of the control group below which all pods are."""
HOST_LINK = "gpu-kubernetes"
"""Network link of the machine through which it reaches the API server."""


@dataclasses.dataclass(frozen=True)
class Node:
    """One node.

    Attributes:
        number: from 1.
        gpus: numbers of its GPUs, as in `/dev/nvidiaN`.
    """

    number: int
    gpus: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return its name, which is its host name too."""
        return f"gpu-{self.number}"

    @property
    def address(self) -> str:
        """Return its address on the link between nodes."""
        return f"198.18.1.{10 + self.number}"

    @property
    def pods(self) -> str:
        """Return the range of its pods' addresses."""
        return f"198.18.{64 + self.number}.0/24"

    @property
    def folder(self) -> Path:
        """Return where it keeps what it writes."""
        return STATE / self.name

    @property
    def containerd(self) -> Path:
        """Return the socket of its containerd."""
        return self.folder / "containerd.sock"


def certificates() -> Path:
    """Return the folder of keys and certificates."""
    return STATE / "certificates"


def kubeconfig(user: str) -> Path:
    """Return the kubeconfig of a user or a component."""
    return STATE / f"{user}.kubeconfig"


def log(name: str) -> Path:
    """Return the log of a process."""
    return STATE / "log" / f"{name}.log"


def program(name: str) -> str:
    """Return where one of our programs lies."""
    for folder in ("kubernetes", "programs"):
        path = HOME / folder / name
        if path.exists():
            return str(path)
    raise FileNotFoundError(name)
