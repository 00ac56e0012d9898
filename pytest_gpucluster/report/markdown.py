"""The report as Markdown, for a pull request or the summary of a pipeline: the answer, what is red and why, counts."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.plain import plurals, shortening
from pytest_gpucluster.plain.markdown import cell
from pytest_gpucluster.report import answer, causes, scope, site

_shown = functools.partial(shortening.shown, most=400)
"""Returns a text as a cell shows it; the page has all of it."""
_REASONS = 12


def render(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    cluster, run = report["cluster"], report["run"]
    yield f"### GPU cluster conformance of {cell(str(cluster.get('name') or 'an unnamed cluster'))}"
    yield ""
    yield f"**{cell(scope.banner(report))}**"
    yield ""
    # What closes a gate has a table of its own.
    reasons = [] if report["decision"] else report["answer"]["reasons"]
    for reason in reasons[1:_REASONS]:
        yield f"- {cell(_shown(str(reason)))}"
    if len(reasons) > _REASONS:
        yield f"- and {len(reasons) - _REASONS} more"
    if run["defects"]:
        yield f"Planted defects: {cell(', '.join(run['defects']))}."
    yield ""
    yield from _by_policy(report)
    yield from _red(report)
    yield from _counts(report)
    yield from _rest(report)


def _by_policy(report: Mapping[str, Any]) -> Iterator[str]:
    decision = report["decision"]
    if not decision:
        return
    yield f"Gate of the policy `{decision['policy']['name']}`: {cell(decision['text'])}."
    yield ""
    if decision["purposes"]:
        yield "| purpose | answer |"
        yield "| --- | --- |"
        yield from (f"| {cell(name)} | {cell(word)} |" for name, word in decision["purposes"].items())
        yield ""
    if decision["closers"]:
        yield "| closed by | why | what to do |"
        yield "| --- | --- | --- |"
        for each in decision["closers"]:
            why = f"{each['why']}; ambiguous: {each['ambiguous']}" if each["ambiguous"] else each["why"]
            yield f"| {cell(_shown(each['what']))} | {cell(_shown(why))} | {cell(_shown(each['fix']))} |"
        yield ""


def _red(report: Mapping[str, Any]) -> Iterator[str]:
    found = causes.found(report)
    if not found:
        return
    waived = {row["id"] for row in report["requirements"] if row["waiver"]}
    yield "| rows | verdict | cause | what to do |"
    yield "| --- | --- | --- | --- |"
    for one in found:
        excused = [row for row in one.rows if row in waived]
        verdict = f"{one.verdict}, waived: {', '.join(excused)}" if excused else one.verdict
        yield f"| {cell(', '.join(one.rows))} | {cell(verdict)} | {cell(_shown(one.text))} | {cell(_shown(one.fix))} |"
    yield ""


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
        yield f"{plurals.count(len(tests), 'test')} of the site's own{f': {cell(_shown(told))}' if told else ''}."
        yield ""


def _rest(report: Mapping[str, Any]) -> Iterator[str]:
    left = report["cleanup"]["left_overs"]
    if left:
        yield f"Left on the cluster: {cell(_shown('; '.join(map(str, left))))}."
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
