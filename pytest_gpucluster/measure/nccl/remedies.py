"""Likely causes of errors by their class and, where a class covers several, by the number or the words that it has."""

import re
from typing import TYPE_CHECKING

from pytest_gpucluster.measure.nccl import gpu_remedies
from pytest_gpucluster.measure.nccl.advice import Advice

if TYPE_CHECKING:
    from pytest_gpucluster.measure.nccl.faults import Fault

_LOOK = "look at the earliest error of any rank: it causes the later ones"
_REACH = Advice(
    "the adapters cannot reach each other (status 12, retries exceeded): a lost link or rank, a wrong GID or "
    "VLAN, no PFC, or unconnected rails",
    "check whether the peer had an error first; leave NCCL_IB_GID_INDEX unset (automatic since 2.21), set "
    "NCCL_CROSS_NIC=0 on rail-only fabrics, and try ib_write_bw between the two adapters",
)
_STATUS = {
    1: Advice(
        "a message was longer than the buffer that waits for it (status 1, length error): both ends disagree on "
        "the message",
        "compare versions, environment and sizes of the collective on both ranks; a different MTU or setting "
        "does not give this status",
    ),
    2: Advice(
        "the queue pair was used wrongly (status 2, operation error)",
        "update NCCL and the adapter's firmware",
    ),
    4: Advice(
        "the adapter may not access the memory (status 4, protection error): PCIe ACS is on, or GPUDirect is broken",
        "switch ACS off on the PCIe switches (or in the host's firmware), then try NCCL_NET_GDR_LEVEL=LOC to compare",
    ),
    5: Advice("flushed (status 5): another error came first", _LOOK),
    6: Advice(
        "a memory window could not be bound (status 6)",
        "update the adapter's driver and firmware",
    ),
    7: Advice(
        "the answer was not understood (status 7, bad response)",
        "update firmware on both ends, look at the link's error counters (ibstat, perfquery)",
    ),
    8: Advice(
        "the adapter could not use its own memory (status 8, local access error): GPU memory that was "
        "unmapped, or ACS",
        "look for errors of the GPU and the process on this rank first; then ACS on the PCIe switches",
    ),
    9: Advice(
        "the other end refused the request (status 9, remote invalid request): sizes or versions differ",
        "compare versions and environment of both ranks; look at the peer's log",
    ),
    10: Advice(
        "the other end refused access to its memory (status 10, remote access error): it freed or lost it, often "
        "because its process ended",
        "look at the peer's log at the same time",
    ),
    11: Advice(
        "the other end's adapter could not finish (status 11, remote operation error)",
        "look at the peer's log, and at the adapter of its node (dmesg, mlxlink)",
    ),
    12: _REACH,
    13: Advice(
        "the receiver was not ready (status 13): its process is gone or stuck",
        "look at the log of the peer",
    ),
    21: Advice(
        "the adapter failed (status 21, fatal error)",
        "look at dmesg of the node; reset or replace the adapter",
    ),
    22: Advice(
        "the answer took too long (status 22, response timeout)",
        "look at the peer's log, and raise NCCL_IB_TIMEOUT to compare",
    ),
}  # fmt: skip
_ERRNO = {
    19: Advice(
        "no such device (errno 19): the GID belongs to a network namespace other than the pod's (its index differs "
        "between pods), or the adapter is gone",
        "look at ibv_devinfo -v inside the pod (is the adapter, is the GID there); leave NCCL_IB_GID_INDEX "
        "unset, and give the pod its own RoCE v2 GID (attach the secondary network)",
    ),
    22: Advice(
        "the queue pair was given a value that the adapter refuses (errno 22)",
        "leave NCCL_IB_GID_INDEX, NCCL_IB_TC and NCCL_IB_SL unset, and compare MTU and link layer of both ends",
    ),
    110: Advice(
        "the other end did not answer (errno 110): no route between the GIDs, a lost link, or its rank is gone",
        "check the route, the VLAN and the address of the secondary network in both pods, and ping between them",
    ),
    113: Advice(
        "no route to the other end's address (errno 113)",
        "give both pods an address in one network (ip route get ADDRESS inside the pod), or a route between theirs",
    ),
    101: Advice(
        "the pod has no route to the other end's network (errno 101)",
        "attach the secondary network to both pods, and look at `ip route` inside them",
    ),
}  # fmt: skip
_LOCKED = Advice(
    "memory cannot be registered with the adapter: the locked-memory limit (memlock) of the container is too small, or "
    "IPC_LOCK is not allowed",
    "allow IPC_LOCK in securityContext.capabilities.add, and look at `ulimit -l` inside the container (unlimited): the "
    "limit comes from the container runtime's service (LimitMEMLOCK)",
)
_PINNED = Advice(
    "memory cannot be registered with the adapter: nvidia-peermem or DMA-BUF on the GPU's side, locked memory, or ACS",
    "look at `ulimit -l` and IPC_LOCK in the container and at dmesg of the node; NCCL_NET_GDR_LEVEL=LOC shows "
    "whether only GPU memory is refused",
)
_PROCESS = Advice("the process of this rank ended by itself, or was killed", "read its last lines before the error, "
                  "`kubectl get pod -o yaml` (exit code, OOMKilled) and dmesg of its node")  # fmt: skip
_FAULTS = {
    "net_init": Advice(
        "no network could be started: the one that NCCL_NET names, where it is set, or not even sockets",
        "look at NCCL_NET and at the lines about each network before this one; give the pod the device, the plugin or "
        "an interface",
    ),
    "incompatible_hca": Advice(
        "an InfiniBand and an Ethernet adapter were paired",
        "name the adapters of one kind in NCCL_IB_HCA, exactly: `=mlx5_0,mlx5_1`",
    ),
    "socket_closed": Advice(
        "the other end closed the connection: its rank died first, or something between them (proxy, firewall) cut it",
        _LOOK,
    ),
    "shm": Advice(
        "shared memory (/dev/shm) is too small (64 MiB in a container by default), or may not be used",
        "look at df -h /dev/shm in the pod while it runs; mount an emptyDir with medium: Memory there, and count it in "
        "the memory limit",
    ),
    "bad_socket_ifname": Advice(
        "NCCL_SOCKET_IFNAME matches no interface of the pod, or the pod has none that NCCL accepts",
        "name an interface that exists in every pod (`ip -brief address`), exactly: NCCL_SOCKET_IFNAME==eth0",
    ),
    "imex": Advice(
        "the pod has no IMEX channel, or the IMEX domain is broken",
        "claim a ComputeDomain in the pod; on the node check nvidia-imex-ctl -N and /dev/nvidia-caps-imex-channels",
    ),
    "watchdog_timeout": Advice(
        "a collective did not end: if it was the first, ranks could not connect; otherwise one rank stopped or "
        "took another path",
        "look at the first error of any rank and at the rank that did not time out; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
        "records what each rank waited for",
    ),
    "mixed_versions": Advice("ranks run different versions of NCCL", "give all ranks the same image"),
    "verbs_call": Advice(
        "the verbs library refused a call: the adapter has no room (queue pairs, memory), is gone, or may not be used",
        "read the message of the call; look at dmesg of the node, ibv_devinfo inside the pod, and `ulimit -l`",
    ),
    "ib_async_fatal": Advice(
        "the adapter reported a fatal event of itself or of a connection",
        "look at dmesg of this node for the adapter (mlx5_core, ionic, bnxt_re), and at the peer for an earlier error",
    ),
    "ib_port_error": Advice(
        "the link of an adapter of this node went down: cable, transceiver, adapter port, or the switch's port",
        "on the node: ibstat (or ethtool) and mlxlink for state and error counters; then the switch's port, and swap "
        "cable and port in turn",
    ),
    "ofi_error": Advice(
        "libfabric ended a transfer with an error: the peer is gone, or the network (EFA: security group) blocks "
        "it",
        "read the error message; check whether the peer had an error first, and allow all traffic within the security "
        "group",
    ),
    "gpu_lost": Advice(
        "a GPU fell off the bus",
        "look at dmesg of its node for Xid 79, cordon the node, and reset or replace the GPU",
    ),
    "driver_mismatch": Advice(
        "driver and library of the node do not match, often after an update without a restart",
        "run nvidia-smi on the node; restart it, or reload the driver; use an image with a CUDA version "
            "that the driver supports",
    ),
    "duplicate_gpu": Advice(
        "two ranks took the same GPU: the launcher gave both the same local rank, or the container sees fewer GPUs "
        "than it starts ranks",
        "set the device by LOCAL_RANK, start as many ranks as the pod has GPUs, and compare CUDA_VISIBLE_DEVICES",
    ),
    "proxy_failed": Advice(
        "NCCL's proxy could not serve a rank's request, mostly because the peer or the network failed", _LOOK
    ),
    "message_truncated": Advice(
        "two ranks disagree on the size of a message: they are in different collectives, pass different sizes, "
        "or another program used the port",
        "compare what the ranks call (TORCH_DISTRIBUTED_DEBUG=DETAIL), versions, and NCCL_ settings over ranks",
    ),
    "nvls": Advice(
        "NVLink SHARP (NVLS) could not get its memory, by one of: the fabric manager of the node does not run or has "
        "another version than the driver, the pod has only some GPUs of the switch, or other processes use its "
        "memory up",
        "to tell which: on the node systemctl status nvidia-fabricmanager and its log, nvidia-smi -q (Fabric: State); "
        "NCCL_NVLS_ENABLE=0 works without it",
    ),
    "out_of_memory": gpu_remedies.OUT_OF_MEMORY,
    "plugin_daemon": Advice(
        "the receive daemon of the plugin (RxDM, container tcpxo-daemon or tcpx-daemon) does not exist or has ended",
        "read the daemon's log: kubectl logs POD --previous -c tcpxo-daemon (or tcpx-daemon); it must start before the "
        "ranks and stay, and share /run/tcpx or the socket's folder with them",
    ),
    "daemon_gpus": Advice(
        "the receive daemon did not find all GPUs of the node, and ends",
        "give the daemon's container all GPUs and /sys of the node, compare `nvidia-smi -L` with the PCI tree (lspci), "
        "and replace the node if one is missing",
    ),
    "bootstrap_mismatch": Advice(
        "ranks disagree on the world: two have the same number, or they were given different sizes",
        "compare RANK and WORLD_SIZE of all ranks, and use a fresh address or port for each job",
    ),
    "async_error": Advice("the communicator had an error before this line", _LOOK),
    "nccl_result": Advice("the program ended with an error of NCCL or of a GPU", _LOOK),
    "process_ended": _PROCESS,
    "last_error": Advice("NCCL's last error, as the program quotes it", "read the message: its cause is not known"),
}  # fmt: skip
_BY_WORDS: tuple[tuple[str, "re.Pattern[str]", Advice], ...] = (
    ("net_init", re.compile(r"Error: network \S+ not found|network .{1,80} not found"), Advice(
        "the network that NCCL_NET demands did not start; without NCCL_NET, NCCL would have fallen back silently",
        "give the pod the device or the plugin, or correct the name in NCCL_NET",
    )),
    ("shm", re.compile(r"No space left|Cannot allocate memory|\(error 28\)"), Advice(
        "shared memory (/dev/shm) is too small: 64 MiB in a container by default",
        "mount an emptyDir with medium: Memory at /dev/shm, and count it in the memory limit",
    )),
    ("shm", re.compile(r"[Pp]ermission denied|not permitted"), Advice(
        "the process may not use /dev/shm: another user, a read-only mount or a security profile",
        "look at ls -ld /dev/shm in the pod, and at its security context",
    )),
    ("shm", re.compile(r"No such file or directory"), Advice(
        "another rank's shared memory is not to be seen: the ranks are in different containers, or that rank has ended",
        "put all ranks of a node into one container, or share /dev/shm between them; look for an earlier error of that "
        "rank",
    )),
    ("shm", re.compile(r"[Tt]oo many open files"), Advice(
        "the limit of open files is used up", "raise `ulimit -n` of the container's runtime",
    )),
    ("driver_mismatch", re.compile(r"insufficient|Driver Version found is"), Advice(
        "the node's driver is too old for the image's CUDA",
        "use an image with an older CUDA, or update the driver (nvidia-smi shows the newest CUDA that it supports)",
    )),
    ("out_of_memory", re.compile(r"[Ff]ailed to malloc|malloc\(size"), Advice(
        "the memory of the container or of the host is used up",
        "look at the container's memory limit and at dmesg of its node (oom-kill)",
    )),
    ("plugin_daemon", re.compile(r"^(?!.*(?:[Rr]efused|[Nn]o such file|UNAVAILABLE|[Uu]navailable|connect)).*"
                                 r"(?:[Ff]ail|[Ee]rror)", re.DOTALL), Advice(
        "the receive daemon of the plugin (RxDM) reports an error of its own",
        "read its message, and its log: kubectl logs POD -c tcpxo-daemon (or tcpx-daemon); it needs all GPUs and "
        "adapters of the node",
    )),
)  # fmt: skip
"""(class, what the message says, its cause): where a class covers several causes that the words tell apart."""
_REFUSED = Advice(
    "nothing listens at the address that a rank announced: its process has ended, or it is the address of "
    "another host",
    "check whether that rank had an error first; otherwise set NCCL_SOCKET_IFNAME to the pod network's "
    "interface (`=eth0`)",
)
_UNREACHED = Advice(
    "the address that a rank announced cannot be reached: wrong interface (docker0, link-local), a firewall, or the "
    "rank is gone",
    "set NCCL_SOCKET_IFNAME to the pod network's interface (`=eth0`), and allow traffic between the pods on all ports",
)
_AMD = {
    "gpu_error": Advice(
        "a GPU reported an error: the program, the driver or the hardware",
        "look at dmesg of this rank's node for amdgpu at that time, at `amd-smi metric --ecc` and `amd-smi xgmi`, and "
        "run the rank alone",
    ),
    "gpu_lost": Advice(
        "a GPU fell off the bus",
        "look at dmesg of its node for amdgpu, cordon the node, and reset or replace the GPU",
    ),
    "driver_mismatch": Advice(
        "driver and ROCm do not match",
        "compare `cat /sys/module/amdgpu/version` of the node with the image's ROCm",
    ),
    "memory_registration": Advice(
        "memory cannot be registered with the adapter: locked memory, or peer memory of the driver",
        "allow IPC_LOCK, look at `ulimit -l` inside the container (unlimited) and at dmesg of the node",
    ),
    "duplicate_gpu": Advice(
        "two ranks took the same GPU: the launcher gave both the same local rank, or the container sees fewer "
        "GPUs than "
        "it starts ranks",
        "set the device by LOCAL_RANK, start as many ranks as the pod has GPUs, and compare HIP_VISIBLE_DEVICES and "
        "ROCR_VISIBLE_DEVICES",
    ),
    "out_of_memory": Advice(
        "the memory of the GPU or of the container is used up",
        "look at amd-smi on the node and at the container's limit; fewer channels need less",
    ),
}
"""What differs where AMD's RCCL is at work."""


def of(fault: "Fault", *, amd: bool = False) -> tuple[Advice, ...]:
    """Return what to do about an error; its own words may tell that a GPU is AMD's."""
    amd = amd or gpu_remedies.speaks_amd(fault.detail)
    if amd and fault.kind in _AMD:
        told = gpu_remedies.of_amd(fault.detail) if fault.kind == "gpu_error" else None
        return (told or _AMD[fault.kind],)
    if fault.kind == "ib_completion_error":
        return (_STATUS.get(fault.status) or _unknown(f"status {fault.status}"),)
    if fault.kind == "ibv_modify_qp":
        return (_ERRNO.get(fault.status) or _unknown(_code(fault.status)),)
    if fault.kind == "memory_registration":
        return (_LOCKED,) if fault.status in {1, 12} else (_PINNED,)
    if fault.kind == "socket_connect":
        return (_REFUSED if "refused" in fault.detail.lower() else _UNREACHED,)
    for kind, shape, one in _BY_WORDS:
        if kind == fault.kind and shape.search(fault.detail):
            return (one,)
    if fault.kind == "gpu_error":
        return (gpu_remedies.of(fault.detail),)
    counts = (
        re.search(r"(\d+) is not equal to .*?(\d+)$", fault.detail) if fault.kind == "daemon_gpus" else None
    )
    if counts:
        daemon = _FAULTS["daemon_gpus"]
        return (
            daemon._replace(
                cause=f"the receive daemon (RxDM) found {counts[1]} of {counts[2]} GPUs, and ends"
            ),
        )
    known = _FAULTS.get(fault.kind)
    return (known,) if known else ()


def _code(number: int) -> str:
    return f"errno {number}" if number >= 0 else "the message"


def _unknown(what: str) -> Advice:
    """Return what to do about a number whose meaning is not known here."""
    return Advice(
        f"the meaning of {what} at this place is not known; several causes give it",
        "look at the first error of both ends and at dmesg of their nodes, and try ib_write_bw between the adapters",
    )
