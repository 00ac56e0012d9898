"""What a mutant does to an evidence: something is gone, something is there besides, a value or a time differs."""

import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.evidence.log import payload_lines
from tests.defects import matrix

REMOVES, ADDS, CHANGES, MOVES = "removes", "adds", "changes", "moves"

Leaf = tuple[tuple[str, ...], object]


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield every value of plain data with its place; the places of a list are one."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from leaves(part, (*path, str(key)))
    elif isinstance(value, list | tuple) and value:
        for part in value:
            yield from leaves(part, (*path, "[]"))
    else:
        yield path, value


def content(line: Line) -> dict[str, Any]:
    """Return what a line says, without its time; a fact that a payload printed is read."""
    data = dict(line.data)
    found, _ = payload_lines.find(str(data.get("line") or "")) if line.type == "LOG" else ([], 0)
    if found:
        data["line"] = dict(found[0])
    return {"type": line.type, "kind": line.kind, "object": line.object, "data": data}


def _text(line: Line) -> str:
    return json.dumps(content(line), sort_keys=True, default=str)


@functools.cache
def _texts(scenario: str) -> tuple[str, ...]:
    return tuple(_text(line) for line in matrix.evidence(scenario).lines)


def _watched(evidence: Evidence) -> float:
    return sum(span.end - span.start for span in evidence.spans)


@functools.cache
def of(mutant: str, scenario: str) -> frozenset[str]:
    """Return what a mutant does to the recorded evidence of a scenario."""
    before = matrix.evidence(scenario)
    after = mutants.MUTANTS[mutant].act(before)
    same = {id(line) for line in before.lines}
    old = Counter(_texts(scenario))
    known = dict(zip((id(line) for line in before.lines), _texts(scenario), strict=True))
    new = Counter(known[id(line)] if id(line) in same else _text(line) for line in after.lines)
    gone = [json.loads(text) for text in (old - new).elements()]
    come = [json.loads(text) for text in (new - old).elements()]
    if before.header != after.header:
        gone.append(dict(before.header))
        come.append(dict(after.header))
    found = _differences(gone, come)
    if _watched(after) < _watched(before):
        found.add(REMOVES)
    return frozenset(found or {MOVES})


def _differences(gone: list[Any], come: list[Any]) -> set[str]:
    """Return what makes some content into another: places that are fewer or more, else values."""
    lost, got = (Counter(path for one in parts for path, _ in leaves(one)) for parts in (gone, come))
    found = set()
    if lost - got:
        found.add(REMOVES)
    if got - lost:
        found.add(ADDS)
    return found or ({CHANGES} if gone or come else set())
