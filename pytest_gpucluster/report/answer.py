"""What a report comes to: counts, and whether the cluster may be trusted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.report import site
from pytest_gpucluster.requirement import is_site

UNASKED = ("deselected", "not selected")
"""How the reason of a row begins that nobody asked for: it narrows what a yes is for, and leaves nothing open."""

CUT_OFF = ("budget:", "deadline:")
"""How the reason of a row begins that was selected and left out: for want of GPU-seconds, nodes or time."""


def counts(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many rows got which verdict, by level, how many got none, and how the site's own tests ended."""
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
        "site_tests": site.counts(report["site_tests"]),
    }


def is_flaky(row: Mapping[str, Any]) -> bool:
    """Report whether a row passed only when it was repeated."""
    return row["verdict"] == "pass" and bool(set(row["earlier"]) - {"pass"})


def answer(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the cluster may be trusted: `yes`, `no` or `undecided`, each with its reasons.

    One violated MUST is a no, and so is one failed MUST test of the site's own. Yes needs every MUST row that was asked
    for to pass or not to apply, one at least that a document stands behind to pass, no area that was asked for by name
    to be wholly not applicable, a run that came to its end on its own and cleaned up, and a record that is whole; a
    waiver, a repeated attempt, a row that was not run or a site's test that asserts nothing leaves it undecided. What a
    yes is for is told by `scope`.

    Of a run that was started with a policy, the policy says what is asked for, and its decision is the answer; a test
    of the site's own that failed is a no all the same.
    """
    if report.get("decision"):
        return _by_policy(report)
    musts = [row for row in report["requirements"] if row["level"] == "must"]
    failed = [row for row in musts if row["verdict"] == "fail" and not row["waiver"]]
    reasons = [f"{row['id']} is violated: {row['title']}" for row in failed]
    reasons += site.failures(report["site_tests"])
    doubts = [*_doubts(musts), *site.doubts(report["site_tests"]), *_not_run(report["not_run"])]
    if report["run"]["interrupted"]:
        doubts.append("the run did not finish")
    doubts += _nothing_applies(report)
    passed = {row["id"] for row in musts if row["verdict"] == "pass"}
    if not any(not is_site(row_id) for row_id in passed):
        beside = site.says_nothing(report)
        of = " of the catalogue" if passed else ""
        # What a site asks of its cluster may be all that was run: that is said before all that was not.
        doubts = [f"no MUST row{of} passed: {beside}", *doubts] if beside else [*doubts, "no MUST row passed"]
    doubts += distrust(report)
    status = report["run"].get("exit_status")
    if status and not reasons and not doubts:
        doubts.append(f"the run ended with exit status {status}")
    word = "no" if reasons else "undecided" if doubts else "yes"
    return {"word": word, "reasons": reasons + doubts}


def _by_policy(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a run that decided by a policy."""
    decision = report["decision"]
    failures = site.failures(report["site_tests"])
    reasons = [f"{each['what']}: {each['why']}" for each in decision["closers"]]
    # The decision comes before the last line of the record: what is found wrong later counts, too.
    reasons += [] if reasons else distrust(report)
    if "no" in decision["purposes"].values() or failures:
        return {"word": "no", "reasons": failures + reasons}
    return {"word": "yes" if decision["open"] and not reasons else "undecided", "reasons": reasons}


def distrust(report: Mapping[str, Any]) -> list[str]:
    """Return why a record is not to be trusted, or its run not to be green, whatever its rows say."""
    found = [f"the record is damaged: {problem}" for problem in report["problems"]]
    cleanup = report["cleanup"]
    left = cleanup["left_overs"]
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        found.append(f"the run left something on the cluster: {left[0]}{more}")
    touched = report["scenarios"] or any(row["verdict"] == "pass" for row in report["requirements"])
    if touched and not cleanup["done"]:
        found.append("no clean-up is recorded: what the run made may still be on the cluster")
    defects = planted(report)
    if defects:
        found.append(f"defects were planted: {', '.join(defects)}")
    return found


def planted(report: Mapping[str, Any]) -> list[str]:
    """Return the defects that were planted: such a run says nothing about a cluster."""
    return list(dict.fromkeys([*report["run"]["defects"], *map(str, report["cluster"].get("defects") or ())]))


def is_asked(row: Mapping[str, Any]) -> bool:
    """Report whether a row that was not run was asked for: nobody deselected it."""
    return not str(row["why"]).startswith(UNASKED)


def is_cut_off(row: Mapping[str, Any]) -> bool:
    """Report whether a row was selected and left out for want of GPU-seconds, nodes or time."""
    return str(row["why"]).startswith(CUT_OFF)


def _not_run(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what was asked for and not run; a budget leaves the answer open whatever the level of what it cut off."""
    for row in rows:
        if is_cut_off(row) or (row["level"] == "must" and is_asked(row)):
            yield f"{row['id']} was not run: {row['why']}"


def _nothing_applies(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the areas that were asked for by name and of which no row applies."""
    for area in report["run"].get("asked") or ():
        rows = [row for row in report["requirements"] if row["area"] == area]
        if rows and all(row["verdict"] == "not_applicable" for row in rows):
            yield f"{area} was requested, but no row of it applies: {rows[0]['finding']['observed']}"


def _doubts(musts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what decided rows leave open."""
    for row in musts:
        if row["verdict"] == "fail" and row["waiver"]:
            yield f"{row['id']} failed and is waived by {row['waiver']['owner'] or 'an unnamed owner'}"
    for row in musts:
        if row["verdict"] in {"environment", "inconclusive"}:
            yield f"{row['id']} is not decided ({row['verdict']}): {row['title']}"
    for row in musts:
        if is_flaky(row):
            yield f"{row['id']} needed more than one attempt ({', '.join(row['earlier'])}, then {row['verdict']})"
