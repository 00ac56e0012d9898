"""Answers of the API server to what a scenario read, found by the case under which it was recorded."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line

CONTROL = "control:"
"""Prefix of the case under which the same object was tried as in another case, with the one wrong thing right."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        case: under which it was recorded.
        request: what was asked.
        code: HTTP status code.
        object: the object that came, empty without one.
        items: the objects of a list.
        message: the server's words of a refusal.
        line: the line of evidence.
    """

    case: str
    request: str
    code: int
    object: Mapping[str, Any]
    items: tuple[Mapping[str, Any], ...]
    message: str
    line: Line

    @property
    def ok(self) -> bool:
        """Report whether what was asked for came."""
        return 200 <= self.code < 300

    @property
    def denied(self) -> bool:
        """Report whether it was refused for want of permission."""
        return self.code in (401, 403)


def read(evidence: Evidence, prefix: str) -> tuple[Answer, ...]:
    """Return the answers whose case is this one or begins with it and a colon, in order."""
    return tuple(
        _answer(line)
        for line in evidence.responses()
        if (case := str(line.data.get("case") or "")) == prefix or case.startswith(f"{prefix}:")
    )


def one(evidence: Evidence, case: str) -> Answer | None:
    """Return the last answer of a case, None where it was not asked."""
    found = [answer for answer in read(evidence, case) if answer.case == case]
    return found[-1] if found else None


def _answer(line: Line) -> Answer:
    return Answer(
        case=str(line.data.get("case") or ""),
        request=str(line.data.get("request") or ""),
        code=fields.number(line.data, "code") or fields.number(line.data, "status", "code") or 0,
        object=fields.sub(line.data, "object"),
        items=tuple(fields.items(line.data, "items")),
        message=fields.text(line.data, "status", "message"),
        line=line,
    )
