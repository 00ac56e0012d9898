"""Processes of a cluster by the number that this machine has for them.

Inside the cluster's namespace, and inside a pod's, a process has another number: here that is another process or none.
"""

import contextlib
import dataclasses
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from . import kernel, places

PROC = Path("/proc")


@dataclasses.dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        pid: its number here.
        born: when it started, in clock ticks after the machine did; it tells it from a later one of the same number.
        inner: its number in the innermost namespace that it is in.
        namespace: that namespace, "" if it may not be read.
    """

    pid: int
    born: str
    inner: int
    namespace: str

    def lives(self) -> bool:
        """Report whether it runs: it has not ended, and its number was not given to another."""
        now = read(self.pid)
        return now is not None and now.born == self.born

    def kill(self, seconds: float) -> bool:
        """Kill it; report whether it has ended within so many seconds."""
        return self._ends(seconds, signal.SIGKILL)

    def ends(self, seconds: float) -> bool:
        """Report whether it ends by itself within so many seconds."""
        return self._ends(seconds, None)

    def _ends(self, seconds: float, with_: signal.Signals | None) -> bool:
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            # Whoever has the number now is held by the handle: it is this one, or nothing is sent.
            if not self.lives():
                return True
            if with_ is not None:
                signal.pidfd_send_signal(handle, with_)
            ready, _, _ = select.select([handle], [], [], seconds)
            return bool(ready)
        finally:
            os.close(handle)

    def variable(self, name: str) -> str:
        """Return a variable of its environment, "" without it."""
        with contextlib.suppress(OSError):
            for each in (PROC / str(self.pid) / "environ").read_bytes().split(b"\0"):
                key, _, value = each.partition(b"=")
                if key == name.encode():
                    return value.decode(errors="replace")
        return ""

    def command(self) -> str:
        """Return the name of its program, "" if it has ended."""
        with contextlib.suppress(OSError):
            return (PROC / str(self.pid) / "comm").read_text().strip()
        return ""


def read(pid: int, proc: Path | None = None) -> Process | None:
    """Return a process as it is now; None if it has ended, also if nobody has taken leave of it yet."""
    folder = (proc or PROC) / str(pid)
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        status = (folder / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        namespace = str((folder / "ns" / "pid").readlink())
    except FileNotFoundError:
        return None
    except PermissionError:
        # Of somebody else, whom not even root may look at: none of the cluster's.
        namespace = ""
    if fields[0] in "ZX":
        return None
    (numbers,) = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    return Process(pid, fields[19], int(numbers[-1]), namespace)


def everyone(proc: Path | None = None) -> Iterator[Process]:
    """Yield all processes of this machine."""
    for folder in (proc or PROC).iterdir():
        if folder.name.isdigit():
            process = read(int(folder.name), proc)
            if process is not None:
                yield process


def of_cluster(inner: int, first: int, proc: Path | None = None) -> Process | None:
    """Return the process that has a number in the namespace whose first process is `first`; None without one."""
    head = read(first, proc)
    if head is None:
        return None
    found = [each for each in everyone(proc) if (each.inner, each.namespace) == (inner, head.namespace)]
    return found[0] if found else None


def of_container(uid: str, container: str, version: int) -> tuple[Process, ...]:
    """Return the processes of a container, its first one first.

    Args:
        uid: of the pod.
        container: its id, as the API names it (`containerd://...`).
        version: of control groups.
    """
    name = container.rpartition("/")[2]
    pids: set[int] = set()
    for root in kernel.hierarchies(version):
        for group in (root / places.GROUP).rglob(f"pod{uid}/{name}"):
            for file in (group / "cgroup.procs", *group.rglob("cgroup.procs")):
                with contextlib.suppress(FileNotFoundError):
                    pids |= {int(each) for each in file.read_text().split()}
    found = [process for pid in pids if (process := read(pid)) is not None]
    return tuple(sorted(found, key=lambda each: (each.inner, each.pid)))
