"""Evidence of any origin without what is secret in it: what is judged is what may be told."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.log.model import WATCH_TYPES, Evidence, Line
from pytest_gpucluster.plain import redact
from pytest_gpucluster.plain.secret_logs import Lines


def cleaned(evidence: Evidence) -> Evidence:
    """Return evidence without secrets.

    It is cleaned before it is judged: a finding then cannot quote what may not be told, and nothing is taken out of the
    sentences of the finding itself.
    """
    redactor = redact.Redactor()
    logs: dict[tuple[str, ...], Lines] = {}
    seen: dict[int, tuple[Any, Any]] = {}
    lines = []
    for line in evidence.lines:
        if line.type in WATCH_TYPES:
            known = seen.get(id(line.object))
            if known is None:
                seen[id(line.object)] = known = (line.object, redactor.clean(line.object))
            lines.append(line if known[1] is line.object else dataclasses.replace(line, object=known[1]))
        else:
            data = _said(line, redactor, logs)
            lines.append(line if data is line.data else dataclasses.replace(line, data=data))
    header = redactor.clean(evidence.header)
    return Evidence(lines, header=header, spans=evidence.spans)


def _said(line: Line, redactor: redact.Redactor, logs: dict[tuple[str, ...], Lines]) -> Mapping[str, Any]:
    """Return the fields of a line that is no object; a secret may go on from one line of a log to the next."""
    text = line.data.get("line")
    if line.type != "LOG" or not isinstance(text, str):
        return redactor.clean(line.data)  # type: ignore[no-any-return]
    source = tuple(str(line.data.get(key) or "") for key in ("uid", "pod", "container", "previous"))
    made = logs.setdefault(source, Lines()).clean(text)
    return line.data if made == text else {**line.data, "line": made}
