"""Kinds in which a collective stalls: what came before it, of a plugin, a daemon, a link or NVLS, is named first."""

from pytest_gpucluster.diagnose import Log
from tests.diagnose.kinds_started import WATCHDOG, Plant, Row
from tests.diagnose.planting import Dump

EARLY = "[2026-10-05 09:33:11] torch-worker-1:9:9 [3] "


def _stalled(*lines: str, container: str = "") -> Plant:
    """Let the master's watchdog have barked, after another member, or a container beside it, said something."""

    def plant() -> Dump:
        dump = Dump()
        dump.say(dump.master, "step 1", WATCHDOG)
        pod = dump.workers[1]
        box = container or pod["spec"]["containers"][0]["name"]
        dump.logs.append(Log(pod["metadata"]["name"], pod["metadata"]["uid"], box, "\n".join(lines)))
        return dump

    return plant


SOCKETS = "torch-master-0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"


def _says(*lines: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        return dump.say(dump.master, *lines)

    return plant


KINDS: dict[str, Row] = {
    "a daemon before a watchdog": (
        _stalled("E1005 09:33:02.731190 1 rxdm.cc:200] failed to open /dev/nvidia0", container="tcpxo-daemon"),
        "trouble", "nccl-stall", ["torch-worker-1", "failed to open /dev/nvidia0", "daemon"], ["test the fabric"],
    ),
    "a plugin before a watchdog": (
        _stalled("torch-worker-1:9:9 [3] NCCL INFO NET/Plugin: dlerror=libfabric.so.1: cannot open shared object file"),
        "trouble", "nccl-stall", ["torch-worker-1", "libfabric.so.1"], ["test the fabric"],
    ),
    "NVLS before a watchdog": (
        _stalled(f"{EARLY}transport/nvls.cc:254 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory"),
        "trouble", "nccl-fatal", ["torch-worker-1", "NVLink SHARP", "fabric manager"], ["test the fabric alone fix"],
    ),
    "a link before a watchdog": (
        _stalled("torch-worker-1:9:9 [3] NCCL INFO NET/IB : mlx5_2:1 Got async event : port error"),
        "trouble", "nccl-stall", ["torch-worker-1", "port error", "ibstat"], ["test the fabric"],
    ),
    "a kernel's word of a link before a watchdog": (
        _stalled("[123.4] mlx5_core 0000:17:00.0 ens1: Link down"),
        "trouble", "nccl-stall", ["Link down", "sign of trouble", "torch-worker-1"], ["test the fabric"],
    ),
    "what torch quotes of NCCL": (
        _stalled(
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error",
            "[rank3]: Last error:",
            "[rank3]: Error while creating shared memory segment /dev/shm/nccl-x (size 9): No space left on device",
        ),
        "trouble", "nccl-stall", ["rank 3", "/dev/shm", "emptyDir"], ["test the fabric"],
    ),
    "sockets by a setting in the image": (
        _says("torch-master-0:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.", SOCKETS),
        "trouble", "nccl-sockets", ["was told to use sockets", "NCCL_IB_DISABLE=1"], ["fell back"],
    ),
    "sockets by a filter": (
        _says("torch-master-0:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx5_9", SOCKETS),
        "trouble", "nccl-sockets", ["fell back", "NCCL_IB_HCA=mlx5_9", "ibv_devices"], ["was told to"],
    ),
    "sockets that are only listed": (
        _says("torch-master-0:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"), "healthy", "", [],
        ["fell back"],
    ),
    "nothing before a watchdog": (
        _stalled("step 3 loss 2.0"), "trouble", "nccl-stall", ["Watchdog", "test the fabric"], ["look first"],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
