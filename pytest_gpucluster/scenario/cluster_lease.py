"""Turns between runs: a Lease in the cluster that one run holds, shared by its workers, kept alive by a thread."""

import contextlib
import fcntl
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import IO

import filelock

from pytest_gpucluster.kube import errors, leases, objects
from pytest_gpucluster.kube import permissions as rights
from pytest_gpucluster.plain import names, private
from pytest_gpucluster.scenario import spec

NAME = "gpucluster"
"""Name of the Lease. One a cluster: what disturbs another run (a full queue, a gang that waits) has no node."""
UID_FILE = "lease.uid"
MEMBERS_FILE = "lease.members"
LOCK_FILE = "lease.lock"


def disturbs(scenario: spec.Scenario) -> bool:
    """Report whether a scenario takes something that another run could miss: GPUs, slots, the scheduler's attention."""
    needs = scenario.needs
    return bool(needs.gpus or needs.slot_nodes or needs.alone)


def permissions(namespace: str) -> set[rights.Permission]:
    """Return what taking turns takes."""
    return rights.on(
        leases.LEASE, "create", "delete", "list", "patch", "watch", namespace=namespace, name=NAME
    )


class Turn:
    """The run's hold on the cluster, as one worker of it sees it.

    The first worker takes the Lease and writes its uid into the run's folder, the others find it there, the last that
    leaves gives it back. Membership is a shared lock on a file, which a killed worker lets go of.

    Attributes:
        lost: why the Lease is no longer ours, "" while it is.
    """

    def __init__(
        self, api: objects.Objects, folder: pathlib.Path, run_id: str, expires: str, namespace: str
    ) -> None:
        """Hold nothing yet."""
        holder = f"{run_id} on {socket.gethostname()}"
        labels, annotations = {names.LABEL_RUN: run_id}, {names.ANNOTATION_EXPIRES: expires}
        self.lost = ""
        self._lease = leases.Lease(api, leases.Terms(namespace, NAME, holder, labels, annotations))
        self._clock = api.connection.clock
        self._folder = folder
        self._members: IO[str] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)

    def take(self, seconds: float, waiting: Callable[[str], None]) -> None:
        """Hold the cluster for the run, if this worker does not yet.

        Raises:
            EnvironmentProblem: another run holds it, or the Lease is not permitted; one line.
        """
        if self._members is not None:
            return
        with self._locked():
            uid = self._folder / UID_FILE
            with contextlib.ExitStack() as on_error:
                self._members = on_error.enter_context(private.opened(self._folder / MEMBERS_FILE, "a"))
                on_error.callback(self._forget)
                first = self._alone()
                fcntl.flock(self._members, fcntl.LOCK_SH)
                if first or not uid.exists():
                    self._take(seconds, waiting)
                    private.write(uid, self._lease.uid)
                self._lease.uid = uid.read_text(encoding="ascii")
                on_error.pop_all()
        self._thread.start()

    def _take(self, seconds: float, waiting: Callable[[str], None]) -> None:
        try:
            self._lease.take(seconds, waiting)
        except errors.ApiError as error:
            if error.denied:
                raise errors.EnvironmentProblem(
                    f"{error} (runs take turns by a Lease; gpucluster rbac prints the roles to grant)"
                ) from error
            raise

    def give_back(self) -> list[errors.LeftOver]:
        """Let go; the run's last worker removes the Lease. Return it where that failed: it lapses by itself."""
        if self._members is None:
            return []
        self._stop.set()
        self._thread.join()
        with self._locked():
            last = self._alone()
            self._members.close()
            self._members = None
            if not last:
                return []
            (self._folder / UID_FILE).unlink(missing_ok=True)
            try:
                self._lease.give_back()
            except errors.GpuClusterError as error:
                return [errors.LeftOver("Lease", self._lease.terms.namespace, NAME, str(error))]
        return []

    def _forget(self) -> None:
        self._members = None

    def _alone(self) -> bool:
        """Report whether no other worker of the run holds it; the lock is then exclusive."""
        if self._members is None:
            return False
        try:
            fcntl.flock(self._members, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _keep_alive(self) -> None:
        """Renew until told to stop; one worker a round, the others see that it was done."""
        uid = self._folder / UID_FILE
        while not self._clock.pause(self._stop, leases.RENEW):
            try:
                with self._locked():
                    if self._fresh(uid):
                        continue
                    if not self._lease.renew():
                        self.lost = "the Lease by which runs take turns was removed or taken over"
                        return
                    uid.touch()
            except errors.GpuClusterError as error:
                # The next round tries again; two may fail before anybody else may take it.
                self.lost = (
                    self.lost if not isinstance(error, errors.ApiError) or not error.denied else str(error)
                )

    def _fresh(self, uid: pathlib.Path) -> bool:
        import time  # noqa: PLC0415 (file times are the system's, whatever clock waits)

        with contextlib.suppress(FileNotFoundError):
            return time.time() - uid.stat().st_mtime < leases.RENEW / 2
        return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with filelock.FileLock(str(self._folder / LOCK_FILE)):
            yield
