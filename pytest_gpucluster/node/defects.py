"""Planted departures of the nodes from documented behaviour, one seam each."""

from collections.abc import Collection

from pytest_gpucluster.plain.names import did_you_mean
from pytest_gpucluster.plain.planted import IMAGE_WITHOUT_CLIENT, Planted

BLOCKS_PORT = "network.blocks-rendezvous-port"
DNS_DOWN = "network.dns-down"
DNS_SILENT = "network.dns-silent"
HOSTNAME_LOOPBACK = "node.hostname-loopback"
DEVICE_UNHEALTHY = "node.device-unhealthy"
KEEPS_EXIT_ZERO = "node.keeps-exit-zero"
KEEPS_REFERENCES = "node.keeps-references"
SLOW_START = "node.slow-start"
TOPOLOGY_NONE = "node.topology-none"
TOPOLOGY_BEST_EFFORT = "node.topology-best-effort"
TOPOLOGY_RESTRICTED = "node.topology-restricted"
TOPOLOGY_CONTAINER = "node.topology-container-scope"
TOPOLOGY_STALE = "node.topology-stale"
ONE_NUMA_NODE = "node.one-numa-node"
PLUGIN_WITHOUT_NUMA = "node.plugin-without-numa"
MISALIGNED = "node.misaligned"
SHORT_ONE_GPU = "node.short-one-gpu"
SHARED_CPUS = "node.shared-cpus"
INIT_UNALIGNED = "node.init-unaligned"
LATE_PLUGIN = "node.late-plugin"
DEVICES_LEAK = "node.devices-leak"
SECOND_WITHOUT_ROUTE = "network.second-without-route"
INIT_NOT_AWAITED = "node.init-not-awaited"
KEEPS_KILLED = "node.keeps-killed"
NEVER_RESTARTS = "node.never-restarts"
SHARES_A_DEVICE = "node.shares-a-device"
CORRUPTS_COLLECTIVES = "node.corrupts-collectives"
CORRUPTS_PRODUCTS = "node.corrupts-products"
SHORT_ONE_ADAPTER = "node.short-one-adapter"
METRICS_STALE = "node.metrics-stale"
PORT_WAITS = "node.port-waits"
ROW_REMAP_PENDING = "node.row-remap-pending"
OLD_DRIVER = "node.old-driver"
UNPLACED = "node.topology-label-missing"
QUARANTINE_FORGOTTEN = "node.quarantine-forgotten"
CLAIMS_APART = "storage.node-folders"
CLAIMS_OF_PODS = "storage.pod-folders"
THROTTLED = "storage.throttled"
GATHERS = "torch.gathers-on-save"
ASYNC_WAITS = "torch.async-save-waits"
MARKS_FIRST = "torch.marks-first"

DEFECTS: dict[str, str] = {
    BLOCKS_PORT: "traffic to a TCP port that a pod declares is dropped (the job plugins declare one)",
    SECOND_WITHOUT_ROUTE: "further interfaces of pods get no route: traffic for their network takes the default route",
    DNS_DOWN: "no DNS server listens, as when CoreDNS is scaled to zero",
    DNS_SILENT: "service and pod names never resolve",
    HOSTNAME_LOOPBACK: "the pod's own host name maps to 127.0.0.1 in /etc/hosts, so that gloo listens on loopback",
    DEVICE_UNHEALTHY: "one GPU of the last node is unhealthy: it counts in capacity but not in allocatable",
    KEEPS_EXIT_ZERO: "a container's non-zero exit code is reported as 0",
    KEEPS_REFERENCES: "references to variables in a container's arguments are not expanded",
    SLOW_START: "one pod of each gang is started 3 s late",
    TOPOLOGY_NONE: "the last node runs the Topology Manager policy none",
    TOPOLOGY_BEST_EFFORT: "the last node runs the Topology Manager policy best-effort",
    TOPOLOGY_RESTRICTED: "the last node runs the Topology Manager policy restricted",
    TOPOLOGY_CONTAINER: "the last node's Topology Manager aligns each container alone",
    TOPOLOGY_STALE: "the last node's kubelet reports the configured policy, but still runs the policy best-effort",
    ONE_NUMA_NODE: "the machines have one NUMA node, but the device plugin reports two",
    PLUGIN_WITHOUT_NUMA: "the device plugin reports no NUMA node",
    MISALIGNED: "a pod that fits one NUMA node gets devices from both",
    SHORT_ONE_GPU: "the device plugin of the last node finds one GPU fewer than the others",
    SHARED_CPUS: (
        "Guaranteed pods share their whole CPUs with others, even if the kubelet's CPU Manager policy "
        "forbids it"
    ),
    INIT_UNALIGNED: "pods with init containers are admitted without a check of NUMA nodes",
    INIT_NOT_AWAITED: "containers start while the init containers of their pod still run",
    LATE_PLUGIN: "after a restart a node offers its GPUs before their device plugin is back",
    DEVICES_LEAK: "containers see all devices of their node, not only the granted ones",
    KEEPS_KILLED: "the programs of a pod that is deleted without grace go on until they end by themselves",
    NEVER_RESTARTS: "a failed container is not restarted, even if its pod's restartPolicy asks for it",
    SHARES_A_DEVICE: "the device plugin gives a container its first GPU twice and not the second",
    CORRUPTS_COLLECTIVES: "one element of each sum and gather is wrong on the last rank, as behind a faulty link",
    UNPLACED: "the last node does not tell in which rack it is",
    SHORT_ONE_ADAPTER: "the RDMA device plugin of the last node finds one adapter fewer than the others",
    ROW_REMAP_PENDING: "the driver of the last node says that a GPU has a pending row remap",
    METRICS_STALE: "the exporter of the last node answers with values that it collected once",
    PORT_WAITS: "the port of the last adapter of the last node is linked and waits for a subnet manager",
    OLD_DRIVER: "the last node has a driver that is below its security floor",
    QUARANTINE_FORGOTTEN: (
        "the last node keeps the label by which SageMaker HyperPod takes a node out of service, without a fault"
    ),
    CLAIMS_APART: "a claim is a folder of each node, not one that all nodes share",
    CLAIMS_OF_PODS: "a claim is a folder of each pod, not one that all pods share",
    THROTTLED: "what a file has beyond 32 MiB is synchronised at 3 MB/s, as on a volume without burst credits",
    GATHERS: "the torch of pods gathers the state on rank 0 and saves it there",
    ASYNC_WAITS: "the torch of pods returns from an asynchronous save 6 s after all was written",
    MARKS_FIRST: "the torch of pods writes a checkpoint's commit mark before its data",
    IMAGE_WITHOUT_CLIENT: (
        "the nodes' image of torch has no client of etcd, and the profile declares the rendezvous backend etcd-v2"
    ),
    CORRUPTS_PRODUCTS: "one element of each matrix product is wrong on the last rank, as on a GPU with damaged cores",
}

AT_START = frozenset({DNS_DOWN, SECOND_WITHOUT_ROUTE})
"""Defects that decide what is started and laid: they cannot be switched on nodes that run."""

SLOW_START_SECONDS = 3.0


def check(names: Collection[str]) -> Planted:
    """Return the defects with which nodes start.

    Raises:
        ValueError: when a name is not in the table.
    """
    for name in names:
        if name not in DEFECTS:
            raise ValueError(f"unknown defect {name!r} of the nodes{did_you_mean(name, DEFECTS)}")
    return Planted(names, at_start=AT_START)
