"""Comparing: a second watch shows that the first one has told all up to a list, where nothing of ours may be written.

The list says which version is the present one. What the second watch tells, from the last version that the first had
told when the list was asked for up to the list's, the first must have told too: each change, not only the last one.
"""

import concurrent.futures
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pytest_gpucluster.kube import changes, errors, objects, watch
from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.scenario import log as logs

_Answer = TypeVar("_Answer")

SECONDS = 10.0
"""Seconds in which a list, a second watch, and the first one must have come to their end."""
SECOND_WATCH = 3
"""Seconds that a second watch is asked for: API servers send a bookmark two seconds before its end."""
AGAIN = 0.2
"""Seconds until what broke is asked again."""
SOON = 0.25
"""Seconds from a list to the end of a round for which it stands; where it took longer, another is taken."""
ROUNDS = 4
"""Second watches that are read, one after the other, until one tells that it has reached the list."""


@dataclasses.dataclass
class Wait:
    """A proof that is on its way.

    Attributes:
        heard: when the watch was last heard before.
        answered: when it was known what must come back.
        came: whether what was written has come back; None where nothing could be written.
        why: why there is none.
        back: when it came back; of one that is compared, when all that the list counts had been told.
        since: of one that is compared, the version that was told when the list was asked for.
        present: what the list says is the present version.
        listed: when the list was asked for: what happened later it does not show.
    """

    kind: str
    watch: watch.KindWatch
    heard: float
    answered: float = 0.0
    came: Callable[[], bool] | None = None
    why: str = ""
    back: float | None = None
    since: str | None = None
    present: str = ""
    listed: float | None = None


def list_all(api: objects.Objects, waits: Sequence[Wait]) -> None:
    """Ask for the present version of some kinds, and note up to which version each watch has told by then."""
    _at_once(lambda one: _list(api, one), waits)


def list_again(api: objects.Objects, waits: Sequence[Wait]) -> None:
    """Ask again for what was asked too long ago to stand for the present."""
    old = api.connection.clock.monotonic() - SOON
    list_all(api, [one for one in waits if one.listed is not None and one.listed < old and not one.why])


def compare_all(api: objects.Objects, log: logs.SessionLog, waits: Sequence[Wait]) -> None:
    """Read a second watch of each kind that was listed, from where the first was up to the list."""
    _at_once(lambda one: _compare(api, log, one), [one for one in waits if not one.why])


def _at_once(ask: Callable[[Wait], None], waits: Sequence[Wait]) -> None:
    if waits:
        with concurrent.futures.ThreadPoolExecutor(len(waits)) as pool:
            list(pool.map(ask, waits))


def _list(api: objects.Objects, one: Wait) -> None:
    one.since, one.listed = one.watch.version, api.connection.clock.monotonic()
    target = one.watch.target
    one.present = _tried(api, one, lambda _: api.present_version(target.info, target.namespace)) or ""


def _compare(api: objects.Objects, log: logs.SessionLog, one: Wait) -> None:
    since, target = one.since, one.watch.target
    missed = None
    if since is not None:
        missed = _tried(api, one, lambda end: _missed(api, target, since, one.present, end))
    if missed is None:
        one.why = one.why or "a second watch did not reach the version that a list reports"
        return
    one.answered = api.connection.clock.monotonic()
    receipts = one.watch.receipts

    def told() -> bool:
        return one.watch.coverage.up and all(receipts.when(version) is not None for version in missed)

    if not log.until(told, SECONDS):
        one.why = f"the events of a second watch did not arrive within {SECONDS:g} s"
        return
    # Where the second tells nothing, nothing was on its way when the list was taken.
    one.back = max((receipts.when(version) or one.answered for version in missed), default=one.listed)


def _tried(api: objects.Objects, one: Wait, ask: Callable[[float], _Answer | None]) -> _Answer | None:
    """Return an answer, asked for again while connections break and there is time; None with the reason noted."""
    clock = api.connection.clock
    end = clock.monotonic() + SECONDS
    while True:
        try:
            return ask(end)
        except errors.GpuClusterError as error:
            # A connection that breaks is no news of the watch.
            if clock.monotonic() + AGAIN >= end or not isinstance(error, errors.Unreachable):
                one.why = f"a second watch could not be read: {error}"
                return None
        clock.pause(threading.Event(), AGAIN)


def _missed(
    api: objects.Objects, target: watch.Target, since: str, present: str, end: float
) -> list[str] | None:
    """Return the versions of all changes of a kind after `since` up to `present`; None where nobody tells so far.

    Raises:
        ApiError, Unreachable: see `Connection.call`; `ApiError` 410 too where the version is too old.
    """
    found: list[str] = []
    at = since
    for _ in range(ROUNDS):
        if changes.reaches(at, present):
            return found
        for change, version in _told(api, target, at):
            at = version
            # What is beyond happened after the list, which stands for nothing later than itself.
            if change != "BOOKMARK" and (version == present or not changes.reaches(version, present)):
                found.append(version)
            if changes.reaches(version, present):
                return found
        if api.connection.clock.monotonic() >= end:
            break
    return None


def _told(api: objects.Objects, target: watch.Target, since: str) -> Iterator[tuple[str, str]]:
    """Yield change and version of each event of one short watch from a version on; errors as in `_missed`."""
    info = target.info
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": since,
        "timeoutSeconds": str(SECOND_WATCH),
    }
    about = f"watch {info.plural} a second time"
    ask = connections.Ask("watch", info.key, "GET", info.path(target.namespace), about, query=query)
    opened = api.connection.stream(ask, read=SECOND_WATCH + watch.SLACK)
    try:
        for line in opened.lines():
            change, obj = changes.event(line, info.plural)
            if change == "ERROR":
                code, reason = int(obj.get("code") or 500), str(obj.get("reason") or "")
                raise errors.ApiError(code, reason, str(obj.get("message") or ""), request=about)
            yield change, changes.version(obj)
    finally:
        opened.close()
