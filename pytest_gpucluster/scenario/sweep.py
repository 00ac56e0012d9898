"""Removing what killed runs left: for `gpucluster cleanup`, and for the end of a run."""

import dataclasses
import datetime as dt
import threading
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, kinds, leases, objects, watch
from pytest_gpucluster.kube.errors import LeftOver
from pytest_gpucluster.plain import names, times
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import slots

CLUSTER_SCOPED = (
    "Queue", "PriorityClass", "ClusterQueue", "ResourceFlavor", "Topology", "ClusterRoleBinding", "ClusterRole",
)  # fmt: skip
"""Kind keys of cluster-scoped objects that scenarios may make; an API that is not served has none."""


@dataclasses.dataclass(frozen=True)
class Swept:
    """What a sweep did.

    Attributes:
        removed: lines that name what was removed.
        kept: lines that name what is ours and was kept, and why.
        failed: what could not be removed.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    failed: tuple[LeftOver, ...]


@dataclasses.dataclass
class _Tally:
    removed: list[str] = dataclasses.field(default_factory=list)
    kept: list[str] = dataclasses.field(default_factory=list)
    failed: list[LeftOver] = dataclasses.field(default_factory=list)
    kept_runs: set[str] = dataclasses.field(default_factory=set)
    going: dict[str, str] = dataclasses.field(default_factory=dict)
    """Uid -> name of namespaces that are on their way out."""


def sweep(
    connection: connections.Connection,
    *,
    run_id: str | None = None,
    older_than: dt.timedelta | None = None,
    now: dt.datetime | None = None,
    seconds: float = 60.0,
    namespace: str | None = None,
) -> Swept:
    """Remove namespaces, cluster-scoped objects and slots of a run, or of all runs whose time has passed.

    Only what carries `gpucluster.dev/run` or a slot resource of ours is touched. Slots carry the end of their run's
    id: they stay as long as a namespace of that run stays.

    Args:
        connection: the cluster.
        run_id: remove what is of this run, expired or not; None for all that has expired.
        older_than: also remove what was created longer ago than this.
        now: the present time; for tests.
        seconds: how long to wait, by watch, for namespaces to be really gone.
        namespace: one that is lent to runs and stays: what a run made in it is removed.

    Raises:
        EnvironmentProblem: the API server cannot be reached, or does not let us list namespaces or nodes.
    """
    api = objects.Objects(connection)
    when = now or times.now()
    tally = _Tally()
    labels = names.LABEL_RUN if run_id is None else f"{names.LABEL_RUN}={names.safe_name(run_id)}"
    # Who lends a namespace grants no more: no other was made.
    made = () if namespace else (objects.NAMESPACE,)
    for info in (*made, *(objects.table_row(key) for key in CLUSTER_SCOPED)):
        for obj in _listed(api, info, labels):
            _one(api, info, obj, run_id=run_id, older_than=older_than, now=when, tally=tally)
    for info in kinds.TABLE if namespace else ():
        if info.namespaced and info.key != leases.LEASE.key:
            for obj in _listed(api, info, labels, namespace):
                # What a controller made goes with its owner.
                if not obj["metadata"].get("ownerReferences"):
                    _one(api, info, obj, run_id=run_id, older_than=older_than, now=when, tally=tally)
    _slots(api, run_id, tally)
    if tally.going:
        _await(api, tally, seconds)
    # Last: what is left of a run would disturb whoever takes its turn.
    for obj in _listed(api, leases.LEASE, labels):
        _one(api, leases.LEASE, obj, run_id=run_id, older_than=older_than, now=when, tally=tally)
    return Swept(tuple(tally.removed), tuple(tally.kept), tuple(tally.failed))


def _listed(
    api: objects.Objects, info: kinds.KindInfo, labels: str, namespace: str | None = None
) -> list[dict[str, Any]]:
    try:
        return api.list(info, namespace, labels=labels)
    except errors.ApiError as error:
        if info is objects.NAMESPACE:
            raise errors.EnvironmentProblem(str(error)) from error
        return []  # not served, or not ours to list: then we made none


def _one(
    api: objects.Objects,
    info: kinds.KindInfo,
    obj: Mapping[str, Any],
    *,
    run_id: str | None,
    older_than: dt.timedelta | None,
    now: dt.datetime,
    tally: _Tally,
) -> None:
    metadata = obj["metadata"]
    space = str(metadata.get("namespace") or "")
    name, run = str(metadata["name"]), str(metadata["labels"][names.LABEL_RUN])
    why = f"of run {run}" if run_id is not None else _due(metadata, older_than, now)
    if not why and info is leases.LEASE and leases.lapsed(obj):
        why = "not renewed in time"
    if not why:
        expires = (metadata.get("annotations") or {}).get(names.ANNOTATION_EXPIRES, "never")
        tally.kept.append(f"{info.key}/{name} of run {run}: expires {expires}")
        tally.kept_runs.add(sites.short_run(run))
        return
    try:
        answer = api.delete(info, name, space or None, uid=str(metadata.get("uid") or "") or None)
    except errors.GpuClusterError as error:
        tally.failed.append(LeftOver(info.key, space, name, str(error)))
        return
    place = f" in {space}" if space else ""
    tally.removed.append(f"{info.key}/{name}{place} ({why})")
    if answer.get("kind") == "Namespace":
        tally.going[str(metadata.get("uid"))] = name


def _due(metadata: Mapping[str, Any], older_than: dt.timedelta | None, now: dt.datetime) -> str:
    """Return why an object's time has passed, "" when it has not."""
    expires = (metadata.get("annotations") or {}).get(names.ANNOTATION_EXPIRES)
    try:
        if expires and times.parse_time(str(expires)) <= now:
            return f"expired {expires}"
        created = metadata.get("creationTimestamp")
        if older_than is not None and created and now - times.parse_time(str(created)) >= older_than:
            return f"created {created}"
    except ValueError:
        return "unreadable expiry"
    return ""


def _slots(api: objects.Objects, run_id: str | None, tally: _Tally) -> None:
    try:
        nodes = api.list(objects.NODE)
    except errors.ApiError as error:
        tally.failed.append(LeftOver("slots", "", "all nodes", str(error)))
        return
    wanted = None if run_id is None else sites.short_run(run_id)
    for node in nodes:
        name = str(node["metadata"]["name"])
        status = node.get("status") or {}
        ours = {r for part in ("capacity", "allocatable") for r in status.get(part) or {} if _is_slot(r)}
        due: list[str] = []
        for resource in sorted(ours):
            run = resource.rpartition(".")[2]
            if run == wanted or (wanted is None and run not in tally.kept_runs):
                due.append(resource)
            else:
                tally.kept.append(
                    f"{resource} on node {name}: of another run" if wanted else f"{resource} on {name}"
                )
        if due:
            try:
                slots.remove(api, name, due)
            except errors.GpuClusterError as error:
                tally.failed.append(LeftOver("slots", "", name, str(error)))
            else:
                tally.removed.append(f"{', '.join(due)} on node {name}")


class _Departures:
    """Hears from a watch which namespaces are gone (`kube.watch.Sink`)."""

    def __init__(self, waited_for: dict[str, str]) -> None:
        """Wait for these: uid -> name."""
        self.present = dict(waited_for)
        self.changed = threading.Condition()
        self._seen: set[str] = set()

    def line(self, change: str, kind: str, obj: dict[str, Any], t: float) -> None:  # noqa: ARG002
        """Note an arrival or a departure."""
        uid = str(obj["metadata"].get("uid"))
        with self.changed:
            self._seen.add(uid)
            if change == "DELETED":
                self._gone(uid)

    def in_sync(self, kind: str, t: float, how: str) -> None:  # noqa: ARG002
        """After a list: what was not in it is gone."""
        with self.changed:
            for uid in [uid for uid in self.present if uid not in self._seen]:
                self._gone(uid)

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """Nothing follows from that."""

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:
        """Nothing follows from that: what was not seen to go is reported."""

    def _gone(self, uid: str) -> None:
        self.present.pop(uid, None)
        self.changed.notify_all()


def _await(api: objects.Objects, tally: _Tally, seconds: float) -> None:
    """Wait until the namespaces are gone; those that are not move from removed to failed."""
    heard = _Departures(tally.going)
    follower = watch.KindWatch(api, watch.Target(objects.NAMESPACE), heard)
    follower.start()
    clock = api.connection.clock
    deadline = clock.monotonic() + seconds
    with heard.changed:
        while heard.present and (left := deadline - clock.monotonic()) > 0:
            clock.wait(heard.changed, left)
        stuck = sorted(heard.present.values())
    follower.stop()
    follower.join()
    for name in stuck:
        tally.removed = [line for line in tally.removed if not line.startswith(f"Namespace/{name} ")]
        tally.failed.append(LeftOver("Namespace", "", name, f"still there after {seconds:g} s"))


def _is_slot(resource: str) -> bool:
    return resource.startswith(names.SLOT_PREFIX)
