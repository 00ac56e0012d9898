"""One run of one container: from its file system to the exit code of its first process."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_gpucluster.node import memory
from pytest_gpucluster.node.logs import ContainerLog
from pytest_gpucluster.node.network import PodNetwork
from pytest_gpucluster.node.process import Pipe, Process
from pytest_gpucluster.node.rootfs import Rootfs

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# `unshare --fork` would do, but reports a child that was killed as exit code 1 (util-linux 2.38). The first process
# that the shell makes is process 1 of the new namespace. Its own errors ("Killed") do not belong in the log.
WAITER = 'exec 9>&2 2>/dev/null; (exec sh "$@" 2>&9 9>&-); exit $?'


# Becomes a container's first process.
SCRIPT = Path(__file__).with_name("container.sh")


class StartError(Exception):
    """A container whose program could not be started.

    Attributes:
        exit_code: What is reported as its exit code.
    """

    def __init__(self, exit_code: int, message: str) -> None:
        """Keep code and message."""
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Launch:
    """What is started, and where.

    Attributes:
        command: Program and arguments.
        env: The whole environment.
        workdir: Working folder in the container; made where absent.
        rootfs: The file system, already built.
        network: Namespaces of the pod.
        log: Where the output goes.
        cpus: The host's CPUs on which it runs; none for any.
        memory: NUMA nodes of which it may have memory; none for any.
    """

    command: Sequence[str]
    env: Mapping[str, str]
    workdir: str
    rootfs: Rootfs
    network: PodNetwork
    log: ContainerLog
    cpus: Sequence[int] = ()
    memory: Sequence[int] = ()


class RunningContainer:
    """A container that was asked to start."""

    def __init__(self, launch: Launch) -> None:
        """Start the process that will be the container's first; `started` tells whether it got there."""
        self.launch = launch
        self.pid: int | None = None
        self._told = bytearray()
        self._settled = asyncio.Event()
        self._pipes = {"told": Pipe(), "stdout": Pipe(), "stderr": Pipe()}
        program = launch.command[0]
        environment = [f"{key}={value}" for key, value in launch.env.items()]
        pinned = ["taskset", "--cpu-list", ",".join(map(str, launch.cpus))] if launch.cpus else []
        command = [
            *pinned,
            *launch.network.enter(),
            *("unshare", "--mount", "--pid", "--propagation", "private", "sh", "-c", WAITER, "sh"),
            *(str(SCRIPT), str(launch.rootfs.fstab), str(launch.rootfs.root), launch.workdir),
            *(program, launch.env.get("PATH", DEFAULT_PATH), *environment, *launch.command),
        ]
        try:
            with memory.bound_to(launch.memory):
                child = subprocess.Popen(
                    command,
                    stdin=self._pipes["told"].write,
                    stdout=self._pipes["stdout"].write,
                    stderr=self._pipes["stderr"].write,
                    start_new_session=True,
                    cwd="/",
                )
        except (OSError, ValueError) as error:
            for pipe in self._pipes.values():
                pipe.discard()
            raise StartError(128, str(error)) from error
        self._process = Process(child)

    async def started(self) -> None:
        """Return when the program runs.

        Raises:
            StartError: when it could not be started; the process has ended then.
        """
        log = self.launch.log
        takers: dict[str, Callable[[bytes], None]] = {
            "told": self._tell,
            "stdout": lambda data: log.feed("stdout", data),
            "stderr": lambda data: log.feed("stderr", data),
        }
        for name, pipe in self._pipes.items():
            await pipe.listen(takers[name])
        # The stream does not end before the container: the process that waits for it holds it open.
        self._pipes["told"].on_end(self._settled.set)
        await self._settled.wait()
        first, _, rest = bytes(self._told).decode(errors="replace").partition("\n")
        word, _, number = first.partition(" ")
        if word == "pid" and number.isdigit():
            self.pid = int(number)
        if rest.startswith("error "):
            _, code, text = rest.split(" ", 2)
            await self._process.wait()
            raise StartError(int(code), text.strip())
        if self.pid is None:
            ended = await self._process.wait()
            output = log.tail(500).strip()
            raise StartError(128, f"the container's first process ended with {ended} at once: {output}")

    def _tell(self, data: bytes) -> None:
        self._told += data
        if self._told.endswith(b"\nstarted\n"):
            self._settled.set()

    def signal(self, number: int) -> None:
        """Send a signal to the container's first process, unless it has ended."""
        if self._process.running and self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the container at once, also while it is still starting."""
        self.signal(signal.SIGKILL)
        if self.pid is None:
            self._process.kill_group()

    async def wait(self) -> int:
        """Return the exit code of the first process, after all output is in the log."""
        code = await self._process.wait()
        for pipe in self._pipes.values():
            await pipe.ended()
        self.launch.log.close()
        return code

    def enter(self) -> list[str]:
        """Return the command that runs another one inside the container, with its environment."""
        target = ["nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid"]
        environment = [f"{key}={value}" for key, value in self.launch.env.items()]
        return [*target, "--root", f"--wd={self.launch.workdir}", "/usr/bin/env", "-i", *environment]
