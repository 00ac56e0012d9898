"""The present state, kept from watch lines, and the view of it that predicates get."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pytest_gpucluster.plain import names, shortening

Obj = dict[str, Any]
Place = tuple[str, str, str]
"""Kind key, namespace ("" for cluster-scoped objects), name."""


def owners_of(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the uids of an object's owners."""
    references = (obj.get("metadata") or {}).get("ownerReferences") or []
    return tuple(str(r.get("uid")) for r in references if r.get("uid"))


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return an object's uid, or ""."""
    return str((obj.get("metadata") or {}).get("uid") or "")


def is_marker(obj: Mapping[str, Any]) -> bool:
    """Report whether an object is there only to show that a watch is current."""
    return names.LABEL_MARKER in ((obj.get("metadata") or {}).get("labels") or {})


class State:
    """Every watched object as it is now, found by place and by owner. The holder of the lock uses it."""

    def __init__(self) -> None:
        """Start empty."""
        self._of: dict[tuple[str, str], dict[str, Obj]] = {}
        self._owned: dict[str, dict[Place, Obj]] = {}
        self._uids: dict[str, Place] = {}
        self.gone: set[str] = set()

    def apply(self, change: str, kind: str, obj: Obj) -> None:
        """Take one watch line."""
        metadata = obj.get("metadata") or {}
        place = (kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
        shelf = self._of.setdefault(place[:2], {})
        before = shelf.get(place[2])
        if before is not None:
            self._forget(place, before)
        if change == "DELETED":
            shelf.pop(place[2], None)
            self.gone.add(uid_of(obj))
            return
        shelf[place[2]] = obj
        self._uids[uid_of(obj)] = place
        for owner in owners_of(obj):
            self._owned.setdefault(owner, {})[place] = obj

    def _forget(self, place: Place, obj: Obj) -> None:
        self._uids.pop(uid_of(obj), None)
        for owner in owners_of(obj):
            owned = self._owned.get(owner)
            if owned is not None:
                owned.pop(place, None)
                if not owned:
                    del self._owned[owner]

    def shelf(self, kind: str, namespace: str) -> Mapping[str, Obj]:
        """Return the objects of a kind in a namespace by name, not copied."""
        return self._of.get((kind, namespace), {})

    def by_uid(self, uid: str) -> tuple[Place, Obj] | None:
        """Return the object with a uid, None when it is not there."""
        place = self._uids.get(uid)
        return None if place is None else (place, self._of[place[:2]][place[2]])

    def owned_by(self, uid: str) -> Iterator[tuple[Place, Obj]]:
        """Yield what an object owns, and what that owns in turn."""
        for place, obj in self._owned.get(uid, {}).items():
            yield place, obj
            yield from self.owned_by(uid_of(obj))

    def everything(self) -> Iterator[tuple[Place, Obj]]:
        """Yield all objects."""
        for (kind, namespace), shelf in self._of.items():
            for name, obj in shelf.items():
                yield (kind, namespace, name), obj


class HasUid(Protocol):
    """A handle, as far as it matters here."""

    @property
    def uid(self) -> str:
        """Return the object's uid."""


class Live:
    """The view that predicates get: objects as they are now, in the session's namespace unless said otherwise.

    What it returns is the state itself, not a copy: read it, do not change it. Asking costs what the answer is long,
    not what the namespace holds.

    Attributes:
        namespace: the session's.
        most_nodes: how many GPU nodes a scenario may try at most, None for all.
    """

    def __init__(
        self, state: State, lock: threading.Condition, namespace: str, most_nodes: int | None = None
    ) -> None:
        """View a state that is guarded by `lock`."""
        self._state = state
        self._lock = lock
        self.namespace = namespace
        self.most_nodes = most_nodes

    def objects(self, kind: str, namespace: str | None = None, owner_uid: str | None = None) -> list[Obj]:
        """Return the objects of a kind; with `owner_uid` those that it owns directly.

        Args:
            kind: kind key.
            namespace: None for the session's namespace and cluster-scoped objects.
            owner_uid: only what this object owns.
        """
        with self._lock:
            if owner_uid is not None:
                owned = self._state._owned.get(owner_uid, {})  # noqa: SLF001 (one module)
                return [o for place, o in owned.items() if place[0] == kind and namespace in {None, place[1]}]
            places = (self.namespace, "") if namespace is None else (namespace,)
            return [o for place in places for o in self._state.shelf(kind, place).values()]

    def get(self, kind: str, name: str, namespace: str | None = None) -> Obj | None:
        """Return one object, None when it is not there."""
        with self._lock:
            places = (self.namespace, "") if namespace is None else (namespace,)
            for place in places:
                found = self._state.shelf(kind, place).get(name)
                if found is not None:
                    return found
            return None

    def by_uid(self, uid: str) -> Obj | None:
        """Return the object with a uid, None when it is not (or no longer) there."""
        with self._lock:
            found = self._state.by_uid(uid)
            return None if found is None else found[1]

    def pods_of(self, handle: HasUid) -> list[Obj]:
        """Return the pods of a submitted object: itself if it is a pod, else all that it owns, at any depth."""
        with self._lock:
            own = self._state.by_uid(handle.uid)
            pods = [own[1]] if own is not None and own[0][0] == "Pod" else []
            return pods + [obj for place, obj in self._state.owned_by(handle.uid) if place[0] == "Pod"]

    def exists(self, handle: HasUid) -> bool:
        """Report whether a submitted object is there."""
        with self._lock:
            return self._state.by_uid(handle.uid) is not None

    def events_about(self, uid: str) -> list[Obj]:
        """Return the events whose involved object has a uid."""
        with self._lock:
            shelf = self._state.shelf("Event", self.namespace)
            return [e for e in shelf.values() if (e.get("involvedObject") or {}).get("uid") == uid]


def summary(state: State, uids: set[str]) -> str:
    """Return in one line how the objects with these uids and what they own look now: for waits that expired."""
    pods: Counter[str] = Counter()
    others: list[str] = []
    related = set(uids)
    for uid in uids:
        found = state.by_uid(uid)
        own = [] if found is None else [found]
        for place, obj in [*own, *state.owned_by(uid)]:
            related.add(uid_of(obj))
            status = obj.get("status") or {}
            if place[0] == "Pod":
                bound = "bound" if (obj.get("spec") or {}).get("nodeName") else "unbound"
                pods[f"{status.get('phase', '?')}, {bound}"] += 1
                continue
            stated = status.get("state")  # a Queue's is a word, a Volcano Job's an object
            phase = status.get("phase") or (stated.get("phase") if isinstance(stated, Mapping) else stated)
            if phase:
                others.append(f"{place[0]}/{place[2]} {phase}")
    words = [f"{n} pods {what}" for what, n in sorted(pods.items())] + sorted(set(others))
    events = [
        obj
        for place, obj in state.everything()
        if place[0] == "Event" and (obj.get("involvedObject") or {}).get("uid") in related
    ]
    events.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    words += [f"{e.get('reason')}: {shortening.shown(str(e.get('message') or ''), 160)}" for e in events[-3:]]
    return "; ".join(words) or "nothing of it is there"
