"""The decision of a run over itself, by the policy with which it was started, as plain data for its record."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gpucluster.acceptance import decision, policy, runs, text
from pytest_gpucluster.plain import times
from pytest_gpucluster.profile import Profile
from pytest_gpucluster.report import record
from pytest_gpucluster.requirement import Registry


def decided(
    folder: Path,
    report: Mapping[str, Any],
    at: datetime,
    *,
    registry: Registry,
    reading: runs.Reading | None = None,
) -> dict[str, Any]:
    """Return the decision of a run over itself.

    Args:
        folder: the run's folder.
        report: its record; its `decision` names the policy.
        at: the time of the decision: the end of the run.
        registry: the rows that have a test.
        reading: has read evidence of the run; None to read it here.

    Raises:
        PolicyError: the policy in the record is of another shape.
        ValueError: the profile in the record is.
    """
    wanted = policy.Policy.of_dict(report["decision"]["policy"])
    profile = Profile.model_validate(report["profile"]["values"])
    own = runs.of_itself(folder, report, reading or runs.Reading())
    return plain(decision.decide([own], wanted, profile, at, registry=registry))


def differs(folder: Path, report: Mapping[str, Any], registry: Registry, reading: runs.Reading) -> list[str]:
    """Return what of a recorded decision is not reached again, a line each; its wording is not compared.

    Args:
        folder: the run's folder.
        report: its record.
        registry: the rows that have a test.
        reading: has read evidence of the run.
    """
    told = report["decision"]
    if not told or not told["at"]:
        return []
    try:
        again = decided(folder, report, times.parse_time(told["at"]), registry=registry, reading=reading)
    except (policy.PolicyError, ValueError) as error:
        return [f"{record.REPORT}: its gate cannot be decided again: {' '.join(str(error).split())}"]
    states = [{each["row"]: each["state"] for each in one["rows"]} for one in (told, again)]
    found = [
        f"{row}: the gate of the record took it as {states[0].get(row, 'not asked')}, but it is "
        f"{states[1].get(row, 'not asked')}"
        for row in {**states[0], **states[1]}
        if states[0].get(row) != states[1].get(row)
    ]
    if (told["open"], told["purposes"]) != (again["open"], again["purposes"]):
        found.append(f"{record.REPORT}: says that its gate is {told['text']}, but it is {again['text']}")
    return found


def plain(made: decision.Decision) -> dict[str, Any]:
    """Return a decision as the record of a run has it: in words, each reason once, rows without their nodes."""
    rows = [
        {
            "row": shown.row,
            "state": "pending" if shown.row in made.pending else shown.state,
            "why": made.excused.get(shown.row) or made.pending.get(shown.row) or shown.why,
            "excused": shown.row in made.excused,
        }
        for shown in made.rows.values()
    ]
    return {
        "open": made.open,
        "text": text.answer(made),
        "policy": made.policy.as_dict(),
        "at": times.format_time(made.at, micro=True),
        "until": times.format_time(made.until) if made.until else None,
        "purposes": dict(made.purposes),
        "closers": [dataclasses.asdict(each) for each in text.grouped(made.closers)],
        "notes": list(text.notes(made)),
        "rows": rows,
    }
