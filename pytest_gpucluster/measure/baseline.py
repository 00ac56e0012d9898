"""Figures in the report of an earlier run: what a later one is compared with, and floors are proposed from."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

PARTS: Mapping[str, str] = {"MFU-001": "products", "MFU-002": "training", "FAB-006": "bandwidth"}
"""Row -> the part of the facts that it holds."""
SHOWN_BY: Mapping[str, tuple[str, ...]] = {
    "products": ("MFU-003",),
    "training": ("MFU-003",),
    "bandwidth": ("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-014", "FAB-018"),
}
"""Part -> rows that show what its figures were measured on: sockets say nothing of the InfiniBand that was declared."""
ACCEPTED = ("pass", "not_applicable")
"""Verdicts of rows whose figures may be taken: reached their floor, or had none."""


class BaselineError(Exception):
    """A report that has no figures to take; the text is one line."""


def figures_of(report: Any, name: str) -> dict[str, Any]:
    """Return the facts of measuring rows in a report, by part, with where they come from and what was left out and why.

    Args:
        report: the report as it was read.
        name: what to call it.

    Raises:
        BaselineError: it is no report of a run, or no row has figures that were accepted.
    """
    rows = report.get("requirements") if isinstance(report, Mapping) else None
    if not isinstance(rows, list) or not isinstance(report.get("run"), Mapping):
        raise BaselineError(f"{name}: is not a report of a run")
    verdicts = {str(row.get("id")): str(row.get("verdict")) for row in rows if isinstance(row, Mapping)}
    found: dict[str, Any] = {}
    refused = []
    for row in rows:
        part = PARTS.get(str(row.get("id"))) if isinstance(row, Mapping) else None
        if part is None:
            continue
        finding = row.get("finding")
        facts = finding.get("facts") if isinstance(finding, Mapping) else None
        if not isinstance(facts, Mapping) or part not in facts:
            continue
        against = [
            each for each in (str(row["id"]), *SHOWN_BY[part]) if verdicts.get(each, "pass") not in ACCEPTED
        ]
        if against:
            refused.append(f"{part}: {' and '.join(f'{each} is {verdicts[each]}' for each in against)}")
            continue
        found[part] = dict(facts)
    if not found:
        why = f": {', '.join(refused)}" if refused else ""
        raise BaselineError(f"{name}: has no accepted figures of MFU-001, MFU-002 or FAB-006{why}")
    run = report["run"]
    day = str(run.get("started") or "an unknown day").partition("T")[0]
    origin = f"{name}, run {run.get('id') or '?'} of {day}"
    return {**found, "origin": origin, **({"left_out": refused} if refused else {})}


def read(path: pathlib.Path) -> dict[str, Any]:
    """Return the figures of a report file.

    Raises:
        BaselineError: it cannot be read, or has no figures.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise BaselineError(f"{path}: is not valid JSON") from None
    return figures_of(report, path.name)
