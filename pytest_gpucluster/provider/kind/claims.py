"""Which clusters are ours, whose, and until when: a small file for each, written before the cluster is made.

A run that is killed leaves its cluster. The file tells it from a living run's: by the owner's process where that can be
asked (same machine, same process namespace), else by its expiry.
"""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import filelock

from pytest_gpucluster.plain import times
from pytest_gpucluster.provider import processes
from pytest_gpucluster.provider.protocol import ProviderError

PREFIX = "gpucluster-"
"""How the names of clusters begin that a run makes for itself."""

EXPIRES_AFTER = 2 * 3600.0
"""Seconds after which `gpucluster cleanup --all-expired` takes a cluster whose owner cannot be asked."""

NAMED = re.compile(r"^gpucluster-(\d{10})-[0-9a-f]{6}$")
NAME_LIMIT = 40
"""Longest name: kind appends `-control-plane` and the like, and host names have 63 letters."""

LOCK_LIMIT = 900.0
"""Seconds that a run waits for another one that is making the cluster of the same name."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """One cluster of ours.

    Attributes:
        name: the cluster's name.
        run: id of the run that made it.
        owner: process that ends it.
        born: when that process began, in clock ticks since boot.
        machine: where `owner` means anything.
        expires: RFC 3339 time after which anybody may remove it.
        kept: it is meant to outlive its run.
        engine: variables that decide which container engine has it.
    """

    name: str
    run: str
    owner: int
    born: int
    machine: str
    expires: str
    kept: bool = False
    engine: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def orphaned(self) -> bool:
        """Report whether it should have gone with its run, which has ended; no where that cannot be told."""
        return not self.kept and self.machine == here() and processes.born(self.owner) != self.born

    @property
    def expired(self) -> bool:
        """Report whether its time has passed; a cluster that is meant to stay has none."""
        return not self.kept and times.parse_time(self.expires) < times.now()


def folder() -> Path:
    """Return the folder of the claims of this user.

    Raises:
        ProviderError: it cannot be made.
    """
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(base).expanduser() / "pytest-gpucluster" / "kind"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProviderError(
            f"--cluster=kind: {path} cannot be made: {error.strerror}; XDG_STATE_HOME names another place"
        ) from None
    return path


def here() -> str:
    """Return what tells this machine and process namespace from others: process ids mean nothing elsewhere."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    with contextlib.suppress(OSError):
        return f"{boot.read_text(encoding='utf-8').strip()}/{Path('/proc/self/ns/pid').readlink()}"
    return "unknown"


def new_name() -> str:
    """Return a name that no other cluster has; when it was made can be read off it."""
    return f"{PREFIX}{times.now():%y%m%d%H%M}-{secrets.token_hex(3)}"


def new(name: str, run: str, owner: int, *, kept: bool, engine: Mapping[str, str]) -> Claim:
    """Return a claim of a process on a cluster."""
    expires = times.format_time(times.in_seconds(EXPIRES_AFTER))
    return Claim(name, run, owner, processes.born(owner) or 0, here(), expires, kept, dict(engine))


def write(claim: Claim) -> None:
    """Write a claim down."""
    path = folder() / f"{claim.name}.json"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(dataclasses.asdict(claim), indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def read(name: str) -> Claim | None:
    """Return the claim on a cluster, None where there is none that can be read."""
    try:
        data = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
        return Claim(**data)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def all_claims() -> tuple[Claim, ...]:
    """Return all claims of this user."""
    found = (read(path.stem) for path in sorted(folder().glob("*.json")))
    return tuple(claim for claim in found if claim is not None)


def forget(name: str) -> None:
    """Remove a claim and what lies beside it; the cluster is gone."""
    shutil.rmtree(folder() / f"{name}.numa", ignore_errors=True)
    shutil.rmtree(shared_folder(name), ignore_errors=True)
    (folder() / f"{name}.json").unlink(missing_ok=True)
    if NAMED.match(name):
        # Nobody makes a cluster of this name again; the lock of a name that the operator chose stays.
        (folder() / f"{name}.lock").unlink(missing_ok=True)


def shared_folder(name: str) -> Path:
    """Return the folder that all nodes of a cluster see, whether it is there or not."""
    return folder() / f"{name}.shared"


def made_at(name: str) -> float | None:
    """Return how many seconds ago a cluster was made, read off its name; None for names of others."""
    found = NAMED.match(name)
    if found is None:
        return None
    stamp = found[1]
    text = f"20{stamp[:2]}-{stamp[2:4]}-{stamp[4:6]}T{stamp[6:8]}:{stamp[8:]}:00Z"
    with contextlib.suppress(ValueError):
        return (times.now() - times.parse_time(text)).total_seconds()
    return None


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a name, so that two runs do not make or remove the same cluster at once.

    Raises:
        ProviderError: another run holds it for too long.
    """
    try:
        with filelock.FileLock(folder() / f"{name}.lock", timeout=LOCK_LIMIT):
            yield
    except filelock.Timeout:
        raise ProviderError(
            f"--cluster=kind: another run has been making or removing the cluster {name!r} for {LOCK_LIMIT:.0f} s"
        ) from None


@contextlib.contextmanager
def locked_at_once(name: str) -> Iterator[bool]:
    """Hold a name if nobody does, and give whether that is so: whoever does is making or removing the cluster."""
    lock = filelock.FileLock(folder() / f"{name}.lock", blocking=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
