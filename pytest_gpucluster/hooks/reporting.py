"""Hooks around reporting: verdicts as outcomes, texts instead of tracebacks, the end of the terminal's output."""

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.hooks import options, settings, state
from pytest_gpucluster.requirement import Verdict

OWN: Mapping[str, tuple[str, str, tuple[str, Mapping[str, bool]]]] = {
    Verdict.ENVIRONMENT.value: ("environment", "e", ("ENVIRONMENT", {"yellow": True, "bold": True})),
    Verdict.INCONCLUSIVE.value: ("inconclusive", "i", ("INCONCLUSIVE", {"yellow": True, "bold": True})),
    state.NOT_RUN: ("not run", "-", ("NOT RUN", {"yellow": True, "bold": True})),
    Verdict.NOT_APPLICABLE.value: ("not applicable", "n", ("NOT APPLICABLE", {"yellow": True})),
}
"""Verdict -> category, letter and word of the verdicts for which pytest has no outcome."""

_UNDECIDED = frozenset({Verdict.ENVIRONMENT, Verdict.INCONCLUSIVE})
_TOLD = ("environment", "inconclusive", "waived")
WAIVED = ("waived", "w", ("WAIVED", {"yellow": True, "bold": True}))
_ENDED = frozenset({pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED})
_ASKING = frozenset(
    {f"--gpucluster-{name}" for name in ("plan", "defect", "keep", "reuse", "gate", "policy")}
)
"""Options that ask for something; whoever gives them waits for an answer, whatever other tests were run."""
FLAKY = ("flaky", "f", ("FLAKY", {"yellow": True, "bold": True}))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the text of a verdict without a traceback; a row that is red stays red, whatever its test makes of it.

    Outermost, so that the last word is not that of a mark `xfail`, nor of a test that caught what settles its row.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_makereport
    """
    report = yield
    case = state.case_of(item)
    if case is None:
        return report
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, state.Outcome):
        report.longrepr = str(error)
    elif report.skipped and isinstance(report.longrepr, tuple):
        _, _, reason = report.longrepr
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, reason)
        _record_skip(item, case, reason)
    elif report.failed:
        _show_steering(report)
    _keep_red(report, case)
    report.user_properties = list(item.user_properties)
    return report


def _show_steering(report: pytest.TestReport) -> None:
    """Show what would steer a terminal as escapes: an exception of a judge may quote the cluster."""
    from pytest_gpucluster.plain import visible

    told = str(report.longrepr)
    shown = visible.text(told)
    if shown != told:
        report.longrepr = shown


def _keep_red(report: pytest.TestReport, case: state.Case) -> None:
    """Fail a report of a row that was decided red and whose test, or a mark on it, says otherwise."""
    swallowed = case.verdict is Verdict.FAIL and report.when == "call" and not report.failed
    excused = case.verdict in _UNDECIDED and report.skipped
    if not case.settled or not (swallowed or excused):
        return
    report.outcome = "failed"
    report.longrepr = case.text
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _record_skip(item: pytest.Item, case: state.Case, reason: str) -> None:
    """Record a requirement that somebody skipped."""
    run = item.config.stash.get(state.RUN, None)
    if case.recorded or run is None:
        return
    case.recorded = case.settled = True
    run.begin(state.selection_of(item.config))
    run.journal.not_run(case.requirement, f"skipped: {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_report_teststatus(report: Any) -> Generator[None, tuple[str, str, Any], tuple[str, str, Any]]:
    """Count environment, inconclusive and not applicable as what they are, and name the row beside each word.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_report_teststatus
    """
    result = yield
    if not getattr(report, "user_properties", None):
        return result
    category, letter, word = _status(report) or result
    row = _property(report, state.REQUIREMENT_PROPERTY)
    if not row or not word:
        return category, letter, word
    text, *markup = word if isinstance(word, tuple) else (word,)
    return category, letter, (f"{text} {row}", *markup) if markup else f"{text} {row}"


def _status(report: Any) -> tuple[str, str, Any] | None:
    """Return category, letter and word of what pytest has no word for, None for anything else."""
    verdict = _property(report, state.VERDICT_PROPERTY)
    if report.outcome == "rerun":
        # An attempt that a plugin repeats: the last one is told.
        return None
    if report.failed and _property(report, state.WAIVER_PROPERTY):
        return WAIVED
    if report.passed and report.when == "call" and _property(report, state.FLAKY_PROPERTY):
        return FLAKY
    if verdict not in OWN or (report.failed and verdict == Verdict.NOT_APPLICABLE.value):
        # What broke after a row or a test did not apply is an error like any other.
        return None
    if report.passed:
        # A call that did not settle: its verdict is told by the teardown.
        return ("", "", "") if report.when == "call" else None
    return OWN[verdict]


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_header(cells: list[str]) -> None:
    """Add columns for requirement and verdict to the table of pytest-html."""
    from pytest_gpucluster.report import html_columns

    html_columns.add_header(cells)


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_row(report: Any, cells: list[str]) -> None:
    """Fill the columns for requirement and verdict."""
    from pytest_gpucluster.report import html_columns

    html_columns.add_row(cells, getattr(report, "user_properties", ()))


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_summary(prefix: list[str], session: pytest.Session) -> None:
    """Say the answer and the causes above the table of pytest-html, with a link to the page of the run."""
    from pytest_gpucluster.hooks import answering
    from pytest_gpucluster.report import html_summary, write

    ended = session.config.stash.get(answering.ENDED, None)
    if ended is None:
        return
    link = html_summary.href(ended.folder / write.PAGE, Path(session.config.getoption("htmlpath")))
    prefix.extend(html_summary.lines(ended.banner or answering.UNREAD, ended.ailments, ended.again, link))


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Print the plan, or the texts that pytest would not print, and where the run's files are.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_terminal_summary
    """
    problem = config.stash.get(state.PROBLEM, None)
    if problem is not None:
        terminalreporter.write_line(f"ERROR: {problem}", red=True)
    run = config.stash.get(state.RUN, None)
    if config.get_verbosity() < 0 and not state.is_worker(config):
        for line in options.almost_ours():  # the head of a quiet run is not printed
            terminalreporter.write_line(line, yellow=True)
    if run is None and exitstatus in _ENDED:
        _print_unused(terminalreporter, exitstatus, config)
    if run is not None and settings.wants_plan(config):
        from pytest_gpucluster.hooks import plan

        terminalreporter.section("gpucluster plan")
        selection = state.selection_of(config)
        for line in plan.lines(run, selection):
            terminalreporter.write_line(line)
        return
    for category in _TOLD:
        _print_texts(terminalreporter, category)
    _print_late(terminalreporter)
    _print_left_out(terminalreporter, config)
    _print_not_applicable(terminalreporter)
    _print_end(terminalreporter, config)


def _print_unused(terminal: Any, exitstatus: int, config: pytest.Config) -> None:
    """Say that options had nothing to act on: no requirement was collected."""
    if state.selection_of(config).total or config.pluginmanager.hasplugin("dsession"):
        return
    given = settings.on_command_line(config)
    nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if (nothing and given) or _ASKING.intersection(given):
        terminal.write_line(
            f"gpucluster: no requirement was collected, so {', '.join(given)} had nothing to act on: name a cluster "
            "(--cluster=NAME) and no path, or a path with requirements",
            yellow=True,
        )


def _print_texts(terminal: Any, category: str) -> None:
    reports = terminal.stats.get(category, [])
    if not reports:
        return
    terminal.section(category)
    for alike in _by_cause(reports, terminal.config):
        names = [_property(report, state.REQUIREMENT_PROPERTY) or report.nodeid for report in alike]
        terminal.write_sep("_", names[0])
        terminal.write_line(str(alike[0].longrepr))
        if names[1:]:
            terminal.write_line(f"{'also':<10}{', '.join(names[1:])}: the same cause")


def _by_cause(reports: list[Any], config: pytest.Config) -> list[list[Any]]:
    """Return the reports of rows, those of one cause together; its text is told once."""
    from pytest_gpucluster.hooks import answering

    ended = config.stash.get(answering.ENDED, None)
    of = {row: one.rows[0] for one in (ended.ailments if ended else ()) for row in one.rows}
    found: dict[str, list[Any]] = {}
    for report in reports:
        row = _property(report, state.REQUIREMENT_PROPERTY)
        found.setdefault(of.get(row, row) or report.nodeid, []).append(report)
    return list(found.values())


def _print_late(terminal: Any) -> None:
    reports = terminal.stats.get("not run", [])
    if reports:
        terminal.section("not run: deadline")
    for report in reports:
        terminal.write_line(str(report.longrepr), red=True)


def _print_left_out(terminal: Any, config: pytest.Config) -> None:
    left_out = state.selection_of(config).beyond_budget()
    if not left_out:
        return
    from pytest_gpucluster.hooks import budget

    terminal.section("not run: budget")
    for line in budget.lines(left_out):
        terminal.write_line(line, red=True)


def _print_not_applicable(terminal: Any) -> None:
    reports = terminal.stats.get("not applicable", [])
    if not reports or terminal.config.get_verbosity() < 0:
        return
    terminal.section("not applicable")
    told: dict[str, str] = {}
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        name = _property(report, state.REQUIREMENT_PROPERTY) or report.nodeid
        told[name] = reason.removeprefix("Skipped: not applicable: ")
    # Workers and the order of scenarios mix them.
    for name in sorted(told):
        terminal.write_line(f"{name}: {told[name]}")


def _print_end(terminal: Any, config: pytest.Config) -> None:
    from pytest_gpucluster.hooks import answering

    ended = config.stash.get(answering.ENDED, None)
    if ended is None:
        return
    terminal.section("gpucluster")
    terminal.write_line(f"run       {ended.folder}")
    for path in ended.files:
        if path.name in {"report.html", "report.json", "junit.xml"}:
            terminal.write_line(f"{path.suffix[1:]:<9} {path}")
    if ended.digest:
        terminal.write_line(f"digest    {ended.digest}")
    for line in ended.left_overs:
        terminal.write_line(f"left over {line}", red=True)
    run = config.stash.get(state.RUN, None)
    if run is None:
        return
    # A run without a cluster has ended above, and imports no provider.
    from pytest_gpucluster import provider

    kept = provider.of(run.loaded).kept(run.loaded, ended.folder, asked=settings.resolve(config).keep)
    if kept:
        terminal.write_line(f"kept      {kept}")


def _property(report: Any, name: str) -> str:
    return next((str(value) for key, value in report.user_properties if key == name), "")
