"""Likely causes of what a log shows, each with the fix that NCCL's guide or the field gives."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_gpucluster.measure.nccl.facts import Facts
    from pytest_gpucluster.measure.nccl.faults import Fault


class Advice(NamedTuple):
    """A cause and its fix."""

    cause: str
    fix: str


DISABLED = Advice(
    "NCCL_IB_DISABLE is set, often by ENV in the image or by /etc/nccl.conf, where no manifest shows it",
    "unset NCCL_IB_DISABLE in image, pod and configuration files; NCCL_IB_DISABLE=0 alone forces nothing",
)
FORCED_SOCKET = Advice(
    "NCCL_NET names Socket",
    "set NCCL_NET to the declared network (IB, or the name of its plugin), or unset it",
)
NO_DEVICE = Advice(
    "the pod has no InfiniBand or RoCE device that it can open, so that NCCL goes on with sockets without a "
    "word",
    "request the device in the pod (rdma/..., nvidia.com/..., or the claim of its DRA class), allow IPC_LOCK, "
    "and check "
    "with ibv_devinfo inside the pod that a port is ACTIVE",
)
NO_VERBS = Advice(
    "the image lacks libibverbs or the provider library of the adapter",
    "install rdma-core (libibverbs1, ibverbs-providers) in the image",
)
NO_PLUGIN_DEVICE = Advice(
    "the network plugin found no device of its own, so that NCCL went on with the next network",
    "request the device (vpc.amazonaws.com/efa and the like) in the pod, and set NCCL_NET to the plugin's "
    "name so that "
    "a missing device is an error",
)
FORCE = Advice(
    "NCCL takes the next network that starts, by design without an error",
    "set NCCL_NET to the declared network in test jobs: then a fallback is an error",
)
LIBFABRIC_TCP = Advice(
    "libfabric chose a provider that runs over TCP",
    "set FI_PROVIDER to efa, cxi or verbs, and request the device in the pod; `fi_info -p efa` shows what it "
    "sees",
)
GPUDIRECT_TCP = Advice(
    "this network is GPUDirect-TCPX or FasTrak: no RDMA, and no fallback either",
    "judge such a cluster by its own declaration and bandwidth floor, not as RDMA",
)
PEERMEM = Advice(
    "neither nvidia-peermem nor DMA-BUF works on the node, so that each transfer goes through host memory",
    "load nvidia-peermem on the host (or open kernel modules with DMA-BUF, kernel 5.12+), restart the pod, "
    "and compare "
    "with `GPU Direct RDMA Enabled for HCA` under NCCL_DEBUG_SUBSYS=INIT,NET",
)
DISTANCE = Advice(
    "GPU and adapter are farther apart than NCCL_NET_GDR_LEVEL allows",
    "place GPU and NIC under one PCIe switch; in virtual machines pass the topology through (NCCL_TOPO_FILE), "
    "or raise "
    "NCCL_NET_GDR_LEVEL (LOC, PIX, PXB, PHB, SYS: other words are ignored)",
)
READ_OFF = Advice(
    "GPUDirect reads (the sending side) are off: by NCCL_NET_GDR_READ=0, or by default on GPUs before Ampere "
    "without NVLink",
    "unset NCCL_NET_GDR_READ, or allow receive-only where the hardware is such",
)
RCCL_DMABUF = Advice(
    "RCCL found no peer memory module, and DMA-BUF is off there by default",
    "load the peer memory support of the driver, or set NCCL_DMABUF_ENABLE=1",
)
MIXED_NETWORKS = Advice(
    "images or environments of the ranks differ: a plugin on part of the nodes, or a fallback on some; such a "
    "job hangs",
    "give all ranks the same image, plugin and NCCL_NET; mpirun passes variables to other nodes only with -x",
)
SMALL_WORLD = Advice(
    "not all ranks joined one communicator: the launcher formed a world per node or process, or ranks are "
    "missing",
    "give every process the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE (torchrun: --rdzv-endpoint and "
    "--nnodes), and "
    "build nccl-tests with MPI=1",
)
NO_MPI = Advice(
    "nccl-tests was built without MPI=1, so that every process is a job of one rank",
    "build it with MPI=1 MPI_HOME=..., or start it with one process and -g for all GPUs of one node",
)
WRONG_DATA = Advice(
    "data arrived corrupted, or a figure was spoilt on the way",
    "run the same test with NCCL_PROTO=Simple and over TCP to compare; drain the node whose pairwise test is "
    "wrong",
)
PROGRAM = Advice(
    "the program ended with an error of NCCL or of a GPU",
    "look at the first warning of any rank; later ones follow from it",
)
UNKNOWN_NETWORK = Advice(
    "the network comes from a plugin whose name is not known here",
    "tell what it is: --network NAME=rdma (or tcp, gpudirect_tcp)",
)
TELL = Advice("a pass needs every rank and every node", "tell both: --ranks N --nodes M")
ALL_RANKS = Advice(
    "logs of some ranks are missing, were rotated away, or have been cut",
    "give the logs of all ranks: NCCL_DEBUG_FILE=DIR/%h.%p writes one a process, which nothing glues or tears",
)
SPREAD = Advice(
    "the scheduler placed the pods on one node", "require one pod a node (pod anti-affinity or a DaemonSet)"
)
FOLDED = Advice("Ray folds lines that resemble each other", "set RAY_DEDUP_LOGS=0, or write NCCL_DEBUG_FILE")
CUT = Advice(
    "the log was cut while it was written, or is no text",
    "write NCCL_DEBUG_FILE, and read it when the job has ended",
)
ONE_JOB = Advice("logs of several jobs are in one stream", "judge one job at a time")
QUIET = Advice(
    "NCCL_DEBUG is WARN or unset: then NCCL says nothing about transports, not even of a fallback",
    "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH",
)
LAZY = Advice(
    "from 2.22 connections are made by the first collective, and the log ends before it",
    "run a collective, or set NCCL_RUNTIME_CONNECT=0 so that connections are made at the start",
)
ONE_NODE = Advice(
    "the ranks are on one node, where no network is used",
    "judge ranks of several nodes; to try the network on one node set NCCL_P2P_DISABLE=1 and "
    "NCCL_SHM_DISABLE=1",
)

_RETRY = Advice(
    "the adapters cannot reach each other (status 12): wrong GID or VLAN, no PFC, or rails that are not joined",
    "leave NCCL_IB_GID_INDEX unset (automatic since 2.21), set NCCL_CROSS_NIC=0 on rail-only fabrics, and try "
    "ib_write_bw between the two adapters",
)
_STATUS = {
    4: Advice(
        "memory that the adapter may not touch (status 4): PCIe ACS is on, or GPUDirect is broken",
        "switch ACS off on the PCIe switches (or in the host's firmware), then try NCCL_NET_GDR_LEVEL=LOC to "
        "compare",
    ),
    5: Advice("flushed (status 5): another error came first", "look at the first warning of any rank"),
    12: _RETRY,
    13: Advice("the receiver was not ready (status 13): its process is gone or stuck", "look at the log of the peer"),
}  # fmt: skip
_ERRNO = {
    19: Advice(
        "the GID belongs to a network namespace other than the pod's (errno 19): its index differs between "
        "pods",
        "leave NCCL_IB_GID_INDEX unset, and give the pod a RoCE v2 GID of its own (attach the secondary "
        "network)",
    ),
    22: Advice(
        "the queue pair was given a value that the adapter refuses (errno 22)",
        "leave NCCL_IB_GID_INDEX, NCCL_IB_TC and NCCL_IB_SL unset, and compare MTU and link layer of both ends",
    ),
    110: Advice(
        "the other end did not answer (errno 110): no route between the GIDs",
        "check the route, the VLAN and the address of the secondary network in both pods, and ping between "
        "them",
    ),
}
_FAULTS = {
    "net_init": Advice(
        "the network that NCCL_NET demands did not start; without it NCCL would have fallen back in silence",
        "give the pod the device or the plugin, or correct the name in NCCL_NET",
    ),
    "incompatible_hca": Advice(
        "an InfiniBand and an Ethernet adapter were paired",
        "name the adapters of one kind in NCCL_IB_HCA, exactly: `=mlx5_0,mlx5_1`",
    ),
    "socket_connect": Advice(
        "the address that a rank announced cannot be reached: wrong interface (docker0, link-local), a "
        "firewall, or the rank is gone",
        "set NCCL_SOCKET_IFNAME to the pod network's interface (`=eth0`), and allow traffic between the pods "
        "on all ports",
    ),
    "socket_closed": Advice("another rank died first", "look at the first warning of any rank"),
    "shm": Advice(
        "shared memory (/dev/shm) is too small: 64 MiB in a container by default",
        "mount an emptyDir with medium: Memory at /dev/shm, and count it in the memory limit",
    ),
    "bad_socket_ifname": Advice(
        "NCCL_SOCKET_IFNAME matches no interface of the pod",
        "name an interface that exists in every pod (`ip -brief address`), exactly: `=eth0`",
    ),
    "imex": Advice(
        "the pod has no IMEX channel, or the IMEX domain is broken",
        "claim a ComputeDomain in the pod; on the node check nvidia-imex-ctl -N and "
        "/dev/nvidia-caps-imex-channels",
    ),
    "watchdog_timeout": Advice(
        "a collective did not end: if it was the first, ranks could not connect; else one rank stopped or "
        "took another path",
        "look at the first warning of any rank and at the rank that did not time out; "
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
        "records what each rank waited for",
    ),
    "mixed_versions": Advice("ranks run different versions of NCCL", "give all ranks the same image"),
}  # fmt: skip


def of_fault(fault: "Fault") -> tuple[Advice, ...]:
    """Return what to do about an error."""
    if fault.kind == "ib_completion_error":
        return (_STATUS.get(fault.status, _RETRY),)
    if fault.kind == "ibv_modify_qp":
        return (_ERRNO.get(fault.status, _ERRNO[22]),)
    known = _FAULTS.get(fault.kind)
    return (known,) if known else ()


def of_fallback(facts: "Facts") -> tuple[Advice, ...]:
    """Return why ranks use TCP, by what else the log says."""
    found: list[Advice] = []
    if "ib_disabled_by_env" in facts.errors:
        found.append(DISABLED)
    forced = facts.settings.get("NCCL_NET", {})
    if any(value.lower().endswith("socket") for value in forced):
        found.append(FORCED_SOCKET)
    if "no_libibverbs" in facts.errors:
        found.append(NO_VERBS)
    if "plugin_init" in facts.errors:
        found.append(NO_PLUGIN_DEVICE)
    if any(name.lower().startswith(("tcp", "sockets")) for name in facts.providers):
        found.append(LIBFABRIC_TCP)
    if {"no_ib_device", "ib_open_failed"} & set(facts.errors) and DISABLED not in found:
        found.append(NO_DEVICE)
    return (*found, FORCE)


def of_no_gdr(facts: "Facts") -> tuple[Advice, ...]:
    """Return why GPUDirect RDMA is not used, by what else the log says."""
    found: list[Advice] = []
    if facts.gdr == "recv_only" or "0" in facts.settings.get("NCCL_NET_GDR_READ", {}):
        found.append(READ_OFF)
    if any("memory_peers" in fault.detail for fault, _ in facts.fault.values()):
        found.append(RCCL_DMABUF)
    if any(not able for _, able, _ in facts.seen.pairs_gdr) or "NCCL_NET_GDR_LEVEL" in facts.settings:
        found.append(DISTANCE)
    if facts.gdr != "recv_only":
        found.append(PEERMEM)
        if DISTANCE not in found:
            found.append(DISTANCE)
    return tuple(found)


def of_silence(facts: "Facts") -> tuple[Advice, ...]:
    """Return why no connection over a network is seen."""
    if not facts.seen.records:
        return (QUIET,)
    if facts.nnodes == 1 or facts.paths:
        return (ONE_NODE,)
    return (LAZY, ALL_RANKS)
