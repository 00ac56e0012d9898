"""What members of a job over SSH and MPI do: tell the keys that they were given, log in to each other, launch ranks.

`member` serves logins and logs in to each of `--to`, then stays until it is ended. `worker` serves logins, as the
documented manifest's workers do. `launcher` logs in to each of MPI_HOST (of `--to` without it), then runs mpiexec over
these hosts, with one rank each, and ends as it does. Standard library only; `ssh`, `sshd` and `mpiexec` are the
image's. Lines as in `lines.py`. No key is told: only of which file, its mode, and a digest of the public one.
"""

import argparse
import hashlib
import os
import pathlib
import pwd
import signal
import stat
import subprocess
import sys
import threading
import time

from lines import say

SSHD = "/usr/sbin/sshd"
RUN = "/var/run/sshd"
"""What OpenSSH's server needs for its unprivileged part."""
RANK = "/workspace/mpi_rank.py"
ASKED = ("BatchMode=yes", "PreferredAuthentications=publickey", "ConnectTimeout=5")
"""Options of a login: it never asks for a password, and no way but keys is tried."""
ANY_HOST = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
"""Options of a login without a configuration beside the keys: what is refused is then the member, not the host."""
NOT_YET = ("Connection refused", "Could not resolve", "No route to host", "Connection closed", "timed out")
"""What ssh says while the other side is not there yet."""
TOLD_ON = ("GPUCLUSTER_RUN", "GPUCLUSTER_ATTEMPT", "GPUCLUSTER_POD", "GPUCLUSTER_CONTAINER")
"""Ranks speak in the launcher's log, and as it."""
TEXT = 600
"""How much of what a program said is told: a line stays below 4096 bytes."""
PAUSE = 0.2


def say_env() -> None:
    """Tell what the process was started with of the wiring."""
    env = {name: value for name, value in os.environ.items() if name == "MPI_HOST" or name.startswith("VC_")}
    say("env", env=env, pid=os.getpid())


def say_keys(folder: str) -> None:
    """Tell which files the folder of keys has, each with its mode and owner, and which public key it is."""
    files = []
    digest, authorized = "", False
    path = pathlib.Path(folder)
    names = sorted(each.name for each in path.iterdir()) if path.is_dir() else []
    for name in names:
        found = (path / name).stat()
        files.append({"name": name, "mode": f"{stat.S_IMODE(found.st_mode):04o}", "uid": found.st_uid})
    public = read(path / "id_rsa.pub").split()
    if len(public) > 1:
        digest = hashlib.sha256(public[1].encode()).hexdigest()[:16]
        authorized = public[1] in read(path / "authorized_keys").split()
    account = pwd.getpwuid(os.getuid())
    say(
        "ssh-keys",
        folder=folder,
        files=files,
        key=digest,
        authorized=authorized,
        uid=os.getuid(),
        home=account.pw_dir,
    )


def read(path: pathlib.Path) -> str:
    """Return a file's text, "" for one that cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def serve(port: int) -> bool:
    """Start the server beside this process; reports whether it listens."""
    pathlib.Path(RUN).mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([SSHD, "-p", str(port)], capture_output=True, text=True, check=False)
        code, error = done.returncode, done.stderr.strip()[-TEXT:]
    except OSError as failure:
        code, error = 127, f"{SSHD}: {failure.strerror}"
    say("ssh-serving", ok=code == 0, code=code, error=error, port=port)
    return code == 0


def log_in(host: str, within: float, options: tuple[str, ...]) -> bool:
    """Log in to a host, again and again while it is not there yet; reports whether it came about."""
    command = ["ssh", *(word for option in options for word in ("-o", option)), host, "uname", "-n"]
    began = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=within
            )
            code, said, error = done.returncode, done.stdout.strip(), done.stderr.strip()
        except OSError as failure:
            code, said, error = 127, "", f"ssh: {failure.strerror}"
        except subprocess.TimeoutExpired:
            code, said, error = 124, "", "ssh: timed out"
        ok = code == 0
        late = time.monotonic() - began > within
        if ok or late or not any(word in error for word in NOT_YET):
            break
        time.sleep(PAUSE)
    seconds = round(time.monotonic() - began, 3)
    say(
        "ssh-login",
        to=host,
        ok=ok,
        code=code,
        said=said[:253],
        error=error[-TEXT:],
        tries=tries,
        seconds=seconds,
    )
    return ok


def launch(hosts: list[str], within: float) -> int:
    """Run one rank on each host; returns mpiexec's exit code."""
    told = [word for name in TOLD_ON if name in os.environ for word in ("-x", name)]
    line = ["mpiexec", "--allow-run-as-root", "--host", ",".join(hosts), "-np", str(len(hosts)), *told]
    began = time.monotonic()
    try:
        # What ranks print goes straight to the log; what mpiexec itself says of a failure is told.
        done = subprocess.run(
            [*line, "python3", RANK], stderr=subprocess.PIPE, text=True, check=False, timeout=within
        )
        code, error = done.returncode, done.stderr.strip()
    except OSError as failure:
        code, error = 127, f"mpiexec: {failure.strerror}"
    except subprocess.TimeoutExpired:
        code, error = 124, f"mpiexec did not end within {within:g} s"
    seconds = round(time.monotonic() - began, 3)
    say("mpi-launch", ok=code == 0, code=code, hosts=hosts, error=error[-TEXT:], seconds=seconds)
    return code


def stay() -> int:
    """Stay until the end is asked for."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait(3600)
    return 0


def main() -> int:
    """Parse the arguments and act."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["member", "worker", "launcher"])
    parser.add_argument("--to", default="", help="hosts, by commas")
    parser.add_argument("--port", type=int, default=22)
    parser.add_argument("--folder", default="/root/.ssh", help="where the keys are to be")
    parser.add_argument("--within", type=float, default=30.0, help="seconds for each step")
    args = parser.parse_args()
    say_env()
    say_keys(args.folder)
    if args.what == "worker":
        pathlib.Path(RUN).mkdir(parents=True, exist_ok=True)
        os.execv(SSHD, [SSHD, "-D", "-p", str(args.port)])  # noqa: S606 - the server becomes the first process
    stated = os.environ.get("MPI_HOST", "") if args.what == "launcher" else ""
    hosts = [host for host in (stated or args.to).split(",") if host]
    serve(args.port)
    options = ASKED if (pathlib.Path(args.folder) / "config").exists() else (*ASKED, *ANY_HOST)
    others = [host for host in hosts if host.partition(".")[0] != os.uname().nodename]
    entered = [log_in(host, args.within, options) for host in others]
    if args.what == "member":
        return stay()
    if not stated:
        say("mpi-launch", ok=False, code=1, hosts=[], error="MPI_HOST is not set", seconds=0.0)
        return 1
    if not all(entered):
        say(
            "mpi-launch",
            ok=False,
            code=255,
            hosts=hosts,
            error="not every worker let the launcher in",
            seconds=0.0,
        )
        return 1
    return launch(hosts, args.within)


if __name__ == "__main__":
    sys.exit(main())
