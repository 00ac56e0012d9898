"""What a judge reads of what payloads say and of what it is told: judges are pure, so what is unread cannot matter."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.requirement import Requirement


class Noted(dict[str, Any]):
    """A mapping that notes which of its keys are asked for."""

    def __init__(self, inner: dict[str, Any], name: str, into: set[tuple[str, str]]) -> None:
        """Note into a set of (name, key)."""
        super().__init__(inner)
        self._name, self._into = name, into

    def __getitem__(self, key: str) -> Any:
        """Return a value, and note its key."""
        self._into.add((self._name, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, and note its key."""
        self._into.add((self._name, key))
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        """Say whether a key is there, and note it."""
        self._into.add((self._name, str(key)))
        return super().__contains__(key)


GIVEN = "given"


@contextlib.contextmanager
def _noting(into: set[tuple[str, str]]) -> Iterator[None]:
    find = payload_lines.find

    def noted(text: str) -> tuple[list[dict[str, Any]], int]:
        found, torn = find(text)
        return [Noted(fact, f"fact {fact.get('event')}", into) for fact in found], torn

    with mock.patch.object(payload_lines, "find", noted):
        yield


def read(row: Requirement, evidence: Evidence) -> tuple[set[str], set[str]]:
    """Return the events of which a row reads more than their name, and the keys of `given` that it asks for."""
    asked: set[tuple[str, str]] = set()
    fresh = Evidence(evidence.lines, header=evidence.header, spans=evidence.spans)
    with _noting(asked):
        row.decide(fresh, Noted(dict(evidence.given), GIVEN, asked))
    events = {
        name.removeprefix("fact ") for name, key in asked if name != GIVEN and key not in ("event", "attempt")
    }
    return events, {key for name, key in asked if name == GIVEN and key in evidence.given}
