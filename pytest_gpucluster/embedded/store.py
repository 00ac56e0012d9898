"""The store: every object of the cluster, one version counter, and who is told of a change.

One asyncio loop uses it, so each method is one step and nothing needs a lock. Objects inside are never
changed in place; what goes in and comes out is copied.
"""

import heapq
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.admission import AdmissionHook, admit
from pytest_gpucluster.embedded.deletion import grace_of, mark, may_go
from pytest_gpucluster.embedded.feed import (
    ADDED,
    DELETED,
    MODIFIED,
    Change,
    DetachFeed,
    Feed,
    History,
    Subscription,
)
from pytest_gpucluster.embedded.objects import (
    Key,
    Obj,
    is_deleting,
    name_of,
    namespace_of,
    version_of,
)
from pytest_gpucluster.embedded.resources import ResourceTable, ResourceType
from pytest_gpucluster.embedded.writing import (
    check_metadata,
    check_namespace,
    check_same_object,
    generated_name,
    merge_for_update,
    next_generation,
    same_content,
)
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.times import format_time, now

HISTORY_DEPTH = 20_000
"""Changes kept per kind; a watch from before them is answered with 410."""

# The store has a method called `list`, which hides the built-in inside the class.
Objs = list[Obj]
Keys = list[str]
Changes = list[Change]


class Store:
    """All objects of the cluster."""

    def __init__(
        self,
        table: ResourceTable,
        *,
        clock: Callable[[], datetime] = now,
        history: int = HISTORY_DEPTH,
    ) -> None:
        """Make an empty store of the types in a table.

        Args:
            table: The served types.
            clock: What the time stamps of objects are taken from.
            history: Changes kept per kind for watches that resume.
        """
        self.table = table
        self.admission: list[AdmissionHook[Store]] = []
        self.clock = clock
        self._objects: dict[str, dict[Key, Obj]] = {}
        self._history: dict[str, History] = {}
        self._depth = history
        self._feeds: dict[str, list[Feed]] = {}
        self._detach = DetachFeed(self._feeds)
        self._version = 0

    # -- reading -----------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The resource version of the last write."""
        return self._version

    def now(self) -> str:
        """Return the present time as objects carry it, in whole seconds."""
        return format_time(self.clock())

    def find(self, kind_key: str, namespace: str | None, name: str) -> Obj | None:
        """Return an object, or None when it is not there."""
        obj = self.peek(kind_key, namespace, name)
        return None if obj is None else clone(obj)

    def get(self, kind_key: str, namespace: str | None, name: str) -> Obj:
        """Return an object.

        Raises:
            ApiError: 404 when it is not there.
        """
        obj = self.find(kind_key, namespace, name)
        if obj is None:
            row = self.table[kind_key]
            raise errors.not_found(row.plural, row.group, name)
        return obj

    def list(
        self,
        kind_key: str,
        namespace: str | None = None,
        selector: Callable[[Obj], bool] | None = None,
    ) -> Objs:
        """Return the objects of a kind, by namespace and name; `None` means every namespace."""
        return [clone(o) for o in self.peek_all(kind_key, namespace, selector)]

    def peek(self, kind_key: str, namespace: str | None, name: str) -> Obj | None:
        """Return the stored object itself, which the caller must not change."""
        row = self.table[kind_key]
        place = (namespace or "" if row.namespaced else "", name)
        return self._objects.get(kind_key, {}).get(place)

    def peek_all(
        self,
        kind_key: str,
        namespace: str | None = None,
        selector: Callable[[Obj], bool] | None = None,
    ) -> Objs:
        """Return the stored objects themselves, which the caller must not change."""
        found = self._objects.get(kind_key, {})
        return [
            found[key]
            for key in sorted(found)
            if (not namespace or key[0] == namespace) and (selector is None or selector(found[key]))
        ]

    # -- writing -----------------------------------------------------------------------------------

    def create(self, kind_key: str, obj: Obj, *, dry_run: bool = False) -> Obj:
        """Store a new object and return it.

        Raises:
            ApiError: 409 when the name is taken, 404 when the namespace is missing, 403 when it is being
                deleted, 422 when the object is not acceptable, or what admission answers.
        """
        row = self.table[kind_key]
        new = self._prepare(row, clone(obj))
        new = admit(self.admission, self, kind_key, operation="CREATE", phase="mutating", obj=new, old=None)
        row.default(new)
        self._check(row, new, None)
        new = admit(self.admission, self, kind_key, operation="CREATE", phase="validating", obj=new, old=None)
        key = (namespace_of(new), name_of(new))
        if key in self._objects.get(kind_key, {}):
            raise errors.already_exists(row.plural, row.group, key[1])
        if dry_run:
            return new
        self._put(ADDED, kind_key, key, new, None)
        return clone(new)

    def update(
        self, kind_key: str, obj: Obj, *, subresource: str | None = None, dry_run: bool = False
    ) -> Obj:
        """Replace an object, or only its status, and return what is stored.

        The sub-resource `binding` writes a pod's node and status together (see `binding.bind`); like
        `status` it is not admitted again.

        A write that changes nothing keeps the version. Removing the last finalizer of an object that is
        being deleted ends it.

        Raises:
            ApiError: 404, 409 on a stale resourceVersion or another uid, 422, or what admission answers.
        """
        row = self.table[kind_key]
        key = (namespace_of(obj) if row.namespaced else "", name_of(obj))
        old = self._objects.get(kind_key, {}).get(key)
        if old is None:
            raise errors.not_found(row.plural, row.group, key[1])
        check_same_object(row, old, obj)
        new = merge_for_update(row, old, clone(obj), subresource)
        if subresource is None:
            new = admit(
                self.admission, self, kind_key, operation="UPDATE", phase="mutating", obj=new, old=clone(old)
            )
            row.default(new)
            self._check(row, new, old)
            new = admit(
                self.admission,
                self,
                kind_key,
                operation="UPDATE",
                phase="validating",
                obj=new,
                old=clone(old),
            )
        if row.generation and subresource != "binding":
            new["metadata"]["generation"] = next_generation(row, old, new)
        if same_content(old, new):
            return clone(old)
        if dry_run:
            return new
        if is_deleting(new) and may_go(new):
            # The write that takes the last finalizer off is never stored: the deletion shows the state before it.
            self._remove(kind_key, key, clone(old), old)
            return clone(new)
        self._put(MODIFIED, kind_key, key, new, old)
        return clone(new)

    def mutate(
        self,
        kind_key: str,
        namespace: str | None,
        name: str,
        fn: Callable[[Obj], None],
        *,
        subresource: str | None = None,
    ) -> Obj | None:
        """Read, change and write an object in one step; None when it is not there."""
        obj = self.find(kind_key, namespace, name)
        if obj is None:
            return None
        fn(obj)
        return self.update(kind_key, obj, subresource=subresource)

    def delete(
        self,
        kind_key: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str = "Background",
        dry_run: bool = False,
    ) -> Obj | None:
        """Delete an object, or mark it where finalizers or a grace period hold it.

        A pod that is bound to a node stays, with deletionTimestamp, until it is deleted with grace 0, as
        its kubelet does; an unbound or ended pod goes at once.

        Args:
            kind_key: Kind of the object.
            namespace: Its namespace; ignored for cluster-scoped kinds.
            name: Its name.
            uid: When given, only this very object is deleted.
            grace: Seconds of grace for a pod; by default those of its spec.
            propagation: Background, Foreground or Orphan.
            dry_run: Change nothing.

        Returns:
            The last state of the object, None when it was not there.

        Raises:
            ApiError: 409 when the uid is another, or what admission answers.
        """
        row = self.table[kind_key]
        old = self.peek(kind_key, namespace, name)
        if old is None:
            return None
        if uid is not None and old["metadata"]["uid"] != uid:
            why = (
                f"the UID in the precondition ({uid}) does not match the UID in record "
                f"({old['metadata']['uid']}). The object might have been deleted and then recreated"
            )
            raise errors.conflict(row.plural, row.group, name, f"Precondition failed: {why}")
        admit(
            self.admission,
            self,
            kind_key,
            operation="DELETE",
            phase="validating",
            obj=clone(old),
            old=clone(old),
        )
        new = clone(old)
        mark(row, new, propagation, grace_of(row, old, grace), self.clock())
        if dry_run:
            return new
        key = (namespace_of(old), name)
        if not same_content(old, new):
            going = may_go(new)
            if not going or row.key == "Pod":
                # The API server writes a pod's last grace period before it removes the pod.
                self._put(MODIFIED, kind_key, key, new, old)
            if not going:
                return clone(new)
        elif not may_go(new):
            return clone(new)
        self._remove(kind_key, key, clone(new), new)
        return new

    # -- following ---------------------------------------------------------------------------------

    def subscribe(self, kind_keys: Iterable[str]) -> Subscription:
        """Follow some kinds, beginning with an ADDED for every present object in order of version."""
        keys = [*kind_keys]
        feed = Feed()
        present = [(version_of(o), k, o) for k in keys for o in self._objects.get(k, {}).values()]
        for version, key, obj in sorted(present, key=lambda p: p[0]):
            feed.put(Change(ADDED, key, obj, None, version))
        self._attach(feed, keys)
        return Subscription(feed, self._detach)

    def follow(self, kind_key: str, since: int) -> Feed:
        """Return a feed of one kind that begins after a version.

        Raises:
            ApiError: 410 when changes after that version are no longer kept.
        """
        newer = self._history_of(kind_key).since(since)
        if newer is None:
            raise errors.expired(f"too old resource version: {since} ({self._history_of(kind_key).floor})")
        feed = Feed()
        for change in newer:
            feed.put(change)
        self._attach(feed, [kind_key])
        return feed

    def unfollow(self, feed: Feed) -> None:
        """Stop a feed of `follow`."""
        feed.close()
        self._detach(feed)

    def history(self, kind_keys: Iterable[str]) -> Changes:
        """Return the kept changes of some kinds in order of version."""
        kept = [self._history_of(k) for k in kind_keys]
        return list(heapq.merge(*(h.since(h.floor) or [] for h in kept), key=lambda c: c.version))

    def compact(self, kind_key: str | None = None) -> None:
        """Forget past changes of one kind or of all, so that watches from before now get 410."""
        self._version += 1  # the floor must lie above every version handed out so far
        for key in [kind_key] if kind_key else [row.key for row in self.table]:
            self._history_of(key).compact(self._version)

    def close(self) -> None:
        """End every subscription and watch."""
        for feed in {id(f): f for feeds in self._feeds.values() for f in feeds}.values():
            feed.close()
        self._feeds.clear()

    # -- inside ------------------------------------------------------------------------------------

    def _attach(self, feed: Feed, keys: Keys) -> None:
        for key in keys:
            self._feeds.setdefault(key, []).append(feed)

    def _history_of(self, key: str) -> History:
        found = self._history.get(key)
        if found is None:
            found = self._history[key] = History(self._depth)
        return found

    def _put(self, kind: str, kind_key: str, key: Key, new: Obj, old: Obj | None) -> None:
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        stored = clone(new)
        self._objects.setdefault(kind_key, {})[key] = stored
        self._tell(Change(kind, kind_key, stored, old, self._version))

    def _remove(self, kind_key: str, key: Key, last: Obj, old: Obj) -> None:
        self._version += 1
        last["metadata"]["resourceVersion"] = str(self._version)
        del self._objects[kind_key][key]
        self._tell(Change(DELETED, kind_key, clone(last), old, self._version))

    def _tell(self, change: Change) -> None:
        self._history_of(change.key).add(change)
        for feed in (*self._feeds.get(change.key, ()),):
            feed.put(change)

    def _prepare(self, row: ResourceType, obj: Obj) -> Obj:
        obj["apiVersion"], obj["kind"] = row.api_version, row.kind
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = generated_name(meta["generateName"])
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            meta.pop(field, None)
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = self.now()
        if row.generation:
            meta["generation"] = 1
        if row.has_status and not row.keeps_status:
            obj.pop("status", None)
        if not row.namespaced:
            meta.pop("namespace", None)
            return obj
        check_namespace(row, obj, self.peek("Namespace", None, namespace_of(obj)))
        return obj

    def _check(self, row: ResourceType, new: Obj, old: Obj | None) -> None:
        causes = check_metadata(row, new) + row.validate(new, old)
        if causes:
            raise errors.invalid(row.kind, row.group, name_of(new), causes)
