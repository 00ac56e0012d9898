"""What a diagnosis consists of: suspects in the order of likelihood, and what was looked at."""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.requirement import Cause

if TYPE_CHECKING:
    from pytest_gpucluster.diagnose.situation import Situation


class Stage(enum.IntEnum):
    """Where on its way a job is held up, in the order of that way: the earliest is the cause of the later."""

    API = 0
    CONTROLLER = 1
    SCHEDULER = 2
    QUEUE = 3
    ENQUEUE = 4
    CREATE = 5
    PLACE = 6
    NODE = 7
    ADMIT = 8
    START = 9
    WIRE = 10
    CONNECT = 11
    RUN = 12
    END = 13
    FABRIC = 14


class Kind(enum.StrEnum):
    """What sort of thing was found."""

    FAULT = "fault"
    """Something is wrong, and has a fix."""
    REFUSAL = "refusal"
    """The job waits, or was ended, as it should: correct behaviour, with what would change it."""
    NOTE = "note"
    """Worth knowing; nothing is held up by it now."""


class Certainty(enum.IntEnum):
    """How well the evidence carries a suspicion."""

    POSSIBLE = 1
    """Nothing speaks against it."""
    LIKELY = 2
    """Something that it would cause was seen."""
    SURE = 3
    """The deciding thing itself was seen."""


@dataclasses.dataclass(frozen=True)
class Suspect:
    """One thing that holds a job up, or may.

    Attributes:
        code: stable short name, such as `over-capability`.
        cause: the cause and its fix.
        seen: what was seen, with numbers and names.
        where: objects and nodes.
        evidence: keys of the deciding lines.
        rows: requirements of the catalogue that speak of this.
        look: kubectl lines that show it.
        symptom: something else brings it about; where that was found too, it comes first.
        forever: waiting does not help: what is asked for is more than there will ever be.
    """

    code: str
    stage: Stage
    kind: Kind
    certainty: Certainty
    cause: Cause
    seen: str
    where: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    look: tuple[str, ...] = ()
    symptom: bool = False
    forever: bool = False

    @property
    def order(self) -> tuple[bool, bool, int, int]:
        """Return the key by which suspects are sorted, likeliest first."""
        return self.certainty is Certainty.POSSIBLE, self.symptom, -int(self.certainty), int(self.stage)

    def as_dict(self) -> dict[str, Any]:
        """Return the suspect as plain data."""
        return {
            **dataclasses.asdict(self),
            "stage": self.stage.name.lower(),
            "kind": self.kind.value,
            "certainty": self.certainty.name.lower(),
        }


Detector = Callable[["Situation"], Iterator[Suspect]]


class State(enum.StrEnum):
    """How a job is, in one word."""

    HEALTHY = "healthy"
    STARTING = "starting"
    """Too young to be called stuck."""
    REFUSED = "refused"
    """It waits, or was ended, as it should."""
    TROUBLE = "trouble"
    GONE = "gone"
    """It was deleted."""
    UNCLEAR = "unclear"
    """It is not well and nothing that was looked at says why."""


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What holds one job up.

    Attributes:
        subject: the job as it is called, such as `vcjob/smoke -n ml`.
        phase: the Job's phase, "" where there is none.
        summary: how it is, in one line: phase, members, since when.
        suspects: likeliest first; notes are apart.
        notes: what is worth knowing beside.
        rows: requirement -> verdict and what the judge saw, of every judge whose evidence was there.
        looked: what was looked at.
        missing: what could not be looked at, and why.
        complete: whether all was looked at by which one sees that nothing is broken.
    """

    subject: str
    state: State
    phase: str
    summary: str
    suspects: tuple[Suspect, ...]
    notes: tuple[Suspect, ...]
    rows: Mapping[str, Mapping[str, str]]
    looked: tuple[str, ...]
    missing: tuple[str, ...]
    complete: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data."""
        return {
            "subject": self.subject,
            "state": self.state.value,
            "phase": self.phase,
            "summary": self.summary,
            "causes": [one.as_dict() for one in self.suspects],
            "notes": [one.as_dict() for one in self.notes],
            "rows": {row: dict(found) for row, found in self.rows.items()},
            "looked_at": list(self.looked),
            "not_looked_at": list(self.missing),
        }
