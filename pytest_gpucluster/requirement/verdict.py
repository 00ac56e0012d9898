"""Levels, verdicts and findings: what a judge may say."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any


class Level(enum.StrEnum):
    """How binding a requirement is."""

    MUST = "must"
    SHOULD = "should"
    CONTROL = "control"
    """Proves that the detector can see the documented failure on this very cluster."""


class Verdict(enum.StrEnum):
    """What was decided. Only `PASS` is green."""

    PASS = "pass"  # noqa: S105 - a verdict, no secret
    FAIL = "fail"
    ENVIRONMENT = "environment"
    """Something that the requirement presupposes was observed to be false."""
    INCONCLUSIVE = "inconclusive"
    """Evidence is missing: not measured, not reached, a gap in the watch."""
    NOT_APPLICABLE = "not_applicable"
    """The profile does not declare the capability."""


@dataclasses.dataclass(frozen=True)
class Cause:
    """A likely cause and the fix that the documents or the field give."""

    text: str
    fix: str


@dataclasses.dataclass(frozen=True)
class Number:
    """A measured value with its bound and where the bound comes from.

    Attributes:
        name: what was measured.
        value: the figure; None if it was not measured.
        unit: of value, bound and peak.
        bound: what it is compared with; None if nothing was declared: measured and reported, never a pass by itself.
        origin: where the bound comes from.
        floor: the bound is the least that is allowed.
        peak: what the hardware can reach at most; None if nobody knows.
    """

    name: str
    value: float | None
    unit: str
    bound: float | None = None
    origin: str = ""
    floor: bool = False
    peak: float | None = None


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Who refused, where it was said, and what that means."""

    component: str
    reporter: str
    obj: str
    reason: str
    meaning: str
    """The gate: `admission`, `enqueue` or `placement`."""
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a judge found.

    Attributes:
        verdict: the decision.
        required: what must hold, in numbers where there are some.
        observed: what was seen.
        where: objects, nodes, ranks or devices, each a short text such as `Pod/x on gpu-0`.
        causes: likeliest first.
        evidence: keys of the deciding lines, such as `Pod/x@12.345`.
        numbers: measured values with their bounds.
        refusal: attribution of a refusal, where there is one.
        violation: the forbidden thing itself was seen; it outranks a presupposition that was not met.
        repeat: kubectl lines that show the same objects.
        currency: what was scarce: `slots`, `gpu` or `quota`.
        facts: further plain data for the report.
    """

    verdict: Verdict
    required: str
    observed: str
    where: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    evidence: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    refusal: Refusal | None = None
    violation: bool = False
    repeat: tuple[str, ...] = ()
    currency: str | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data for the record."""
        data = dataclasses.asdict(self)
        data["verdict"] = self.verdict.value
        return data


@dataclasses.dataclass(frozen=True)
class Presupposed:
    """What became of something that a requirement presupposes.

    Attributes:
        name: the prerequisite in a few words.
        held: True observed to hold; False observed to be false (environment); None not observed (inconclusive).
        observed: what was seen.
    """

    name: str
    held: bool | None
    observed: str
    causes: tuple[Cause, ...] = ()
    evidence: tuple[str, ...] = ()
