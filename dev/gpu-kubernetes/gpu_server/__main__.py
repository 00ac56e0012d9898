"""`python3 -m gpu_server up|down`: what `up` and `down` beside this folder call."""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from . import control_plane, device_plugin, kernel, links, machine, node, places
from .failure import Failed
from .settings import Settings

LOCK = Path("/run/gpu-kubernetes.lock")
PID = "cluster.pid"
END = 30.0
"""Seconds for a cluster to end."""


def up(options: argparse.Namespace) -> None:
    """Bring a cluster up, or nothing."""
    began = time.monotonic()
    say = _clock(began)
    machine.check_parts()
    machine.check(options.nodes)
    which = kernel.version()
    real = options.devices == "nvidia"
    if not real:
        machine.check_fake()
    libraries = machine.libraries() if real else ()
    gpus = machine.gpus(libraries) if real else ()
    settings = Settings(machine.dealt(gpus, options.nodes), options.devices, which, libraries)
    lock = _lock()
    if lock is None:
        other = LOCK.read_text().strip()
        raise Failed(f"a cluster runs in {other} already: `down` ends it")
    places.STATE.mkdir(parents=True, exist_ok=True)
    _clean()
    try:
        _start(settings, lock, say)
    except BaseException:
        lock.close()
        _end()
        raise
    say(f"up: admin's kubeconfig is {places.kubeconfig('admin')}")


def _clock(began: float) -> Callable[[str], None]:
    def say(text: str) -> None:
        print(f"  {time.monotonic() - began:5.1f} s  {text}", flush=True)

    return say


def _start(settings: Settings, lock: IO[str], say: Callable[[str], None]) -> None:
    # The API client and cryptography are read here, for `down` has no use for them.
    from . import addons, certificates, images

    if settings.control_groups == 1:
        say("control groups of version 1: kubelets run with failCgroupV1: false")
    kernel.keep(settings.control_groups)
    kernel.make_groups(settings.control_groups, settings.nodes)
    settings.write()
    certificates.write_all(settings.nodes)
    images.write(settings.libraries)
    process = subprocess.Popen(
        control_plane.command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(places.STATE / "control-plane.log").open("w"),
        text=True,
        bufsize=1,
        start_new_session=True,
        # Whoever has the lock runs: it is given up by the last process that has it.
        pass_fds=[lock.fileno()],
    )
    lock.close()
    _expect(process, "namespaces")
    first = control_plane.first_process(process.pid)
    (places.STATE / PID).write_text(f"{first} {_born(first)}")
    links.to_control_plane(first)
    _tell(process, "linked")
    _expect(process, "control plane")
    say("the API server is ready")
    addons.install(settings)
    addons.await_nodes(settings)
    offered = settings.fake_gpus if settings.devices == "fake" else len(settings.nodes[0].gpus)
    say(f"{len(settings.nodes)} node(s) Ready, {offered} {addons.RESOURCE} allocatable on each")
    addons.await_serving()
    say("CoreDNS and Kueue serve")
    _tell(process, control_plane.STAYS)


def _tell(process: "subprocess.Popen[str]", word: str) -> None:
    if process.stdin is not None:
        process.stdin.write(f"{word}\n")


def _expect(process: "subprocess.Popen[str]", word: str) -> None:
    said = process.stdout.readline().strip() if process.stdout is not None else ""
    if said != word:
        log = (places.STATE / "control-plane.log").read_text().strip().splitlines()
        raise Failed(said.removeprefix("failed: ") or (log[-1] if log else "the control plane ended"))


def down(_: argparse.Namespace) -> None:
    """End the cluster, and take back what it made."""
    if not places.STATE.is_dir():
        print("  no cluster is up")
        return
    _end()
    shutil.rmtree(places.STATE)
    print("  down")


def declare(options: argparse.Namespace) -> None:
    """Write the profile prod-a of the cluster that is up, and make the user with whom the suite runs."""
    from . import declared

    if not (places.STATE / PID).is_file():
        raise Failed("no cluster is up")
    folder = declared.write(Settings.read(), options.add)
    declared.grant(folder, options.marks)
    print(folder)


def plant(options: argparse.Namespace) -> None:
    """Plant faults one by one, run the rows that have to tell of them, and write a table; end with 1 if one did not."""
    from . import table, trials

    if not (places.STATE / PID).is_file():
        raise Failed("no cluster is up")
    chosen = table.choose(trials.every(Settings.read()), options.only)
    options.out.mkdir(parents=True, exist_ok=True)
    suite = (str(options.suite),) if options.suite else trials.SUITE
    out = options.out.resolve()
    lines = table.run(chosen, suite, out, options.seconds, _clock(time.monotonic()))
    print(f"  {out / 'planted.md'}")
    if any(line.result != table.EXPECTED for line in lines):
        sys.exit(1)


def _born(pid: int) -> str:
    """Return when a process started, which tells it from another one of the same number; "" if it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _lock() -> IO[str] | None:
    """Return the lock that whoever has a cluster on this machine holds; None if another one does."""
    lock = LOCK.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    LOCK.write_text(f"{places.STATE}\n")
    return lock


def _end() -> None:
    """End all processes of the cluster, and take back what it made.

    They are in one namespace, whose first process is killed. `unshare`, which started that one, ends when all
    others are gone too, and has the lock until then.
    """
    with contextlib.suppress(FileNotFoundError, ValueError):
        pid, born = (places.STATE / PID).read_text().split()
        if _born(int(pid)) == born:
            os.kill(int(pid), signal.SIGKILL)
    end = time.monotonic() + END
    while (lock := _lock()) is None:
        if time.monotonic() > end:
            raise Failed(
                f"processes of the cluster in {LOCK.read_text().strip()} do not end within {END:.0f} s"
            )
        time.sleep(0.05)
    with lock:
        _clean()
        LOCK.unlink()


def _clean() -> None:
    """Remove what a cluster left, also one that was killed; whoever calls this has the lock."""
    links.remove_from_machine()
    kernel.take_back()
    for each in places.STATE.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(prog="gpu-kubernetes", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    for verb in (up, down, declare, plant):
        each = verbs.add_parser(verb.__name__, help=(verb.__doc__ or "").splitlines()[0])
        each.set_defaults(verb=verb)
        if verb is up:
            each.add_argument("--nodes", type=int, default=1, help="over which the GPUs are dealt")
            each.add_argument(
                "--devices",
                choices=("nvidia", "fake"),
                default="nvidia",
                help="fake: GPUs that are not there",
            )
        if verb is declare:
            each.add_argument(
                "-m", dest="marks", default="", help="the rows that the user may run, as in pytest"
            )
            each.add_argument(
                "--add", type=Path, action="append", default=[], help="further sections of the profile"
            )
        if verb is plant:
            each.add_argument(
                "--only", action="append", default=[], metavar="NAME", help="of a fault; all without it"
            )
            each.add_argument("--seconds", type=float, default=300.0, help="for all of them")
            each.add_argument(
                "--out", type=Path, default=Path("planted"), help="folder of reports and of the table"
            )
            each.add_argument(
                "--suite", type=Path, help="folder of the suite, if it is not the installed one"
            )
    verbs.add_parser("control-plane").set_defaults(verb=lambda _: control_plane.run())
    for name, run in (("node", node.run), ("device-plugin", device_plugin.run)):
        each = verbs.add_parser(name)
        each.add_argument("number", type=int)
        each.set_defaults(verb=lambda options, run=run: run(options.number))
    options = parser.parse_args()
    if options.verb in (up, plant):
        # What was begun is taken back, as if somebody had pressed Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options.verb(options)
    except Failed as error:
        sys.exit(f"gpu-kubernetes: {error}")
    except KeyboardInterrupt:
        sys.exit("gpu-kubernetes: interrupted; what was begun was taken back")


if __name__ == "__main__":
    main()
