"""How many requests were made, by verb and kind: every one costs somebody's API server."""

import threading
from collections import Counter
from collections.abc import Mapping


class RequestCounter:
    """Counts requests and repeats; shared by all threads of a connection."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._by: Counter[tuple[str, str]] = Counter()
        self._retries: Counter[str] = Counter()

    def add(self, verb: str, kind: str) -> None:
        """Count one request that is about to be sent."""
        with self._lock:
            self._by[verb, kind] += 1

    def retried(self, why: str) -> None:
        """Count one repeat and why it was needed, such as `429` or `reset`."""
        with self._lock:
            self._retries[why] += 1

    @property
    def total(self) -> int:
        """Return the number of requests sent, repeats included."""
        with self._lock:
            return sum(self._by.values())

    @property
    def by(self) -> Mapping[tuple[str, str], int]:
        """Return the counts by (verb, kind)."""
        with self._lock:
            return dict(self._by)

    def summary(self) -> dict[str, object]:
        """Return plain data for the record: total, `verb kind` counts, repeats by cause."""
        with self._lock:
            return {
                "total": sum(self._by.values()),
                "requests": {f"{verb} {kind}": n for (verb, kind), n in sorted(self._by.items())},
                "retries": dict(sorted(self._retries.items())),
            }
