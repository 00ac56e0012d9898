"""One node: a container runtime, a kubelet, a proxy and a device plugin in namespaces of their own."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyroute2 import IPRoute

from . import daemons, images, links, mounts, places
from .daemons import Daemon
from .failure import Failed
from .settings import Settings

PATIENCE = 60.0
NUMA_TREE = Path("/sys/devices/system/node")
NUMA_NODES = 2


def run(number: int) -> None:
    """Bring a node up and keep its programs running."""
    settings = Settings.read()
    node = next(each for each in settings.nodes if each.number == number)
    try:
        running = _programs(node, settings)
    except (Failed, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"E {node.name}: {error}")
    daemons.keep_running(running)


def _programs(node: places.Node, settings: Settings) -> list[Daemon]:
    socket.sethostname(node.name)
    with IPRoute() as ip:
        daemons.wait("the link of this node", lambda: bool(ip.link_lookup(ifname=links.INSIDE)), 10)
    links.of_node(node, settings.nodes)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    _folders(node)
    if settings.devices == "fake":
        _numa_nodes(node)
    containerd = Daemon(
        f"{node.name}-containerd", [places.program("containerd"), "--config", _containerd(node)]
    ).start()
    control = [places.program("ctr"), "--address", str(node.containerd), "--namespace", "k8s.io"]
    daemons.wait("containerd", _answers([*control, "version"]), PATIENCE, [containerd])
    for archive in images.archives():
        subprocess.run([*control, "images", "import", "--snapshotter", "overlayfs", str(archive)], check=True)
    kubelet = Daemon(
        f"{node.name}-kubelet",
        [
            places.program("kubelet"), f"--config={_kubelet(node, settings)}", f"--node-ip={node.address}",
            f"--kubeconfig={places.kubeconfig(node.name)}", f"--hostname-override={node.name}", "--v=2",
        ],
    ).start()  # fmt: skip
    proxy = Daemon(
        f"{node.name}-kube-proxy", [places.program("kube-proxy"), f"--config={_proxy(node)}"]
    ).start()
    running = [containerd, kubelet, proxy]
    if settings.devices == "nvidia":
        # It looks for the kubelet's socket once, and watches for a new one from then on.
        sock = Path("/var/lib/kubelet/device-plugins/kubelet.sock")
        daemons.wait("the kubelet's socket for device plugins", sock.exists, PATIENCE, [kubelet])
        flags = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            sys.executable,
            "-m",
            "gpu_server",
            "device-plugin",
        ]
        plugin = Daemon(f"{node.name}-device-plugin", [*flags, str(node.number)], settings.search)
        running.append(plugin.start())
    return running


def _answers(command: list[str]) -> Callable[[], bool]:
    return lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0


def _folders(node: places.Node) -> None:
    """Give the node folders of its own where programs write to fixed places of a machine."""
    for name, target in (("var-lib", "/var/lib"), ("var-log", "/var/log")):
        own = node.folder / name
        own.mkdir(parents=True)
        mounts.bind(own, Path(target))
    mounts.tmpfs(Path("/run"))
    kubelet = Path("/var/lib/kubelet")
    kubelet.mkdir()
    mounts.bind(kubelet, kubelet)
    mounts.share(kubelet)


def _numa_nodes(node: places.Node) -> None:
    """Let the kubelet see two NUMA nodes, over which the fake plugin deals its devices; one where there is one CPU."""
    from pytest_gpucluster.provider.kind import numa_tree

    try:
        tree = numa_tree.write_numa_tree(node.folder / "numa", NUMA_NODES)
    except numa_tree.NumaTreeError:
        return
    mounts.bind(tree.folder, NUMA_TREE)


def _containerd(node: places.Node) -> Path:
    """Write the configuration of containerd and of the pod network."""
    cni = node.folder / "cni"
    cni.mkdir()
    ranges = {
        "type": "host-local",
        "dataDir": str(node.folder / "addresses"),
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [
        {
            "type": "ptp",
            "ipMasq": False,
            "mtu": 1500,
            "ipam": {**ranges, "ranges": [[{"subnet": node.pods}]]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    (cni / "10-pods.conflist").write_text(
        json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins})
    )
    path = node.folder / "containerd.toml"
    path.write_text(
        f"""version = 3
root = "{node.folder}/images"
state = "{node.folder}/containers"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.differ.v1.erofs"]
[grpc]
  address = "{node.containerd}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{images.PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{places.HOME}/programs"]
    conf_dir = "{cni}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{places.program("runc")}"
      SystemdCgroup = false
"""
    )
    return path


def _kubelet(node: places.Node, settings: Settings) -> Path:
    keys = places.certificates()
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "tlsCertFile": str(keys / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(keys / f"{node.name}.key"),
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(keys / "ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{node.containerd}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{places.GROUP}/{node.name}",
        # The machine is shared with other nodes and with whoever brought them up: no node may claim all of it.
        "enforceNodeAllocatable": [],
        "failCgroupV1": settings.control_groups == 2,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "clusterDNS": [places.DNS_SERVICE],
        "clusterDomain": places.DOMAIN,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        # As the clusters of `--cluster=kind` are.
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "cpuManagerPolicy": "none",
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
    }
    return _written(node, "kubelet", config)


def _proxy(node: places.Node) -> Path:
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(places.kubeconfig("proxy"))},
        "hostnameOverride": node.name,
        "mode": "iptables",
        "clusterCIDR": places.PODS,
        "oomScoreAdj": 0,
        # What only the machine as a whole has.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return _written(node, "kube-proxy", config)


def _written(node: places.Node, name: str, config: object) -> Path:
    path = node.folder / f"{name}.json"
    path.write_text(json.dumps(config, indent=1))
    return path
