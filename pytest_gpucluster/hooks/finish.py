"""The end of a run, in the process that owns it."""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import by_policy, disk_full, settings, state

if TYPE_CHECKING:
    from pytest_gpucluster.hooks import answering
    from pytest_gpucluster.report import record

INTERRUPTED = int(pytest.ExitCode.INTERRUPTED)

EXITS: Mapping[int, str] = {
    int(
        pytest.ExitCode.OK
    ): "the answer is yes; without a MUST row of the catalogue: all that was run passed",
    int(pytest.ExitCode.TESTS_FAILED): "the answer is no or undecided, or a test failed",
    INTERRUPTED: "the run was interrupted",
    int(pytest.ExitCode.INTERNAL_ERROR): "pytest or a plugin failed",
    int(
        pytest.ExitCode.USAGE_ERROR
    ): "a mistake in the command line, a setting or the profile, or a cluster on which no row can be decided",
    int(pytest.ExitCode.NO_TESTS_COLLECTED): "no test was selected",
}
"""Exit status of pytest -> what it says in a run of the suite; `_agreed` makes them so."""

_GREEN = frozenset({int(pytest.ExitCode.OK), int(pytest.ExitCode.NO_TESTS_COLLECTED)})


def end(
    session: pytest.Session,
    folder: Path,
    *,
    exit_status: int,
    left_overs: list[str],
) -> None:
    """Stop what was started for the run, end its record, write the reports, and let exit status and answer agree.

    A run that pytest would end green is red where its answer is no yes.
    """
    from pytest_gpucluster import provider
    from pytest_gpucluster.hooks import answering
    from pytest_gpucluster.report import record, scope, whole, write

    config = session.config
    stayed = provider.stop(folder)
    journal = record.Journal(folder / record.JOURNAL)
    if not journal.path.exists():
        # Nothing was reached: no folder was made, so there is nothing to tell.
        return
    report = None
    with disk_full.telling(journal.path, stayed):
        if stayed:
            journal.cleanup(stayed)
        report = _end_record(session, journal, exit_status)
    if report is None:
        # What could not be written, or was in part, is in the file as it is.
        with contextlib.suppress(record.RecordError):
            report = record.fold(journal.path)
    files = write.write_all(folder, report)
    status = _by_rows_alone(session, exit_status)
    agreed = _agreed(report, status, gate=settings.resolve(config).gate)
    if agreed != exit_status:
        session.exitstatus = pytest.ExitCode(agreed)
    ended = answering.Ended(folder, tuple(files), (*left_overs, *stayed), digest=whole.digest(folder))
    if report is not None:
        told = report["answer"]
        ended = dataclasses.replace(
            ended,
            word=told["word"],
            banner=scope.banner(report),
            reasons=tuple(map(str, told["reasons"])),
            decision=report["decision"],
        )
        ended = _to_mend(session.config, report, ended)
        _fill_environment(config, report)
    config.stash[answering.ENDED] = ended
    config.pluginmanager.register(answering.Answer(ended), answering.NAME)


def _fill_environment(config: pytest.Config, report: Mapping[str, Any]) -> None:
    """Tell pytest-metadata what was tested: pytest-html shows it, and ends after us."""
    if not config.pluginmanager.hasplugin("metadata"):
        return
    try:
        from pytest_metadata.plugin import metadata_key
    except ImportError:  # one older than 3.0 has no such key
        return
    from pytest_gpucluster.report import html_summary

    config.stash.setdefault(metadata_key, {}).update(html_summary.environment(report))


def _to_mend(config: pytest.Config, report: Mapping[str, Any], ended: "answering.Ended") -> "answering.Ended":
    """Return what the terminal tells, with the causes of rows that are not green and the command for after."""
    from pytest_gpucluster.hooks import again
    from pytest_gpucluster.report import causes, text

    ailments = causes.found(report)
    rows = [row for one in ailments for row in one.rows]
    red = [row for row in report["requirements"] if row["id"] in rows]
    targets = dict.fromkeys(word for row in red for word in text.target(row["where"], row["nodeid"]))
    options = again.options(settings.resolve(config), str(report["cluster"]["name"]))
    command = again.command(rows, list(targets), options, config.invocation_params.args)
    return dataclasses.replace(ended, ailments=ailments, again=command)


def _end_record(
    session: pytest.Session, journal: "record.Journal", exit_status: int
) -> Mapping[str, Any] | None:
    """Write the end of the record; return what it comes to, None where it cannot be read.

    All other processes of the run have ended: what was read once and what is written here are the whole journal.
    """
    from pytest_gpucluster.report import record

    interrupted = exit_status == INTERRUPTED
    gate = settings.resolve(session.config).gate
    try:
        folding = record.Folding(journal.path)
        before = folding.report()
    except record.RecordError:
        journal.run_end(exit_status=_agreed(None, exit_status, gate=gate), interrupted=interrupted)
        return None
    why = "the run was interrupted before it" if interrupted else "not reached: the run stopped before it"
    selected = state.selection_of(session.config).selected
    for row in before["not_run"]:
        if row["id"] in selected and row["why"] == record.KILLED:
            folding.take(journal.write("not-run", **{**row, "why": why}))
    decision = by_policy.decided(journal.path.parent, folding.report(), interrupted=interrupted)
    if decision is not None:
        folding.take(journal.decision(decision))
    status = _by_rows_alone(session, exit_status)
    agreed = _agreed(_ended_well(folding.report()), status, gate=gate)
    folding.take(journal.run_end(exit_status=agreed, interrupted=interrupted))
    return folding.report()


def _by_rows_alone(session: pytest.Session, exit_status: int) -> int:
    """Return the exit status of a gate run by what is not a row: of rows, its policy is the judge.

    Outside gate runs, and without a policy, a row that failed makes a run red.
    """
    told = settings.resolve(session.config)
    failed = exit_status == int(pytest.ExitCode.TESTS_FAILED)
    if failed and told.gate and told.policy is not None and by_policy.only_rows_failed(session.config):
        return int(pytest.ExitCode.OK)
    return exit_status


def _ended_well(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the report of a run that is about to end, with the answer that it has if it ends well."""
    from pytest_gpucluster.report import answer

    ended = {**report, "run": {**report["run"], "interrupted": False, "killed": False, "exit_status": 0}}
    return {**ended, "answer": answer.answer(ended)}


def _agreed(report: Mapping[str, Any] | None, exit_status: int, *, gate: bool) -> int:
    """Return the exit status that agrees with the answer: what is not known to be good is red.

    A run in which no MUST row of the catalogue was asked for has no answer but undecided, such as one of a site's own
    tests alone. Outside gate runs it is as green as its tests, unless it left something behind, was cut off, or its
    record is damaged. Where a policy decides, a closed gate is red.

    Args:
        report: the record so far, None where it cannot be read.
        exit_status: pytest's own.
        gate: whether the result decides something.
    """
    if exit_status not in _GREEN:
        return exit_status
    red = int(pytest.ExitCode.TESTS_FAILED)
    if report is None:
        return red
    from pytest_gpucluster.report import answer
    from pytest_gpucluster.requirement import is_site

    asked = [*report["requirements"], *filter(answer.is_asked, report["not_run"])]
    of_catalogue = [row for row in asked if not is_site(row["id"])]
    if gate or report["decision"] or any(row["level"] == "must" for row in of_catalogue):
        return int(pytest.ExitCode.OK) if report["answer"]["word"] == "yes" else red
    nothing = of_catalogue and not any(row.get("verdict") == "pass" for row in of_catalogue)
    cut = any(map(answer.is_cut_off, report["not_run"])) or any(
        str(test["text"]).startswith(answer.CUT_OFF) for test in report["site_tests"]
    )
    bad = report["answer"]["word"] == "no" or answer.distrust(report) or nothing or cut
    return red if bad else exit_status
