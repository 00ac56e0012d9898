"""The garbage collector: what is owned goes with its last owner."""

from pytest_gpucluster.embedded.deletion import FOREGROUND, ORPHAN
from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

Place = tuple[str, str, str]
"""Kind key, namespace, name."""


class GarbageCollector:
    """Keeps the graph of owners and dependents, by uid."""

    def __init__(self, store: Store) -> None:
        """Collect the garbage of a store."""
        self._store = store
        self._known: dict[str, Place] = {}
        self._dependents: dict[str, set[str]] = {}
        self._owners: dict[str, set[str]] = {}

    async def run(self) -> None:
        """Follow every kind until cancelled."""
        with self._store.subscribe([row.key for row in self._store.table]) as changes:
            while batch := await changes.batch():
                for kind, key, obj in batch:
                    self._note(kind, key, obj)
                for kind, _, obj in batch:
                    self._act(kind, obj)

    def _note(self, kind: str, key: str, obj: Obj) -> None:
        uid = uid_of(obj)
        owners = set() if kind == DELETED else {r["uid"] for r in _references(obj)}
        for gone in self._owners.get(uid, set()) - owners:
            self._dependents.get(gone, set()).discard(uid)
        for owner in owners:
            self._dependents.setdefault(owner, set()).add(uid)
        if kind == DELETED:
            self._known.pop(uid, None)
            self._owners.pop(uid, None)
        else:
            self._known[uid] = (key, namespace_of(obj), name_of(obj))
            self._owners[uid] = owners

    def _act(self, kind: str, obj: Obj) -> None:
        uid = uid_of(obj)
        if kind == DELETED:
            for dependent in sorted(self._dependents.pop(uid, set())):
                self._judge(dependent)
            for reference in _references(obj):
                self._finish_owner(reference["uid"])
            return
        if is_deleting(obj):
            self._finish_owner(uid)
        if self._owners.get(uid):
            self._judge(uid)

    def _live(self, uid: str) -> Obj | None:
        place = self._known.get(uid)
        found = self._store.peek(*place) if place else None
        return found if found is not None and uid_of(found) == uid else None

    def _exists(self, reference: Obj, namespace: str) -> bool:
        """Report whether an owner is there, also when this collector has not heard of it yet."""
        if self._live(reference["uid"]) is not None:
            return True
        for row in self._store.table:
            if row.kind == reference.get("kind") and row.api_version == reference.get("apiVersion"):
                found = self._store.peek(row.key, namespace, str(reference.get("name")))
                return found is not None and uid_of(found) == reference["uid"]
        return True  # a kind that is not served cannot be looked up, so nothing is collected for it

    def _judge(self, uid: str) -> None:
        """Delete a dependent without living owners; take vanished ones off one that has others."""
        obj = self._live(uid)
        if obj is None or is_deleting(obj):
            return
        references = _references(obj)
        if not references:
            return
        present = [r for r in references if self._exists(r, namespace_of(obj))]
        waiting = [r for r in present if self._waits(r["uid"])]
        place = self._known[uid]
        if len(waiting) == len(present):
            blocking = any(self._live(d) for d in self._dependents.get(uid, ()))
            policy = "Foreground" if waiting and blocking else "Background"
            self._store.delete(*place, uid=uid, propagation=policy)
        elif len(present) < len(references):
            kept = {r["uid"] for r in present}
            self._rewrite(place, kept)

    def _waits(self, owner: str) -> bool:
        obj = self._live(owner)
        return obj is not None and FOREGROUND in _finalizers(obj) and is_deleting(obj)

    def _rewrite(self, place: Place, kept: set[str]) -> None:
        def change(obj: Obj) -> None:
            obj["metadata"]["ownerReferences"] = [r for r in _references(obj) if r["uid"] in kept]
            if not obj["metadata"]["ownerReferences"]:
                del obj["metadata"]["ownerReferences"]

        self._store.mutate(*place, change)

    def _finish_owner(self, uid: str) -> None:
        """Go on with an owner that waits for its dependents, or that lets them go."""
        obj = self._live(uid)
        if obj is None or not is_deleting(obj):
            return
        dependents = sorted(self._dependents.get(uid, set()))
        if ORPHAN in _finalizers(obj):
            for dependent in dependents:
                child = self._live(dependent)
                if child is not None:
                    kept = {r["uid"] for r in _references(child)} - {uid}
                    self._rewrite(self._known[dependent], kept)
            self._remove_finalizer(uid, ORPHAN)
        elif FOREGROUND in _finalizers(obj):
            blocking = [
                c
                for c in (self._live(d) for d in dependents)
                if c is not None
                and any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in _references(c))
            ]
            for dependent in dependents:
                self._judge(dependent)
            if not blocking:
                self._remove_finalizer(uid, FOREGROUND)

    def _remove_finalizer(self, uid: str, finalizer: str) -> None:
        def change(obj: Obj) -> None:
            obj["metadata"]["finalizers"] = [f for f in _finalizers(obj) if f != finalizer]

        self._store.mutate(*self._known[uid], change)


def _references(obj: Obj) -> list[Obj]:
    return obj["metadata"].get("ownerReferences") or []


def _finalizers(obj: Obj) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def start(runtime: Runtime) -> None:
    """Run the garbage collector."""
    runtime.spawn(GarbageCollector(runtime.store).run(), "garbage collector")
