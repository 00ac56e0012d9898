"""The report as Markdown, for a pull request or the summary of a pipeline: the answer, what is red and why, counts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain import plurals
from pytest_gpucluster.plain.markdown import cell
from pytest_gpucluster.report import answer, scope, site

_LONGEST = 400
"""Characters of a text that a cell shows; the page has all of it."""
_REASONS = 12

ORDER = ("fail", "environment", "inconclusive")
"""Verdicts that are told row by row, the worst first."""


def render(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    cluster, run = report["cluster"], report["run"]
    yield f"### GPU cluster conformance of {cell(str(cluster.get('name') or 'an unnamed cluster'))}"
    yield ""
    yield f"**{cell(scope.banner(report))}**"
    yield ""
    reasons = report["answer"]["reasons"]
    for reason in reasons[1:_REASONS]:
        yield f"- {cell(_short(str(reason)))}"
    if len(reasons) > _REASONS:
        yield f"- and {len(reasons) - _REASONS} more"
    if run["defects"]:
        yield f"Planted defects: {cell(', '.join(run['defects']))}."
    yield ""
    yield from _red(report)
    yield from _counts(report)
    yield from _rest(report)


def _red(report: Mapping[str, Any]) -> Iterator[str]:
    groups = grouped(report["requirements"])
    if not groups:
        return
    yield "| rows | verdict | observed | what to do |"
    yield "| --- | --- | --- | --- |"
    for rows in groups:
        first = rows[0]
        told = ", ".join(row["id"] for row in rows)
        waived = [row["id"] for row in rows if row["waiver"]]
        verdict = f"{first['verdict']}, waived: {', '.join(waived)}" if waived else first["verdict"]
        causes = first["finding"].get("causes") or []
        fixes = " Or: ".join(
            f"{cause['text']}: {cause['fix']}" if cause.get("fix") else cause["text"] for cause in causes
        )
        yield f"| {cell(told)} | {cell(verdict)} | {cell(_short(_observed(rows)))} | {cell(_short(fixes))} |"
    yield ""


def grouped(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the rows that are red, those of one verdict and one set of causes together, violations first.

    Rows without a cause stand together only if the same was observed.
    """
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for verdict in ORDER:
        for row in rows:
            if row["verdict"] == verdict:
                causes = tuple(str(cause["text"]) for cause in row["finding"].get("causes") or [])
                key = causes or ("", str(row["finding"]["observed"]))
                found.setdefault((verdict, *key), []).append(row)
    return list(found.values())


def _observed(rows: Sequence[Mapping[str, Any]]) -> str:
    told = dict.fromkeys(str(row["finding"]["observed"]) for row in rows)
    if len(told) == 1:
        return next(iter(told))
    return "; ".join(f"{row['id']}: {row['finding']['observed']}" for row in rows)


def _counts(report: Mapping[str, Any]) -> Iterator[str]:
    levels = report["counts"]["by_level"]
    verdicts = list(report["counts"]["verdicts"])
    if verdicts:
        yield f"| level | {' | '.join(name.replace('_', ' ') for name in verdicts)} |"
        yield f"| --- |{' ---: |' * len(verdicts)}"
        for level, of in levels.items():
            yield f"| {level} | {' | '.join(str(of.get(name, 0)) for name in verdicts)} |"
        yield ""
    tests = report["site_tests"]
    if tests:
        red = [test for test in tests if test["outcome"] in {"failed", "error"}]
        told = "; ".join(f"{test['title']} ({test['outcome']})" for test in red)
        yield f"{plurals.count(len(tests), 'test')} of the site's own{f': {cell(_short(told))}' if told else ''}."
        yield ""


def _rest(report: Mapping[str, Any]) -> Iterator[str]:
    left = report["cleanup"]["left_overs"]
    if left:
        yield f"Left on the cluster: {cell(_short('; '.join(map(str, left))))}."
        yield ""
    cut = [row["id"] for row in report["not_run"] if answer.is_asked(row)]
    if cut:
        yield f"Not run: {', '.join(cut)}."
        yield ""
    flaky = [row["id"] for row in report["requirements"] if answer.is_flaky(row)]
    flaky += [str(test["title"]) for test in report["site_tests"] if site.is_flaky(test)]
    if flaky:
        yield f"Passed only when repeated: {cell(', '.join(flaky))}."
        yield ""
    run = report["run"]
    yield f"Run `{run['id']}`, pytest-gpucluster {run['plugin']}. A row without a pass was not shown."


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= _LONGEST else f"{one[: _LONGEST - 4].rstrip()} ..."
