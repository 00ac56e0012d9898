"""What variations are made of: changes of a copy of some objects, further lines, other names everywhere."""

import dataclasses
import json
import marshal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.mutants import with_lines

Variation = Callable[[Evidence], Evidence]
Change = Callable[[dict[str, Any]], None]


def copied(value: Any) -> Any:
    """Return a deep copy of plain data; quicker than `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - of what was dumped beside it


def objects(change: Change, *kinds: str) -> Variation:
    """Return the variation that changes every object of some kinds, of all without any."""

    def vary(evidence: Evidence) -> Evidence:
        return with_lines(
            evidence,
            [
                line if not line.kind or (kinds and line.kind not in kinds) else _changed(line, change)
                for line in evidence.lines
            ],
        )

    return vary


def _changed(line: Line, change: Change) -> Line:
    obj = copied(line.object)
    change(obj)
    return dataclasses.replace(line, object=obj)


def more(evidence: Evidence, lines: Iterable[Line]) -> Evidence:
    """Return an evidence with further lines."""
    return with_lines(evidence, [*evidence.lines, *lines])


def watch_line(t: float, kind: str, obj: Mapping[str, Any], how: str = "ADDED") -> Line:
    """Return a line of a watch."""
    return Line(t, how, kind, obj, {}, -1)


def first(evidence: Evidence) -> float:
    """Return the time of the first line, in seconds."""
    return evidence.lines[0].t if evidence.lines else 0.0


def renamed(evidence: Evidence, wanted: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> Evidence:
    """Return an evidence in which what a pattern finds reads otherwise wherever it is said: objects, logs, header."""

    def text(value: Any) -> Any:
        before = json.dumps(value)
        after = wanted.sub(new, before)
        return value if after == before else json.loads(after)

    lines = [
        dataclasses.replace(line, object=text(line.object), data=text(line.data)) for line in evidence.lines
    ]
    return Evidence(lines, header=text(evidence.header), spans=evidence.spans)
