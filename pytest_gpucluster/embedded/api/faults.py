"""Faults on request, for the tests of those who talk to the API."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_gpucluster.embedded.errors import ApiError


@dataclass
class Faults:
    """What goes wrong.

    Attributes:
        status_500_every: Every n-th request to the API is answered with 500; 0 for none.
        hang_paths: Requests whose path contains one of these are never answered.
        watch_drop_seconds: Watches are cut after this time without an end; None for never.
    """

    status_500_every: int = 0
    hang_paths: tuple[str, ...] = ()
    watch_drop_seconds: float | None = None
    _count: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1), repr=False)

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> "Faults":
        """Return the faults that a configuration asks for.

        Raises:
            ValueError: for a fault that does not exist.
        """
        asked = dict(config or {})
        drop = asked.pop("watch_drop_seconds", None)
        every = int(asked.pop("status_500_every", 0) or 0)
        hang = tuple(asked.pop("hang_paths", None) or ())
        if asked:
            raise ValueError(f"unknown faults: {', '.join(sorted(asked))}")
        return cls(every, hang, None if drop is None else float(drop))

    def hangs(self, path: str) -> bool:
        """Report whether a request is never answered."""
        return any(part in path for part in self.hang_paths)

    def strike(self) -> None:
        """Count a request.

        Raises:
            ApiError: 500 on every n-th.
        """
        if self.status_500_every and next(self._count) % self.status_500_every == 0:
            raise ApiError(500, "InternalError", "Internal error occurred: fault injected on request")
