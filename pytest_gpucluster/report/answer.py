"""What a report comes to: counts, and whether the cluster may be trusted."""

from collections.abc import Mapping
from typing import Any


def counts(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many rows got which verdict, by level, and how many got none."""
    verdicts: dict[str, dict[str, int]] = {}
    for row in report["requirements"]:
        of = verdicts.setdefault(row["level"], {})
        of[row["verdict"]] = of.get(row["verdict"], 0) + 1
    total: dict[str, int] = {}
    for of in verdicts.values():
        for verdict, count in of.items():
            total[verdict] = total.get(verdict, 0) + count
    return {
        "decided": len(report["requirements"]),
        "verdicts": dict(sorted(total.items())),
        "by_level": {level: dict(sorted(of.items())) for level, of in sorted(verdicts.items())},
        "waived": sum(1 for row in report["requirements"] if row["waiver"] and row["verdict"] != "pass"),
        "flaky": sum(1 for row in report["requirements"] if is_flaky(row)),
        "not_run": len(report["not_run"]),
        "not_built": len(report["not_built"]),
    }


def is_flaky(row: Mapping[str, Any]) -> bool:
    """Report whether a row passed only when it was repeated."""
    return row["verdict"] == "pass" and bool(set(row["earlier"]) - {"pass"})


def answer(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the cluster may be trusted: `yes`, `no` or `undecided`, each with its reasons.

    One violated MUST is a no. Yes needs every MUST row that has a test to pass or not to apply, in a run that
    came to its end on its own; a waiver, a repeated attempt or a row that was not run leaves it undecided.
    """
    musts = [row for row in report["requirements"] if row["level"] == "must"]
    failed = [row for row in musts if row["verdict"] == "fail" and not row["waiver"]]
    reasons = [f"{row['id']} is violated: {row['title']}" for row in failed]
    doubts = [
        f"{row['id']} failed and is waived by {row['waiver']['owner'] or 'nobody named'}"
        for row in musts
        if row["verdict"] == "fail" and row["waiver"]
    ]
    doubts += [
        f"{row['id']} is not decided ({row['verdict']}): {row['title']}"
        for row in musts
        if row["verdict"] in {"environment", "inconclusive"}
    ]
    doubts += [
        f"{row['id']} needed more than one attempt ({', '.join(row['earlier'])}, then {row['verdict']})"
        for row in musts
        if is_flaky(row)
    ]
    doubts += [
        f"{row['id']} was not run: {row['why']}" for row in report["not_run"] if row["level"] == "must"
    ]
    if report["run"]["interrupted"]:
        doubts.append("the run did not come to its end")
    if not any(row["verdict"] == "pass" for row in musts):
        doubts.append("no MUST row passed")
    word = "no" if reasons else "undecided" if doubts else "yes"
    return {"word": word, "reasons": reasons + doubts}
