"""Putting things back: registered when made, undone last in first out, each with a deadline, left-overs named."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from pytest_gpucluster.kube import errors
from pytest_gpucluster.kube.errors import LeftOver
from pytest_gpucluster.scenario import log as logs


@dataclasses.dataclass(frozen=True)
class Undo:
    """How one thing is undone.

    Attributes:
        item: what it is, for the report when it stays.
        act: sends the requests.
        remains: what is still there of it, from the live state; None when the answer to `act` says enough.
        settle_first: whether all that was undone before must be gone first (slots: the pods that hold them).
        batch: what can be undone together has the same word here, "" for what cannot.
        act_on_all: undoes several of one batch, by their names, with one request; False where that cannot be.
    """

    item: LeftOver
    act: Callable[[], None]
    remains: Callable[[], list[LeftOver]] | None = None
    settle_first: bool = False
    batch: str = ""
    act_on_all: Callable[[Sequence[str]], bool] | None = None


class CleanupStack:
    """What has to be undone; undone once, whatever happens on the way."""

    def __init__(self, log: logs.SessionLog) -> None:
        """Start empty; waiting is on the log's lines."""
        self._log = log
        self._stack: list[Undo] = []

    def push(self, undo: Undo) -> None:
        """Register how something that is about to be made is undone."""
        self._stack.append(undo)

    def discard(self, undo: Undo) -> None:
        """Forget what was not made after all."""
        if undo in self._stack:
            self._stack.remove(undo)

    def __len__(self) -> int:
        """Return how much is registered."""
        return len(self._stack)

    def run(self, seconds: float) -> list[LeftOver]:
        """Undo everything, last in first out, within `seconds` for the waiting; return what stays.

        A request that fails is a left-over, never an exception: the rest is still undone.
        """
        deadline = self._log.now() + seconds
        left: list[LeftOver] = []
        open_: list[Callable[[], list[LeftOver]]] = []
        while self._stack:
            undo = self._stack.pop()
            if undo.settle_first:
                left += self._settle(open_, deadline)
                open_ = []
            for one, stays in _undone([undo, *self._others_of(undo)]):
                if stays is not None:
                    left.append(stays)
                elif one.remains is not None:
                    open_.append(one.remains)
        return left + self._settle(open_, deadline)

    def _others_of(self, undo: Undo) -> list[Undo]:
        """Take what can be undone together with another off the stack, down to where all must be gone first."""
        if not undo.batch:
            return []
        found: list[Undo] = []
        for one in reversed(self._stack):
            if one.settle_first:
                break
            if one.batch == undo.batch:
                found.append(one)
        for one in found:
            self._stack.remove(one)
        return found

    def _settle(self, remains: list[Callable[[], list[LeftOver]]], deadline: float) -> list[LeftOver]:
        """Wait until nothing remains, and return what does at the deadline."""
        present: list[LeftOver] = []

        def gone() -> bool:
            present[:] = [item for check in remains for item in check()]
            return not present or self._log.outage() is not None

        if remains:
            self._log.until(gone, max(0.0, deadline - self._log.now()))
        return present


def _undone(together: Sequence[Undo]) -> Iterator[tuple[Undo, LeftOver | None]]:
    """Undo some of one batch, with one request where that can be; yield each with what stays of it."""
    first = together[0]
    if len(together) > 1 and first.act_on_all is not None:
        # Refused together, each says for itself what is wrong with it.
        with contextlib.suppress(errors.GpuClusterError):
            if first.act_on_all([one.item.name for one in together]):
                yield from ((one, None) for one in together)
                return
    for one in together:
        try:
            one.act()
        except errors.GpuClusterError as error:
            yield one, dataclasses.replace(one.item, why=str(error))
        else:
            yield one, None
