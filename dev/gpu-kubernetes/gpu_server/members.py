"""Members of a gang that runs: which of its processes are ranks, and whether they exchange data."""

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pytest_gpucluster.kube import errors, kinds, objects
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.kind import waiting

from . import addons, processes
from .failure import Failed
from .processes import Process
from .settings import Settings

ESTABLISHED = "01"
NCCL_LOG = "tmp/gpucluster-nccl-*.log"
"""Where the payload lets NCCL write, in the container's root."""
CONNECTED = " via "
"""What NCCL writes of a connection that a collective uses, and of nothing before."""
STEP = 0.1

Obj = dict[str, Any]


def of_gang(name: str) -> Callable[[Obj], bool]:
    """Return the choice of the pods of a gang of the suite, by the name of its Job."""

    def chosen(pod: Obj) -> bool:
        labels = pod["metadata"].get("labels") or {}
        namespace = str(pod["metadata"].get("namespace"))
        return namespace.startswith("gpucluster-") and labels.get("batch.kubernetes.io/job-name") == name

    return chosen


def running(chosen: Callable[[Obj], bool], count: int, limit: float) -> list[Obj]:
    """Wait until so many pods of a choice run at the same time; return them by name.

    Raises:
        Failed: they do not, in time.
    """
    found: list[Obj] = []

    def missing(state: waiting.State) -> Iterable[str]:
        found[:] = [each for each in state.values() if chosen(each) and runs(each)]
        if len(found) < count:
            yield f"{len(found)} of {count} run"

    awaited(objects.POD, missing, "the pods of the gang did not run", limit)
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def exchanging(settings: Settings, pods: list[Obj], limit: float) -> str:
    """Wait until every member has connections to another one that its collectives use; return what shows it.

    Raises:
        Failed: they have none in time, or a member has ended.
    """
    addresses = {str(pod["status"]["podIP"]) for pod in pods}
    end = time.monotonic() + limit
    while time.monotonic() < end:
        counts = [_connections(settings, pod, addresses) for pod in pods]
        if all(counts):
            return f"the ranks of each of its {len(pods)} members had {min(counts)} connections or more to others"
        time.sleep(STEP)
    raise Failed(f"the members did not connect to each other within {limit:.0f} s")


def ranks(settings: Settings, pod: Obj) -> tuple[Process, ...]:
    """Return the processes of a pod that are ranks, as their environment says."""
    found = processes.of_container(str(pod["metadata"]["uid"]), container(pod), settings.control_groups)
    return tuple(each for each in found if each.variable("RANK"))


def _connections(settings: Settings, pod: Obj, addresses: set[str]) -> int:
    """Return how many connections to other members the ranks of a pod have, without those to the store."""
    found = ranks(settings, pod)
    if not found:
        return 0
    logs = [text for each in found for text in _logs(each)]
    if logs and not all(CONNECTED in text for text in logs):
        return 0
    store = {int(each.variable("MASTER_PORT") or 0) for each in found}
    others = addresses - {str(pod["status"]["podIP"])}
    return sum(
        remote in others and not store & {here, there}
        for each in found
        for remote, here, there in connections(each)
    )


def _logs(rank: Process) -> Iterator[str]:
    for path in (processes.PROC / str(rank.pid) / "root").glob(NCCL_LOG):
        with contextlib.suppress(OSError):
            yield path.read_text(errors="replace")


def connections(process: Process) -> Iterator[tuple[str, int, int]]:
    """Yield the established connections of a process: the other address, our port, the other port."""
    own = set(_sockets(process))
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            text = (processes.PROC / str(process.pid) / "net" / name).read_text()
            for line in text.splitlines()[1:]:
                _, local, remote, state, *_, inode = line.split()[:10]
                if state == ESTABLISHED and inode in own:
                    yield _address(remote), _port(local), _port(remote)


def _sockets(process: Process) -> Iterator[str]:
    """Yield the sockets that a process has open; its namespace has those of others too."""
    with contextlib.suppress(OSError):
        for each in (processes.PROC / str(process.pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                kind, _, inode = str(each.readlink()).partition(":")
                if kind.endswith("socket"):
                    yield inode.strip("[]")


def _port(text: str) -> int:
    return int(text.rpartition(":")[2], 16)


def _address(text: str) -> str:
    """Return an address as the kernel writes it: words of 32 bits, each in the order of the machine."""
    words = text.partition(":")[0]
    data = b"".join(bytes.fromhex(words[n : n + 8])[::-1] for n in range(0, len(words), 8))
    address = ipaddress.ip_address(data)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def ended(pods: Iterable[Obj], limit: float) -> float:
    """Wait until containers have ended, or their pods are gone; return the seconds.

    Raises:
        Failed: they run on.
    """
    wanted = {str(pod["metadata"]["uid"]): str(pod["metadata"]["name"]) for pod in pods}
    began = time.monotonic()

    def missing(state: waiting.State) -> Iterable[str]:
        for pod in state.values():
            if pod["metadata"]["uid"] in wanted and runs(pod):
                yield f"{pod['metadata']['name']} runs on"

    awaited(objects.POD, missing, "the other members did not end", limit)
    return time.monotonic() - began


def exit_code(pod: Obj, limit: float) -> int | None:
    """Wait until a kubelet tells with which code the container of a pod ended; None if its pod is gone before.

    Raises:
        Failed: nothing is told in time.
    """
    name, namespace = str(pod["metadata"]["name"]), str(pod["metadata"]["namespace"])
    found: list[int] = []

    def missing(state: waiting.State) -> Iterable[str]:
        now = state.get((namespace, name))
        if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        for each in (now.get("status") or {}).get("containerStatuses") or []:
            for which in ("state", "lastState"):
                end = (each.get(which) or {}).get("terminated")
                if end is not None and end.get("containerID") == container(pod):
                    found.append(int(end["exitCode"]))
                    return
        yield f"{name} has not ended"

    awaited(objects.POD, missing, "the kubelet did not tell of the end", limit)
    return found[0] if found else None


def runs(pod: Obj) -> bool:
    """Report whether all containers of a pod run."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return bool(statuses) and all("running" in (each.get("state") or {}) for each in statuses)


def container(pod: Obj) -> str:
    """Return the id of the first container of a pod."""
    return str(pod["status"]["containerStatuses"][0]["containerID"])


def awaited(
    info: kinds.KindInfo, missing: Callable[[waiting.State], Iterable[str]], what: str, limit: float
) -> None:
    """Wait until nothing is missing, as `waiting.until` does.

    Raises:
        Failed: something still is.
    """
    try:
        waiting.until(addons.api(), info, missing, what, limit)
    except (ProviderError, errors.GpuClusterError) as error:
        raise Failed(str(error)) from None
