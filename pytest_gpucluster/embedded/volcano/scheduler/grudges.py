"""What the defects `gang.starves-loser` and `gang.forgets-room` remember between sessions."""

from collections.abc import Callable, Iterable

from pytest_gpucluster.embedded.volcano.scheduler.model import OCCUPYING, Gang, State, Task

COMMON = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that every pod uses; two gangs do not contend for these alone."""


class Grudges:
    """Gangs that are never allocated again. Empty unless one of the defects is on."""

    def __init__(self, has: Callable[[str], bool]) -> None:
        """Ask which defects are on."""
        self._has = has
        self.uids: set[str] = set()

    def note(self, gangs: Iterable[Gang], others: Iterable[Task]) -> None:
        """Remember gangs that this session refused, as the defects want it.

        Args:
            gangs: All gangs at the end of the session.
            others: Pods that belong to no PodGroup.
        """
        starves, forgets = self._has("gang.starves-loser"), self._has("gang.forgets-room")
        if not (starves or forgets):
            self.uids.clear()
            return
        listed = list(gangs)
        self.uids &= {gang.uid for gang in listed}
        for gang in listed:
            if not gang.was_refused or gang.minimum <= 1:
                continue
            rivals = [g for g in listed if g is not gang and g.minimum > 1 and _contend(gang, g)]
            placed = [g for g in rivals if g.count(State.BINDING, State.BOUND, State.RUNNING)]
            loners = [t for g in listed if g.minimum <= 1 for t in g.tasks]
            held = any(_holds(task, gang) for task in [*others, *loners])
            if (starves and placed) or (forgets and held and not rivals):
                self.uids.add(gang.uid)


def _wants(gang: Gang) -> set[str]:
    return set(gang.minimum_resources or {}) - COMMON


def _contend(one: Gang, other: Gang) -> bool:
    return one.namespace == other.namespace and bool(_wants(one) & _wants(other))


def _holds(task: Task, gang: Gang) -> bool:
    return bool(task.node) and task.state in OCCUPYING and bool(set(task.request) & _wants(gang))
