"""A Lease that one of several takers holds at a time: taken, renewed, given back, waited for by watch.

A holder that died is known by a renewal that stays out for the lease's duration *as seen here*: clocks of different
machines are not compared, as in client-go's leader election. Who takes over removes the old object first, on the
condition that it is still what was seen, so that the uid of a Lease stands for one holder's time.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from pytest_gpucluster.kube import errors, objects, watch
from pytest_gpucluster.plain import times

Obj = dict[str, Any]

LEASE = objects.table_row("Lease")
DURATION = 150
"""Seconds without a renewal after which a holder counts as dead."""
RENEW = 60.0
"""Seconds between two renewals: two may fail and the lease is still held."""


class Held(errors.EnvironmentProblem):
    """Somebody else holds the lease and did not give it back in time."""


@dataclasses.dataclass(frozen=True)
class Terms:
    """Which Lease, in whose name.

    Attributes:
        namespace: where it is.
        name: its name.
        holder: who takes it; shown to those who wait.
        labels: of the object.
        annotations: of the object.
        duration: seconds without a renewal after which it is free.
    """

    namespace: str
    name: str
    holder: str
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    duration: int = DURATION


class Lease:
    """One taker's side of a Lease.

    Attributes:
        terms: which Lease, in whose name.
        uid: of the object that we hold, "" while we hold none.
    """

    def __init__(self, api: objects.Objects, terms: Terms, uid: str = "") -> None:
        """Hold nothing yet, or with `uid` what another process of the same holder has taken."""
        self.terms = terms
        self.uid = uid
        self._api = api
        self._clock = api.connection.clock

    def take(self, seconds: float, waiting: Callable[[str], None] = lambda _: None) -> None:
        """Take the lease; one request where it is free.

        Args:
            seconds: how long to wait for another holder.
            waiting: told once in one line that, for whom and how long is waited.

        Raises:
            Held: names the holder.
            ApiError, Unreachable: trouble with the request, permissions among them.
        """
        deadline = self._clock.monotonic() + seconds
        told = False
        while not self._create():
            with _Follower(self._api, self.terms) as seen:
                if seen.look(deadline) is not None and not told:
                    told = True
                    waiting(f"{_who(seen.last)} holds {self._place}; waiting for at most {seconds:g} s")
                stale = seen.free(deadline)
            if stale is not None:
                self._clear(stale)
            elif seen.present is not None or not seen.last:
                raise Held(
                    f"another run is on this cluster: {_who(seen.last)} holds {self._place}, waited {seconds:g} s"
                )

    def renew(self) -> bool:
        """Say that we still hold it; False when it is no longer ours."""
        change = {"metadata": {"uid": self.uid}, "spec": {"renewTime": _stamp()}}
        try:
            self._api.patch(LEASE, self.terms.name, change, self.terms.namespace)
        except errors.ApiError as error:
            if error.code in {404, 409}:
                return False
            raise
        return True

    def give_back(self) -> None:
        """Remove the object if it is still ours.

        Raises:
            ApiError, Unreachable: it could not be removed; it is free after its duration all the same.
        """
        uid, self.uid = self.uid, ""
        try:
            self._api.delete(LEASE, self.terms.name, self.terms.namespace, uid=uid)
        except errors.ApiError as error:
            if error.code != 409:
                raise

    @property
    def _place(self) -> str:
        return f"the Lease {self.terms.namespace}/{self.terms.name}"

    def _create(self) -> bool:
        now = _stamp()
        manifest = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {
                "name": self.terms.name,
                "namespace": self.terms.namespace,
                "labels": dict(self.terms.labels),
                "annotations": dict(self.terms.annotations),
            },
            "spec": {
                "holderIdentity": self.terms.holder,
                "leaseDurationSeconds": self.terms.duration,
                "acquireTime": now,
                "renewTime": now,
            },
        }
        try:
            made = self._api.create(manifest, namespace=self.terms.namespace)
        except errors.ApiError as error:
            if error.code == 409:
                return False
            raise
        self.uid = str(made["metadata"]["uid"])
        return True

    def _clear(self, stale: Obj) -> None:
        """Remove a dead holder's object, unless it changed since it was seen."""
        metadata = stale["metadata"]
        try:
            self._api.delete(
                LEASE,
                self.terms.name,
                self.terms.namespace,
                uid=str(metadata["uid"]),
                version=str(metadata["resourceVersion"]),
            )
        except errors.ApiError as error:
            if error.code != 409:
                raise


class _Follower:
    """Watches one Lease (`kube.watch.Sink`), in a `with` block.

    Attributes:
        last: the Lease as last seen; {} before.
        present: the Lease while it is there.
    """

    def __init__(self, api: objects.Objects, terms: Terms) -> None:
        self.last: Obj = {}
        self._terms = terms
        self._clock = api.connection.clock
        self._changed = threading.Condition()
        self.present: Obj | None = None
        self._seen = 0
        self._since = self._clock.monotonic()
        self._listed = False
        self._error: errors.GpuClusterError | None = None
        target = watch.Target(LEASE, terms.namespace, fields=f"metadata.name={terms.name}")
        self._watch = watch.KindWatch(api, target, self)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()
        self._watch.join()

    def look(self, deadline: float) -> Obj | None:
        """Return the Lease once it was listed, None when it is gone or cannot be seen in time.

        Raises:
            EnvironmentProblem: it may not be watched.
        """
        with self._changed:
            self._until(lambda: self._listed, deadline)
            return self.present

    def free(self, deadline: float) -> Obj | None:
        """Wait until the Lease is free or time is up; return what a dead holder left, None when nothing is there.

        Raises:
            EnvironmentProblem: it may not be watched.
        """
        with self._changed:
            while self.present is not None:
                if self._is_ours(self.present) or self._clock.monotonic() >= self._lapses(self.present):
                    return self.present
                if self._clock.monotonic() >= deadline:
                    return None
                before = self._seen
                self._until(lambda: self._seen != before, min(deadline, self._lapses(self.present)))  # noqa: B023
        return None

    def _until(self, check: Callable[[], bool], end: float) -> None:
        while not check() and self._clock.monotonic() < end:
            if self._error is not None:
                raise self._error
            self._clock.wait(self._changed, end - self._clock.monotonic())

    def _is_ours(self, lease: Mapping[str, Any]) -> bool:
        """Report whether an earlier process of this very holder left it."""
        return bool((lease.get("spec") or {}).get("holderIdentity") == self._terms.holder)

    def _lapses(self, lease: Mapping[str, Any]) -> float:
        spec = lease.get("spec") or {}
        duration = float(spec.get("leaseDurationSeconds") or self._terms.duration)
        if lapsed(lease, margin=duration):
            return self._since  # out for twice its duration: no clock is that wrong without its owner knowing
        return self._since + duration

    def line(self, change: str, kind: str, obj: Obj, t: float) -> None:  # noqa: ARG002
        """Take a change; a renewal begins the time anew."""
        with self._changed:
            self._seen += 1
            self.present = None if change == "DELETED" else obj
            self.last, self._since = obj, t
            self._changed.notify_all()

    def in_sync(self, kind: str, t: float, how: str) -> None:  # noqa: ARG002
        """After the list it is known whether there is one."""
        with self._changed:
            self._listed = True
            self._changed.notify_all()

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """A watch that resumes tells what was missed."""

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:  # noqa: ARG002
        """It may not be watched."""
        with self._changed:
            self._error = error
            self._changed.notify_all()


def lapsed(lease: Mapping[str, Any], *, margin: float = 0.0) -> bool:
    """Report whether a Lease was due for renewal more than `margin` seconds ago, by this machine's clock."""
    spec = lease.get("spec") or {}
    try:
        renewed = times.parse_time(str(spec.get("renewTime")))
    except ValueError:
        return False
    return (times.now() - renewed).total_seconds() > float(
        spec.get("leaseDurationSeconds") or DURATION
    ) + margin


def _who(lease: Mapping[str, Any]) -> str:
    spec = lease.get("spec") or {}
    return f"{spec.get('holderIdentity') or 'somebody'} (since {spec.get('acquireTime') or '?'})"


def _stamp() -> str:
    return times.format_time(times.now(), micro=True)
