"""The one JSON line that configures the nodes, read into frozen facts."""

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gpucluster.node import defects, hardware
from pytest_gpucluster.node.hardware import Hardware
from pytest_gpucluster.plain.names import did_you_mean
from pytest_gpucluster.plain.planted import Planted
from pytest_gpucluster.plain.quantities import QuantityError, parse_quantity

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_SCOPES = ("container", "pod")
CPU_POLICIES = ("none", "static")
MEMORY_POLICIES = ("None", "Static")
# sockaddr_un.sun_path holds 108 bytes including the final zero.
SOCKET_PATH_LIMIT = 107


class ConfigError(ValueError):
    """A configuration that cannot be used, told in one line."""


@dataclass(frozen=True)
class NodeSpec:
    """One node to play.

    Attributes:
        name: Name of the Node object.
        gpus: How many GPUs it has.
        numa: Over how many NUMA nodes these are spread evenly.
        cpus: Whole CPUs it says it has; nothing enforces them.
        memory: Memory it says it has, a Kubernetes quantity.
        pods: How many pods it takes.
        labels: Labels of the Node object beside those a kubelet sets.
        extra: Further managed resources, name -> quantity (for instance `rdma/hca`).
        topology_policy: Topology Manager policy.
        topology_scope: Whether the Topology Manager looks at each container or at the pod as a whole.
        cpu_policy: CPU Manager policy; `static` gives whole CPUs of Guaranteed pods to them alone.
        memory_policy: Memory Manager policy; `Static` binds memory of Guaranteed pods to their NUMA nodes.
        hardware: What it has of the machine on which it runs; None where its devices are only played.
    """

    name: str
    gpus: int = 8
    numa: int = 2
    cpus: int = 96
    memory: str = "512Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    topology_policy: str = "none"
    topology_scope: str = "container"
    cpu_policy: str = "none"
    memory_policy: str = "None"
    hardware: Hardware | None = None


@dataclass(frozen=True)
class Image:
    """What an image name stands for on this machine.

    Attributes:
        entrypoint: Program and first arguments where the container states no command.
        path: Folders that come first on PATH.
        env: Variables that the image sets.
        files: Path in the container -> file of this machine that the image has there.
        empty: Folders that are empty in the image, whatever this machine has there.
    """

    entrypoint: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentConfig:
    """Everything the agent is told.

    Attributes:
        nodes: The nodes to play.
        state_dir: An existing folder for logs and the kubelet socket.
        subnet: Network of the pods.
        api_socket: Unix socket of the API server, or None.
        api_url: URL of the API server; where a socket is given it is only what requests name.
        api_token: Bearer token, or None.
        dns_domain: Domain of the cluster.
        gpu_resource: Name of the GPU resource.
        images: Image name or pattern -> what it stands for.
        defects: Planted defects; asked at each use, since they may be switched meanwhile.
        switchable: Whether they may be: never on a run's own cluster.
        pod_socket: Unix socket on which the API server speaks TLS to pods, or None: they do not reach it.
        networks: Names of further networks that pods may ask for.
        adapters: RDMA adapters that nodes play which have some: `resource`, `gbps`, `layer`.
        lease_seconds: How long a node lease holds; renewed every quarter of it.
        metrics_port: TCP port on which played metrics of GPUs are answered at each GPU node's address, or None.
    """

    nodes: tuple[NodeSpec, ...]
    state_dir: Path
    subnet: ipaddress.IPv4Network
    api_socket: str | None = None
    api_url: str = "http://kubernetes"
    api_token: str | None = None
    dns_domain: str = "cluster.local"
    gpu_resource: str = "nvidia.com/gpu"
    images: Mapping[str, Image] = field(default_factory=dict)
    defects: Planted = field(default_factory=Planted)
    switchable: bool = False
    pod_socket: str | None = None
    networks: tuple[str, ...] = ()
    adapters: Mapping[str, Any] = field(default_factory=dict)
    lease_seconds: int = 40
    metrics_port: int | None = None

    def is_last(self, name: str) -> bool:
        """Report whether a node is the last one, which planted defects of one node hit."""
        return name == self.nodes[-1].name

    @property
    def kubelet_socket(self) -> str:
        """Return the path of the Unix socket on which logs are served."""
        return str(self.state_dir / "kubelet.sock")


_KEYS = (
    "api_socket", "api_url", "api_token", "api_ca", "api_cert", "api_key", "api_insecure", "nodes", "state_dir",
    "subnet", "dns_domain", "gpu_resource", "images", "defects", "owner_pid", "topology_policy", "lease_seconds",
    "networks", "adapters", "pod_socket", "switchable", "metrics_port",
)  # fmt: skip
_NODE_KEYS = (
    "name", "gpus", "numa", "cpus", "memory", "pods", "labels", "extra", "topology_policy", "topology_scope",
    "cpu_policy", "memory_policy", "hardware",
)  # fmt: skip
_CHOICES = {
    "topology policy": TOPOLOGY_POLICIES, "topology scope": TOPOLOGY_SCOPES, "CPU policy": CPU_POLICIES,
    "memory policy": MEMORY_POLICIES,
}  # fmt: skip
_IMAGE_KEYS = ("entrypoint", "path", "env", "files", "empty")


def parse(line: str) -> AgentConfig:
    """Read the configuration line.

    Raises:
        ConfigError: when the line is no JSON object, a key is unknown or a value cannot be used.
    """
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"the configuration line is no JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError("the configuration line must be a JSON object")
    _known("configuration key", raw, _KEYS)
    if not raw.get("api_socket") and not raw.get("api_url"):
        raise ConfigError("api_socket (a path) or api_url is required")
    policy = str(raw.get("topology_policy", "none"))
    specs = tuple(_node(entry, policy) for entry in raw.get("nodes", ()))
    names = [spec.name for spec in specs]
    if not specs or len(set(names)) != len(names):
        raise ConfigError("nodes must be a list of at least one node, each name used once")
    state_dir = Path(str(raw.get("state_dir", "")))
    if re.search(r"[\s:,\\]", str(state_dir)):
        raise ConfigError(f"state_dir must have no space, colon, comma or backslash, got {str(state_dir)!r}")
    if not state_dir.is_absolute() or not state_dir.is_dir():
        raise ConfigError(f"state_dir must be an existing absolute folder, got {str(state_dir)!r}")
    try:
        subnet = ipaddress.IPv4Network(raw.get("subnet", "10.88.0.0/16"))
        planted = defects.check(raw.get("defects", ()))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if subnet.num_addresses < 2 * (len(specs) + 2):
        raise ConfigError(f"subnet {subnet} is too small for {len(specs)} nodes and their pods")
    config = AgentConfig(
        nodes=specs,
        state_dir=state_dir,
        api_socket=raw.get("api_socket"),
        api_url=str(raw.get("api_url", "http://kubernetes")).rstrip("/"),
        api_token=raw.get("api_token"),
        subnet=subnet,
        dns_domain=str(raw.get("dns_domain", "cluster.local")).strip("."),
        gpu_resource=str(raw.get("gpu_resource", "nvidia.com/gpu")),
        images={str(k): _image(k, v) for k, v in raw.get("images", {"*": []}).items()},
        defects=planted,
        pod_socket=raw.get("pod_socket"),
        networks=tuple(str(name) for name in raw.get("networks", ())),
        adapters=dict(raw.get("adapters") or {}),
        lease_seconds=int(raw.get("lease_seconds", 40)),
        switchable=bool(raw.get("switchable", False)),
        metrics_port=raw.get("metrics_port"),
    )
    if len(config.kubelet_socket.encode()) > SOCKET_PATH_LIMIT:
        raise ConfigError(
            f"state_dir is too long for a Unix socket below it: {config.kubelet_socket} has more than "
            f"{SOCKET_PATH_LIMIT} bytes"
        )
    return config


def _known(what: str, raw: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in raw:
        if key not in keys:
            raise ConfigError(f"unknown {what} {key!r}{did_you_mean(key, keys)}")


def _node(raw: Any, default_policy: str) -> NodeSpec:
    if not isinstance(raw, dict) or not raw.get("name"):
        raise ConfigError(f"a node must be an object with a name, got {raw!r}")
    _known("node key", raw, _NODE_KEYS)
    spec = NodeSpec(**{"topology_policy": default_policy, **raw, **_hardware(raw)})
    chosen = (spec.topology_policy, spec.topology_scope, spec.cpu_policy, spec.memory_policy)
    for (what, allowed), value in zip(_CHOICES.items(), chosen, strict=True):
        if value not in allowed:
            raise ConfigError(f"unknown {what} {value!r} of node {spec.name}{did_you_mean(value, allowed)}")
    if spec.gpus < 0 or spec.numa < 1 or spec.pods < 1 or spec.cpus < 1:
        raise ConfigError(f"node {spec.name}: gpus must be >= 0; numa, cpus and pods must be >= 1")
    try:
        parse_quantity(spec.memory)
        for value in spec.extra.values():
            parse_quantity(value)
    except QuantityError as error:
        raise ConfigError(f"node {spec.name}: {error}") from None
    return spec


def _hardware(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from a node's hardware: how many GPUs, CPUs and NUMA nodes it has."""
    if raw.get("hardware") is None:
        return {}
    try:
        found = hardware.parse(raw["hardware"])
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"node {raw['name']}: {error}") from None
    counted = {"gpus": len(found.devices), "numa": len(found.cpus), "cpus": len(found.numa_of_cpu)}
    return {"hardware": found, **{key: value for key, value in counted.items() if value or key == "gpus"}}


def _image(name: str, raw: Any) -> Image:
    if isinstance(raw, list):
        entrypoint = tuple(str(word) for word in raw)
        first = Path(entrypoint[0]).parent if entrypoint else Path()
        return Image(entrypoint, (str(first),) if first.is_absolute() else ())
    if not isinstance(raw, dict):
        raise ConfigError(f"image {name!r} must map to a list (a program) or an object, got {raw!r}")
    _known(f"key of image {name!r}", raw, _IMAGE_KEYS)
    return Image(
        tuple(map(str, raw.get("entrypoint", ()))),
        tuple(map(str, raw.get("path", ()))),
        {str(k): str(v) for k, v in raw.get("env", {}).items()},
        {str(k): str(v) for k, v in raw.get("files", {}).items()},
        tuple(map(str, raw.get("empty", ()))),
    )
