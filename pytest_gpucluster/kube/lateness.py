"""Lateness: what objects say of their own times, against when they were told.

Servers stamp whole seconds on a clock of their own. What we create tells how far that clock is from ours; then each
stamp gives the latest moment at which it can have been written. Told later than that, it was held back.
"""

import collections
import datetime as dt
import threading
from collections.abc import Mapping
from typing import Any

REMEMBERED = 64
"""Answers by which the server's clock is known; older ones are forgotten, since clocks drift."""
BUSY = 2.0
"""Seconds that an event may be on its way from a busy API server, beside the second that a stamp leaves open."""
AHEAD = 2.0
"""Seconds by which a stamp may be later than its receipt before the clocks are taken to have moved."""


class Skew:
    """How far the server's clock is from ours (server minus client, in seconds), as bounds that must hold.

    Several API servers, or a clock that was set, contradict each other: then the widest bounds hold, so that nothing is
    called late that need not be.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lock = threading.Lock()
        self._bounds: collections.deque[tuple[float, float]] = collections.deque(maxlen=REMEMBERED)

    def learn(self, stamp: str, sent: float, received: float) -> None:
        """Learn from the stamp of what was written between two moments of ours."""
        second = seconds_of(stamp)
        if second is not None:
            with self._lock:
                # The true time lies in [second, second + 1), and between sending and receiving.
                self._bounds.append((second - received, second + 1 - sent))

    def bounds(self) -> tuple[float, float] | None:
        """Return the least and the greatest that it can be, None before anything is known."""
        with self._lock:
            if not self._bounds:
                return None
            low, high = max(b[0] for b in self._bounds), min(b[1] for b in self._bounds)
            if low > high:
                low, high = min(b[0] for b in self._bounds), max(b[1] for b in self._bounds)
            return low, high

    def contradicts(self, stamp: str, received: float) -> float | None:
        """Return when at the latest something was written, if that is before its receipt; None where all is well.

        A stamp that lies in the future of its receipt says that a clock moved: then nothing can be said of how late it
        is, and 0 seconds before all time are as good as any (minus infinity).
        """
        second, bounds = seconds_of(stamp), self.bounds()
        if second is None or bounds is None:
            return None
        low, high = bounds
        if second - high > received + AHEAD:
            return float("-inf")
        latest = second + 1 - low
        return latest if latest < received else None


def seconds_of(stamp: object) -> float | None:
    """Return a time stamp in seconds since the epoch, None for what is none."""
    try:
        return dt.datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None


def stamp_of(obj: Mapping[str, Any]) -> tuple[str, int]:
    """Return the newest time that the API server itself stamped on an object, "" for none, and how many it stamped.

    What happens in the second of the last stamp adds one and leaves the newest as it is.

    It is the server that writes when an object was made, when its deletion was asked for, when it took a write of a
    field's owner, and when it bound a pod. Other times are their writers', who may write them late.
    """
    metadata = obj.get("metadata") or {}
    written = [
        str(one.get("time") or "") for one in metadata.get("managedFields") or [] if isinstance(one, dict)
    ]
    found = [str(metadata.get("creationTimestamp") or "")]
    if metadata.get("deletionTimestamp"):
        asked = seconds_of(metadata["deletionTimestamp"])
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        if asked is not None and isinstance(grace, int | float):
            found.append(dt.datetime.fromtimestamp(asked - grace, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    if obj.get("kind") == "Pod":
        found += [
            str(one.get("lastTransitionTime") or "")
            for one in (obj.get("status") or {}).get("conditions") or []
            if isinstance(one, dict) and one.get("type") == "PodScheduled" and one.get("status") == "True"
        ]
    return max(*found, *written, ""), sum(bool(stamp) for stamp in found)
