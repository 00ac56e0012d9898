"""Objects of others in a namespace that was lent: they are not written down, only counted."""

import collections
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.scenario.entry import Entry


class Strangers:
    """Tells lines about what is ours from lines about what others have in the namespace.

    Ours is what carries the run's label, what such an object owns, and the Events about any of these. An object may
    come before its owner, and an Event before either: its lines are held back until it is known whose they are.
    """

    def __init__(self, namespace: str) -> None:
        """Know nothing of ours yet."""
        self._namespace = namespace
        self._ours: set[str] = set()
        self._held: dict[str, list[Entry]] = {}
        """Uid -> lines of the object."""
        self._waiting: dict[str, set[str]] = collections.defaultdict(set)
        """Uid of an owner, or of what an Event is about -> uids of the objects whose lines wait for it."""

    def known(self, entry: Entry, *, labelled: bool) -> list[Entry]:
        """Return the lines that may be written now that another came: it, those that waited for it, or none.

        Args:
            entry: the line.
            labelled: whether the object carries the label of a run.
        """
        if not entry.uid or entry.namespace != self._namespace:
            return [entry]
        above = {*entry.refs, *([entry.about] if entry.about else [])}
        if not labelled and entry.uid not in self._ours and self._ours.isdisjoint(above):
            self._held.setdefault(entry.uid, []).append(entry)
            for uid in above:
                self._waiting[uid].add(entry.uid)
            return []
        return [*self._own(entry.uid), entry]

    def _own(self, uid: str) -> list[Entry]:
        """Take an object as ours, and all that waits for it; return the lines that were held back."""
        found: list[Entry] = []
        reached = [uid]
        while reached:
            one = reached.pop()
            self._ours.add(one)
            found += self._held.pop(one, [])
            reached += [each for each in self._waiting.pop(one, ()) if each not in self._ours]
        return sorted(found, key=lambda entry: entry.t)

    def counts(self) -> Mapping[str, int]:
        """Return how many objects of others there were, by kind."""
        found: dict[str, int] = collections.Counter(lines[0].kind for lines in self._held.values())
        return dict(sorted(found.items()))

    def note(self) -> dict[str, Any]:
        """Return what the log says of them."""
        return {"note": "strangers", "namespace": self._namespace, "objects": self.counts()}
