"""Have a cluster once a run, in whichever process needs it first, and end it with its owner."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import filelock

from pytest_gpucluster.plain import private
from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider import processes
from pytest_gpucluster.provider.embedded import EmbeddedProvider
from pytest_gpucluster.provider.existing import ExistingProvider
from pytest_gpucluster.provider.host import HostProvider
from pytest_gpucluster.provider.kind import KindProvider
from pytest_gpucluster.provider.protocol import (
    CLUSTER_FILE,
    Cluster,
    Provider,
    ProviderError,
    Running,
    Started,
)

LOCK_FILE = "provider.lock"

PROVIDERS: dict[str, Callable[[bool], Provider]] = {
    "embedded": lambda _: EmbeddedProvider(),
    "existing": lambda _: ExistingProvider(),
    "kind": lambda keep: KindProvider(keep=keep),
    "host": lambda _: HostProvider(),
}
"""Name of a provider -> how it is made; it is told whether a cluster that is made for the run stays after it."""


def of(loaded: LoadedProfile, *, keep: bool = False) -> Provider:
    """Return the provider that a profile names."""
    return PROVIDERS[loaded.profile.provider](keep)


def verify(loaded: LoadedProfile) -> None:
    """Check what can be checked without a cluster: a file that is named exists.

    Raises:
        ProviderError: one line that says what is missing.
    """
    of(loaded).verify(loaded)


def completed(loaded: LoadedProfile) -> LoadedProfile:
    """Return a profile with what only the place of the cluster could tell, such as how many GPUs a machine has.

    Raises:
        ProviderError: the place does not tell it.
    """
    return of(loaded).completed(loaded)


@dataclasses.dataclass
class Held:
    """A cluster that was had, with what this process holds of it.

    Attributes:
        cluster: the cluster.
        owned: this process must end it; otherwise it is ended by its owner.
        run_folder: where `cluster.json` lies.
        pipes: open ends of the processes' inputs: closing them ends the processes.
    """

    cluster: Cluster
    owned: bool
    run_folder: Path
    pipes: Sequence[processes.Pipe] = ()

    def close(self) -> list[str]:
        """End the cluster if it is ours; a second call does nothing. Return what could not be ended, one line each."""
        if not self.owned:
            return []
        self.owned = False
        # Last in, first out: nodes before the API server that they report to.
        for pipe in reversed(self.pipes):
            pipe.close()
        return stop(self.run_folder)


def obtain(
    loaded: LoadedProfile,
    run_folder: Path,
    defects: Sequence[str] = (),
    owner_pid: int | None = None,
    source: Provider | None = None,
    *,
    keep: bool = False,
) -> Held:
    """Return the cluster of a run: start it if nobody has, else attach to it.

    Args:
        loaded: the profile.
        run_folder: the run's folder, which all processes of the run share.
        defects: planted defects (embedded only).
        owner_pid: the process with whose end the cluster ends and that calls `stop`; None for this one.
        source: the provider; None for the one that the profile names.
        keep: a cluster that is made for the run stays after it.

    Raises:
        ProviderError: the cluster does not start or does not answer.
    """
    maker = source or of(loaded, keep=keep)
    owner = owner_pid or os.getpid()
    private.folder(run_folder)
    try:
        with filelock.FileLock(run_folder / LOCK_FILE, maker.start_limit, private.FILE):
            known = _read(run_folder)
            if known is not None:
                return Held(known.cluster, owned=False, run_folder=run_folder)
            started, pipes = maker.start(loaded, run_folder, defects=defects, owner_pid=owner)
            _record(run_folder, started, pipes, maker)
    except filelock.Timeout:
        raise ProviderError(
            f"another process of this run did not start the cluster within {maker.start_limit:.0f} s"
        ) from None
    return Held(started.cluster, owned=owner == os.getpid(), run_folder=run_folder, pipes=tuple(pipes))


@contextlib.contextmanager
def start(
    loaded: LoadedProfile,
    run_folder: Path,
    defects: Sequence[str] = (),
    owner_pid: int | None = None,
    source: Provider | None = None,
) -> Iterator[Cluster]:
    """Have a cluster for the length of a `with` block.

    Raises:
        ProviderError: the cluster does not start or does not answer.
    """
    held = obtain(loaded, run_folder, defects, owner_pid, source)
    try:
        yield held.cluster
    finally:
        held.close()


def attach(run_folder: Path) -> Cluster | None:
    """Return the cluster that another process of the run started, None when there is none."""
    known = _read(run_folder)
    return known.cluster if known else None


def stop(run_folder: Path) -> list[str]:
    """End what was started for a run, nodes before the control plane; does nothing when nothing was.

    Returns:
        What could not be ended, one line each.
    """
    known = _read(run_folder)
    if known is None:
        return []
    for running in reversed(known.running):
        processes.end(running)
    if known.folder:
        shutil.rmtree(known.folder, ignore_errors=True)
    if known.undo is not None:
        left = PROVIDERS[known.cluster.provider](False).undo(known.undo)  # noqa: FBT003 (it is removed)
        if left:
            return [left]
    if known.running or known.undo is not None:
        (run_folder / CLUSTER_FILE).unlink(missing_ok=True)
    return []


def _record(run_folder: Path, started: Started, pipes: Sequence[processes.Pipe], maker: Provider) -> None:
    """Write down what was started; what is not written whole is known to nobody, so it ends here."""
    try:
        _write(run_folder, started)
    except BaseException:
        for pipe in reversed(pipes):
            processes.end_now(pipe)
        if started.folder:
            shutil.rmtree(started.folder, ignore_errors=True)
        if started.undo is not None:
            maker.undo(started.undo)
        (run_folder / CLUSTER_FILE).unlink(missing_ok=True)
        raise


def _write(run_folder: Path, started: Started) -> None:
    data: dict[str, Any] = {
        "cluster": started.cluster.as_dict(),
        "running": [dataclasses.asdict(item) for item in started.running],
        "folder": started.folder,
        "undo": dict(started.undo) if started.undo is not None else None,
    }
    target = run_folder / CLUSTER_FILE
    partial = target.with_suffix(".partial")
    private.write(partial, json.dumps(data, indent=1) + "\n")
    partial.replace(target)


def _read(run_folder: Path) -> Started | None:
    try:
        data = json.loads((run_folder / CLUSTER_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Started(
        Cluster.from_dict(data["cluster"]),
        tuple(Running(**item) for item in data["running"]),
        data["folder"],
        data.get("undo"),
    )
