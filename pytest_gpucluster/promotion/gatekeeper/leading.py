"""Leader election: of several gatekeepers one works, known by a Lease; the others wait for it by a watch."""

import threading
from collections.abc import Callable

from pytest_gpucluster.kube import errors, leases

DURATION = 15
"""Seconds without a renewal after which another one takes over."""
RENEW = 5.0
"""Seconds between two renewals."""
FOR_EVER = 10.0 * 365 * 86400


class Leader:
    """One taker's hold on the Lease.

    Attributes:
        lost: why it is no longer ours, "" while it is.
    """

    def __init__(self, lease: leases.Lease, ended: Callable[[], None], renew: float = RENEW) -> None:
        """Hold nothing yet; `ended` is called when the Lease is lost."""
        self.lost = ""
        self._lease = lease
        self._ended = ended
        self._renew = renew
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def take(self, waiting: Callable[[str], None]) -> None:
        """Wait for the Lease and take it.

        Raises:
            ApiError, EnvironmentProblem: it may not be taken.
        """
        self._lease.take(FOR_EVER, waiting)
        self._thread.start()

    def give_back(self) -> None:
        """Let go, so that another one may take over at once."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
            if not self.lost:
                try:
                    self._lease.give_back()
                except errors.GpuClusterError:
                    return  # it lapses by itself

    def _keep(self) -> None:
        failed = 0
        while not self._stop.wait(self._renew):
            try:
                if not self._lease.renew():
                    self.lost = "the Lease was removed or taken over"
                failed = 0
            except errors.GpuClusterError as error:
                failed += 1
                # Two may fail; then another one may have taken over already.
                if (failed + 1) * self._renew >= self._lease.terms.duration:
                    self.lost = " ".join(str(error).split())
            if self.lost:
                self._ended()
                return
