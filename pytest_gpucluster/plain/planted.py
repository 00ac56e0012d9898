"""The planted defects in force in one process: the one object that every seam asks, so that they can be switched."""

from collections.abc import Collection, Iterator

IMAGE_WITHOUT_CLIENT = "node.image-without-etcd-client"
"""A departure of nodes that shows only where etcd is declared: with it in force, it is."""


class Planted(Collection[str]):
    """A set of names of defects that is replaced as a whole while the process runs."""

    def __init__(self, names: Collection[str] = (), *, at_start: Collection[str] = ()) -> None:
        """Plant the defects with which the process starts.

        Args:
            names: Names that were checked.
            at_start: Defects that decide what is started: they stay as they are.
        """
        self._names = frozenset(names)
        self._at_start = frozenset(at_start)

    def __contains__(self, name: object) -> bool:
        """Report whether a defect is in force."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Return the names in their order."""
        return iter(sorted(self._names))

    def __len__(self) -> int:
        """Return how many are in force."""
        return len(self._names)

    def check(self, names: Collection[str]) -> None:
        """Refuse a change that only a new start can make.

        Raises:
            ValueError: one line that names the defect.
        """
        for name in sorted(self._at_start):
            if (name in names) != (name in self._names):
                raise ValueError(
                    f"defect {name!r} changes the start of the cluster: it needs its own cluster"
                )

    def switch(self, names: Collection[str]) -> None:
        """Put exactly these defects in force.

        Raises:
            ValueError: as in `check`; nothing was changed.
        """
        self.check(names)
        self._names = frozenset(names)
