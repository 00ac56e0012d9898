#!/usr/bin/env python3
"""An OCI runtime: runc, asked for no more than this machine may give.

`docker run --privileged` and `docker exec --privileged` (kind uses both) name every capability that the kernel knows;
runc fails with "unable to apply caps" where the bounding set is smaller, as inside many containers. The same goes for
negative out-of-memory scores. Both are taken out of what the engine wrote, then this process becomes runc.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NAMES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *(
        "LINUX_IMMUTABLE",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_ADMIN",
        "NET_RAW",
        "IPC_LOCK",
        "IPC_OWNER",
    ),
    *(
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_CHROOT",
        "SYS_PTRACE",
        "SYS_PACCT",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_NICE",
    ),
    *(
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "MKNOD",
        "LEASE",
        "AUDIT_WRITE",
        "AUDIT_CONTROL",
        "SETFCAP",
    ),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""Capabilities, in the order of their numbers."""


def bounding_set() -> set[str]:
    """Return the capabilities that processes here can have at all."""
    status = Path("/proc/self/status").read_text()
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd:"))
    return {f"CAP_{name}" for number, name in enumerate(NAMES) if mask >> number & 1}


def option(argv: Sequence[str], *names: str) -> str | None:
    """Return the value of an option of runc's command line."""
    for place, word in enumerate(argv):
        for name in names:
            if word == name:
                return argv[place + 1]
            if name.startswith("--") and word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


def reduce(file: Path, process_of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Take what cannot be had out of the process that a file describes."""
    document = json.loads(file.read_text())
    process = process_of(document)
    possible = bounding_set()
    for kind, wanted in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [each for each in wanted or [] if each in possible]
    if (process.get("oomScoreAdj") or 0) < 0:
        process["oomScoreAdj"] = 0
    written = file.with_name(f"{file.name}.new")
    written.write_text(json.dumps(document))
    written.replace(file)


def main(argv: Sequence[str]) -> None:
    """Rewrite what runc is about to read and become runc."""
    if "create" in argv or "run" in argv:
        reduce(
            Path(option(argv, "--bundle", "-b") or ".") / "config.json",
            lambda bundle: bundle.get("process", {}),
        )
    elif "exec" in argv and (process := option(argv, "--process", "-p")):
        reduce(Path(process), lambda document: document)
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if runc is None:
        sys.exit("runc is not installed")
    os.execv(runc, ["runc", *argv])


main(sys.argv[1:])
