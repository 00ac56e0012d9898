"""Programs that run for as long as the cluster: started, awaited, started again when they end."""

import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import places
from .failure import Failed

AGAIN = 1.0
"""Seconds after which what has ended is started again, as a service manager does."""
STEP = 0.05


@dataclasses.dataclass
class Daemon:
    """One program.

    Attributes:
        name: of its log and its pid file.
        command: program and arguments.
        environment: what is added to its environment.
    """

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    ended: float = 0.0

    def start(self) -> "Daemon":
        """Start it."""
        path = places.log(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        search = f"{places.HOME / 'kubernetes'}:{places.HOME / 'programs'}:{os.environ.get('PATH', '')}"
        with path.open("ab") as log:
            self.process = subprocess.Popen(
                [str(each) for each in self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": search, **self.environment},
            )
        self.pid_file.write_text(str(self.process.pid))
        return self

    @property
    def pid(self) -> int:
        """Return its process id; 0 before it was started."""
        return self.process.pid if self.process is not None else 0

    @property
    def pid_file(self) -> Path:
        """Return the file that names its process."""
        return places.STATE / f"{self.name}.pid"

    @property
    def held(self) -> bool:
        """Report whether somebody wants it to stay away once it ends: `NAME.hold` beside the pid file."""
        return self.pid_file.with_suffix(".hold").exists()

    def end_if_asked(self) -> None:
        """End it if somebody wants it to start again: `NAME.restart` beside the pid file, which goes.

        The pid file names a process of the cluster's namespace; from outside it is another one, or none.
        """
        asked = self.pid_file.with_suffix(".restart")
        if asked.exists() and self.process is not None:
            asked.unlink()
            self.process.kill()

    def has_ended(self) -> bool:
        """Report whether it has ended."""
        return self.process is not None and self.process.poll() is not None

    def last_words(self) -> str:
        """Return the last line of its log that says something is wrong, or the last line."""
        lines = [
            each for each in places.log(self.name).read_text(errors="replace").splitlines() if each.strip()
        ]
        wrong = [each for each in lines if each[:1] in "EF" or "rror" in each or "fatal" in each]
        return (wrong or lines or ["it said nothing"])[-1].strip()[:300]


def wait(what: str, holds: Callable[[], bool], seconds: float, of: Sequence[Daemon] = ()) -> None:
    """Wait until something holds.

    Args:
        what: is waited for.
        holds: whether it is so.
        seconds: at most.
        of: programs without which it never will.

    Raises:
        Failed: it does not, or a program ended.
    """
    end = time.monotonic() + seconds
    while not holds():
        for each in of:
            if each.has_ended():
                raise Failed(f"{each.name} ended while {what} was awaited: {each.last_words()}")
        if time.monotonic() > end:
            said = "".join(f"; {each.name}: {each.last_words()}" for each in of[-1:])
            raise Failed(f"{what}: not within {seconds:.0f} s{said}")
        time.sleep(STEP)


def keep_running(daemons: Sequence[Daemon]) -> None:
    """Start again what has ended, for ever."""
    while True:
        for each in daemons:
            each.end_if_asked()
            if each.has_ended() and not each.ended:
                each.ended = time.monotonic()
            if each.ended and time.monotonic() - each.ended > AGAIN and not each.held:
                each.ended = 0.0
                each.start()
        time.sleep(AGAIN / 4)


def reap_strangers(daemons: Sequence[Daemon]) -> None:
    """Take leave of ended processes that the first process of the namespace was left with, as it must."""
    ours = {each.process.pid for each in daemons if each.process is not None}
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in ours:
            return
        os.waitpid(ended.si_pid, 0)
