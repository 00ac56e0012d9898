"""Short ways to say what a detector found."""

from typing import Any

from pytest_gpucluster.diagnose.model import Certainty, Kind, Stage, Suspect
from pytest_gpucluster.requirement import Cause

SURE, LIKELY, POSSIBLE = Certainty.SURE, Certainty.LIKELY, Certainty.POSSIBLE


def fault(
    code: str, stage: Stage, cause: Cause, seen: str, certainty: Certainty = SURE, **more: Any
) -> Suspect:
    """Return something that is wrong."""
    return Suspect(code, stage, Kind.FAULT, certainty, cause, seen, **more)


def refusal(
    code: str, stage: Stage, cause: Cause, seen: str, certainty: Certainty = SURE, **more: Any
) -> Suspect:
    """Return why the job waits as it should."""
    return Suspect(code, stage, Kind.REFUSAL, certainty, cause, seen, **more)


def note(code: str, stage: Stage, cause: Cause, seen: str, **more: Any) -> Suspect:
    """Return something that is worth knowing."""
    return Suspect(code, stage, Kind.NOTE, Certainty.POSSIBLE, cause, seen, **more)
