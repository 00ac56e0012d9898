"""A Docker engine where none answers: from Debian's package, private to the kit, with no way out of this machine."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import places, traces
from .cache import Part
from .shell import Failed, need, run, say

RUN = places.ENGINE / "run"
SOCKET = RUN / "docker.sock"
PID = RUN / "docker.pid"
LOG = places.ENGINE / "dockerd.log"
SETTINGS = {
    # dockerd that finds forwarding off sets the whole machine to drop what it would forward.
    "net/ipv4/ip_forward": 1,
    # Eighteen a node; with the usual 128 the eighth node's agents cannot start.
    "fs/inotify/max_user_instances": 1024,
}
"""Least values of kernel settings."""
BRIDGES = ("br-+", "docker0")
UNIX_LIMIT = 107
"""Bytes of the path of a Unix socket."""


def unpack(folder: Path) -> None:
    """Unpack Debian's package of the engine; nothing of it is installed."""
    run("apt-get", "download", "docker.io", cwd=folder)
    package = next(folder.glob("docker.io_*.deb"))
    run("dpkg-deb", "-x", package, folder)
    package.unlink()


DOCKER = Part("docker", unpack, says=[places.RELEASE])


def address() -> str | None:
    """Return where our engine listens if it runs."""
    return f"unix://{SOCKET}" if process() is not None else None


def process() -> int | None:
    """Return the process of our engine if it lives."""
    try:
        number = int(PID.read_text())
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return number if b"dockerd" in command else None


def another_answers() -> bool:
    """Report whether an engine that is not ours answers."""
    client = shutil.which("docker")
    if client is None:
        return False
    return subprocess.run([client, "version"], capture_output=True, check=False).returncode == 0


def programs_path() -> str:
    """Return a PATH with a Docker client: the machine's, else the package's."""
    path = os.environ.get("PATH", "")
    return path if shutil.which("docker") else f"{path}:{DOCKER.made() / 'usr/bin'}"


def start() -> None:
    """Start our engine unless it runs, and shut its containers in before anything runs in them."""
    if process() is not None:
        return
    if os.geteuid() != 0:
        raise Failed("dev/kind: no Docker engine answers, and only root can start one")
    if len(os.fsencode(SOCKET)) > UNIX_LIMIT:
        raise Failed(f"dev/kind: {SOCKET} is too long for a socket: set XDG_CACHE_HOME to a shorter path")
    RUN.mkdir(parents=True, exist_ok=True)
    PID.unlink(missing_ok=True)
    set_up()
    wrapper = runtime()
    dockerd = shutil.which("dockerd") or DOCKER.made() / "usr/sbin/dockerd"
    options = ["--host", f"unix://{SOCKET}", "--pidfile", PID, "--storage-driver", "overlay2"]
    options += ["--data-root", places.ENGINE / "data", "--exec-root", RUN / "exec"]
    options += ["--add-runtime", f"lesser={wrapper}", "--default-runtime", "lesser"]
    options += ["--oom-score-adjust", "0"]
    # Names outside have nobody to answer them: without this each costs a time-out of the machine's resolver.
    options += ["--dns", "127.0.0.1"]
    search = f"{DOCKER.made() / 'usr/sbin'}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    need("containerd")
    with LOG.open("w") as log:
        daemon = subprocess.Popen(
            [str(each) for each in (dockerd, *options)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PATH": search},
            # However patient whoever prepares is, nodes are as quick as what asks them.
            preexec_fn=usual_priority,  # noqa: PLW1509 (one system call, and no thread runs here)
        )
    os.environ["DOCKER_HOST"] = f"unix://{SOCKET}"
    try:
        until_it_answers(daemon)
        shut_in()
        empty()
    except BaseException:
        stop()
        raise


def usual_priority() -> None:
    """Give this process the priority that programs have, in place of the one that it was started with."""
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def runtime() -> Path:
    """Write the runtime that stands before runc; for this very Python, since it starts with every container."""
    wrapper = RUN / "runtime"
    text = Path(__file__).with_name("runtime.py").read_text()
    wrapper.write_text(f"#!{sys.executable} -IS\n{text.partition(chr(10))[2]}")
    wrapper.chmod(0o755)
    return wrapper


def until_it_answers(daemon: subprocess.Popen[bytes]) -> None:
    """Wait for the engine."""
    client = shutil.which("docker", path=programs_path())
    end = time.monotonic() + 30
    while client and subprocess.run([client, "version"], capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > end:
            words = LOG.read_text().strip().splitlines()[-5:]
            raise Failed("\n".join(["dev/kind: the Docker engine did not start:", *words]))
        time.sleep(0.1)


def set_up() -> None:
    """Write down what there is before the engine, and raise kernel settings to what nodes need."""
    traces.keep(RUN, (*SETTINGS, *traces.SET_BY_ENGINE))
    for name, least in SETTINGS.items():
        file = traces.PROC / name
        if int(file.read_text()) < least:
            file.write_text(str(least))


def rules() -> list[list[str]]:
    """Return what keeps packets of containers on this machine.

    Before kube-proxy has written its first rules, a node's packets to the service address of the API server go out
    by the default route. And nothing that a test runs has any business outside.
    """
    return [
        ["DOCKER-USER", "--in-interface", bridge, "!", "--out-interface", bridge, "--jump", "REJECT"]
        for bridge in BRIDGES
    ]


def shut_in() -> None:
    """Put the rules in place, before the first cluster; there is no cluster without them."""
    iptables = need("iptables")
    for rule in rules():
        if subprocess.run([iptables, "-w", "-C", *rule], capture_output=True, check=False).returncode:
            run(iptables, "-w", "-I", *rule)


def empty() -> None:
    """Remove what is in our engine but its images.

    An engine that was killed starts the nodes of its clusters again at its next start: they answer, with addresses and
    states of before, and are good for nothing.
    """
    docker = shutil.which("docker", path=programs_path()) or "docker"
    if containers := run(docker, "ps", "--all", "--quiet").split():
        run(docker, "rm", "--force", "--volumes", *containers)
    run(docker, "network", "prune", "--force")
    run(docker, "volume", "prune", "--force")


def stop() -> None:
    """Empty our engine, stop it, and take back what it made in the kernel; also of one that was killed."""
    number = process()
    if number is None:
        traces.take_back(RUN)
        return
    os.environ["DOCKER_HOST"] = f"unix://{SOCKET}"
    empty()
    os.kill(number, signal.SIGTERM)
    end = time.monotonic() + 60
    while Path(f"/proc/{number}").exists() and "Z" not in state(number):
        if time.monotonic() > end:
            raise Failed(f"dev/kind: the Docker engine (process {number}) does not end")
        time.sleep(0.1)
    traces.take_back(RUN)


def state(number: int) -> str:
    """Return the state of a process as the kernel writes it, `Z` once it ended and nobody asked."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def report() -> None:
    """Say which engine is used."""
    say(f"  engine         {address() or os.environ.get('DOCKER_HOST', 'the one that answers')}")
