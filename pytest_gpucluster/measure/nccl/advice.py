"""Likely causes of what a log shows, each with the fix that NCCL's guide or the field gives."""

from typing import TYPE_CHECKING, NamedTuple

from pytest_gpucluster.measure.nccl import networks

if TYPE_CHECKING:
    from pytest_gpucluster.measure.nccl.facts import Facts


class Advice(NamedTuple):
    """A cause and its fix."""

    cause: str
    fix: str


DISABLED = Advice(
    "NCCL_IB_DISABLE is set, often by ENV in the image or by /etc/nccl.conf, so no manifest shows it",
    "unset NCCL_IB_DISABLE in image, pod and configuration files; NCCL_IB_DISABLE=0 alone forces nothing",
)
FORCED_SOCKET = Advice(
    "NCCL_NET names Socket",
    "set NCCL_NET to the declared network (IB, or the name of its plugin), or unset it",
)
NO_DEVICE = Advice(
    "the pod has no InfiniBand or RoCE device that it can open, so NCCL silently uses sockets",
    "request the device in the pod (rdma/..., nvidia.com/..., or the claim of its DRA class), allow IPC_LOCK, "
    "and check "
    "with ibv_devinfo inside the pod that a port is ACTIVE",
)
NO_AMD_DEVICE = Advice(
    NO_DEVICE.cause,
    "request the device in the pod (rdma/..., amd.com/nic, or the claim of its DRA class), allow IPC_LOCK, and check "
    "with ibv_devinfo inside the pod that a port is ACTIVE",
)
NO_VERBS = Advice(
    "the image lacks libibverbs or the provider library of the adapter",
    "install rdma-core (libibverbs1, ibverbs-providers) in the image",
)
NO_PLUGIN_DEVICE = Advice(
    "the network plugin found no device, so NCCL used the next network",
    "request the device (vpc.amazonaws.com/efa and the like) in the pod, and set NCCL_NET to the plugin's name "
    "so that a missing device is an error",
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
    "this network is GPUDirect-TCPX or FasTrak: it is neither RDMA nor a fallback",
    "judge such a cluster by its own declaration and bandwidth floor, not as RDMA",
)
ADAPTERS = Advice(
    "NCCL_IB_HCA names other adapters, or the pods have other ones than expected",
    "compare NCCL_IB_HCA and ibv_devices inside the pods with the adapters that are expected (--hcas)",
)
HCA_FILTER = Advice(
    "NCCL_IB_HCA may match none of the adapters that the pod has",
    "compare its names with ibv_devices inside the pod; the list is matched by prefix unless it begins with `=`",
)
PEERMEM_MAYBE = Advice(
    "nothing in the log says whether nvidia-peermem or DMA-BUF works on the nodes",
    "run with NCCL_DEBUG_SUBSYS=INIT,NET and read `GPU Direct RDMA Enabled (or Disabled) for HCA`; on the "
    "host: lsmod | "
    "grep nvidia_peermem",
)
PEERMEM = Advice(
    "neither nvidia-peermem nor DMA-BUF works on the node, so each transfer goes through host memory",
    "load nvidia-peermem on the host (or open kernel modules with DMA-BUF, kernel 5.12+), restart the pod, "
    "and compare "
    "with `GPU Direct RDMA Enabled for HCA` under NCCL_DEBUG_SUBSYS=INIT,NET",
)
EFA_GDR = Advice(
    "the EFA plugin did not reach the GPU's memory: some instance types have no GPUDirect RDMA, and where there is one "
    "the EFA driver needs DMA-BUF, or its own peer memory module",
    "look at the instance type; inside the pod `fi_info -p efa -c FI_HMEM` shows whether GPU memory can be registered; "
    "use one release of EFA installer, libfabric and aws-ofi-nccl on node and in image",
)
OFI_GDR = Advice(
    "the provider of libfabric was not given the GPU's memory (FI_HMEM), so each transfer goes through host memory",
    "inside the pod `fi_info -c FI_HMEM` lists the providers that can; use a libfabric that was built with the GPU's "
    "runtime, and the driver module of that network",
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
    "unset NCCL_NET_GDR_READ, or allow receive-only if the hardware requires it",
)
RCCL_DMABUF = Advice(
    "RCCL found no peer memory module, and DMA-BUF is off there by default",
    "load the peer memory support of the driver, or set NCCL_DMABUF_ENABLE=1",
)
_BALANCING = "RCCL turns GPUDirect RDMA off while kernel.numa_balancing=1 and NCCL_IB_PCI_RELAXED_ORDERING=0"
_BALANCING_FIX = (
    "set sysctl kernel.numa_balancing=0 on the nodes, or drop the setting NCCL_IB_PCI_RELAXED_ORDERING=0"
)
NUMA_BALANCING = Advice(f"on Hyper-V {_BALANCING}; the log shows both", _BALANCING_FIX)
NUMA_BALANCING_IF = Advice(
    f"if the nodes are guests of Hyper-V (cat /sys/class/dmi/id/bios_version): there {_BALANCING}",
    _BALANCING_FIX,
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
    "every process is a job of one rank: nccl-tests was built without MPI=1, or was not started by mpirun or srun",
    "build it with MPI=1 MPI_HOME=..., or start it with one process and -g for all GPUs of one node",
)
WRONG_DATA = Advice(
    "data arrived corrupted, or a figure was damaged in transit",
    "run the same test with NCCL_PROTO=Simple and over TCP to compare; drain the node whose pairwise test is "
    "wrong",
)
FIRST = Advice(
    "a call of NCCL failed with this warning", "read the message; it is the first error of this rank"
)
SIGN = Advice(
    "an error that other errors usually cause came after this line: the line may tell the cause, or have none of it",
    "look at what it names, on its host and at its time, before you look at the ranks that only waited",
)
ABORTED = Advice(
    "a communicator is aborted after an error or a time-out of any rank; PyTorch up to 2.5 also ends good jobs "
    "in this way, on all ranks alike",
    "look at how the processes ended (exit code, the last lines of each rank)",
)
UNFINISHED = Advice(
    "the rank never finished its initialisation (another rank did not join, or an adapter did not answer), "
    "or its log lacks lines",
    "read the rank's last output, and compare with the others; set NCCL_DEBUG_FILE with %h and %p in it",
)
UNKNOWN_WARNING = Advice(
    "NCCL, a plugin or the program prints an unknown warning",
    "read the line; a warning prevents a pass unless it is known to be harmless",
)
UNEVEN = Advice(
    "a rank cannot use all adapters that other ranks use: such a job may hang",
    "open every device of /dev/infiniband in each pod (ibv_devinfo), and name the same adapters in NCCL_IB_HCA",
)
NO_P2P = Advice(
    "P2P is switched off (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL), or the GPUs cannot reach each other",
    "unset the variables; look at `nvidia-smi topo -p2p r` (AMD: amd-smi topology) and at ACS on the node",
)
NODES = Advice(
    "logs of other nodes are missing or too many, or pods share a machine: for NCCL each host name is a node",
    "give the machines of the pods with --pod-node POD=NODE, and their number with --nodes",
)
STRIPPED = Advice(
    "the collector or launcher stripped the prefix `host:pid:tid` of NCCL's lines",
    "take the log as NCCL wrote it: NCCL_DEBUG_FILE=DIR/%h.%p writes one per process",
)
TORN = Advice(
    "output of several ranks was mixed or tagged within a line, or a line has an unknown shape: it may hold the "
    "decisive fact",
    "write files: NCCL_DEBUG_FILE=DIR/%h.%p for NCCL, -J FILE for nccl-tests",
)
ODD_FIGURES = Advice(
    "the figures contradict each other: lines were mixed, or the clock or the program is wrong",
    "run the test again, with -J FILE",
)
SLOW = Advice(
    "the test was given a minimum bandwidth (NCCL_TESTS_MIN_BW), but did not reach it",
    "check the transports, adapters and GPUDirect in the connection lines, then single links",
)
UNKNOWN_NETWORK = Advice(
    "the network comes from an unknown plugin",
    "declare its class: --network NAME=rdma (or tcp, gpudirect_tcp)",
)
TELL = Advice("a pass needs every rank and every node", "give both: --ranks N --nodes M")
ALL_RANKS = Advice(
    "logs of some ranks are missing, were rotated away, or have been cut",
    "give the logs of all ranks: NCCL_DEBUG_FILE=DIR/%h.%p writes one per process, which nothing merges or cuts",
)
SPREAD = Advice(
    "the scheduler placed the pods on one node", "require one pod per node (pod anti-affinity or a DaemonSet)"
)
FOLDED = Advice("Ray folds lines that resemble each other", "set RAY_DEDUP_LOGS=0, or write NCCL_DEBUG_FILE")
CUT = Advice(
    "the log was cut while it was written, or is not text",
    "write NCCL_DEBUG_FILE, and read it after the job has ended",
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
    "the ranks are on one node, so no network is used",
    "judge ranks of several nodes; to try the network on one node set NCCL_P2P_DISABLE=1 and "
    "NCCL_SHM_DISABLE=1",
)


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
        found.append(no_device(facts))
        if "NCCL_IB_HCA" in facts.settings:
            found.append(HCA_FILTER)
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
    if facts.gdr != "recv_only" and facts.seen.rocm:
        found = [*of_rccl_gdr(facts), *found]
    elif facts.gdr != "recv_only":
        found += of_libfabric(facts) or of_adapters(facts)
        if DISTANCE not in found:
            found.append(DISTANCE)
    return tuple(dict.fromkeys(found))


def no_device(facts: "Facts") -> Advice:
    """Return what to do for a pod that has no device, in the words of its GPUs' vendor."""
    return NO_AMD_DEVICE if facts.seen.rocm else NO_DEVICE


def of_libfabric(facts: "Facts") -> list[Advice]:
    """Return why libfabric does without GPUDirect RDMA; nothing where it is another network that does."""
    without = {
        path.name for path in facts.paths if path.carrier and path.carrier != networks.TCP and not path.gdr
    }
    names = without or set(facts.selected)
    if not names or not all(networks.is_libfabric(name) for name in names):
        return []
    return [EFA_GDR if any(one.lower().startswith("efa") for one in facts.providers) else OFI_GDR]


def of_adapters(facts: "Facts") -> list[Advice]:
    """Return why NCCL's own network does without GPUDirect RDMA, by what it says of its adapters."""
    able = {one for _, one, _ in facts.seen.adapters_gdr}
    if able == {True}:
        return []
    return [PEERMEM if False in able else PEERMEM_MAYBE]


def of_rccl_gdr(facts: "Facts") -> list[Advice]:
    """Return why RCCL does without GPUDirect RDMA.

    On Hyper-V (the firmware's version says so) RCCL switches it off where the kernel balances NUMA pages and relaxed
    ordering is switched off; elsewhere it wants the driver's peer memory, or DMA-BUF that is asked for.
    """
    balancing = any("NUMA auto balancing" in text for text in facts.seen.noted)
    ordering = "0" in facts.settings.get("NCCL_IB_PCI_RELAXED_ORDERING", {})
    guest = any("azure" in kernel for kernel in facts.seen.kernels)
    if balancing and ordering:
        return [NUMA_BALANCING if guest else NUMA_BALANCING_IF, *(() if guest else (RCCL_DMABUF,))]
    return [RCCL_DMABUF]


def of_silence(facts: "Facts") -> tuple[Advice, ...]:
    """Return why no connection over a network is seen."""
    if not facts.seen.records:
        return (QUIET,)
    if facts.nnodes == 1 or facts.paths:
        return (ONE_NODE,)
    return (LAZY, ALL_RANKS)
