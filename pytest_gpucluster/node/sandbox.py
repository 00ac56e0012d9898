"""The sandbox: a private user, network, mount and pid namespace, made without root and gone without a trace.

The agent is process 1 of the pid namespace. When it ends, however it ends, the kernel kills every other process of
the namespace, and bridge and mounts go with their namespaces. It ends when its standard input reaches its end, so a
parent that dies by SIGKILL takes everything with it.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

ISOLATION = (
    "--user", "--map-root-user", "--net", "--mount", "--pid", "--uts", "--ipc", "--mount-proc", "--fork",
    "--kill-child",
)  # fmt: skip
UNDECIDED = "rows that need running pods cannot be decided"
# What the agent does at its start, in short: if these work, it will.
TRIAL = (
    "mount -t tmpfs gpucluster /tmp && cd /tmp && mkdir low upper work merged && "
    "mount -t overlay -o userxattr,lowerdir=low,upperdir=upper,workdir=work overlay merged"
)
PROBE_SECONDS = 20


def probe(unshare: str = "unshare") -> str | None:
    """Return None where sandboxes work, else one line that says why not.

    Args:
        unshare: The program of util-linux, by name or path.
    """
    trial = [unshare, *ISOLATION, "sh", "-c", TRIAL]
    try:
        done = subprocess.run(trial, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except FileNotFoundError:
        return f"{unshare} (util-linux) is not installed; {UNDECIDED}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"user namespaces cannot be tried on this machine ({error}); {UNDECIDED}"
    if done.returncode == 0:
        return None
    said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
    said = said.replace("unshare: unshare failed:", "unshare:")
    what = "user namespaces" if said.startswith("unshare") else "mounts in a user namespace"
    return f"{what} are refused on this machine ({said}); {UNDECIDED}"


def command(python: Sequence[str], unshare: str = "unshare") -> list[str]:
    """Return the command that runs another one as process 1 of a new sandbox."""
    return [unshare, *ISOLATION, *python]


def supervise(inner: Sequence[str], config_line: bytes, owner_pid: int | None) -> int:
    """Run the agent in a sandbox until standard input ends, a signal comes, or the owner or the agent ends.

    Args:
        inner: Command of the agent.
        config_line: The configuration, handed on to it.
        owner_pid: Process whose end ends the sandbox, or None.

    Returns:
        Exit code of the agent.
    """
    wake, woken = os.pipe()
    os.set_blocking(woken, False)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        os.write(woken, b"x")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    # Its own session: Ctrl-C reaches this process, which ends the agent; not the pods one by one.
    child = subprocess.Popen(command(inner), stdin=subprocess.PIPE, start_new_session=True)
    if child.stdin is None:
        raise RuntimeError("the agent has no standard input")
    watched = {wake: "signal", os.pidfd_open(child.pid): "agent", sys.stdin.fileno(): "input"}
    with suppress(ProcessLookupError):
        if owner_pid is not None:
            watched[os.pidfd_open(owner_pid)] = "owner"
    if owner_pid is not None and "owner" not in watched.values():
        watched = {wake: "signal"}
        os.write(woken, b"x")
    with suppress(BrokenPipeError):
        child.stdin.write(config_line)
        child.stdin.flush()
    ended_by = _wait(watched)
    with suppress(BrokenPipeError):
        child.stdin.close()
    try:
        return child.wait(timeout=None if ended_by == "agent" else 5)
    except subprocess.TimeoutExpired:
        child.kill()  # --kill-child takes the agent along
        child.wait()
        return 0


def _wait(watched: dict[int, str]) -> str:
    """Return what happened first: a signal, the end of the agent, of the owner, or of standard input."""
    poll = select.poll()
    for fd in watched:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    while True:
        for fd, _ in poll.poll():
            if watched[fd] != "input" or not os.read(fd, 4096):
                return watched[fd]
