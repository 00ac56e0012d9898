"""Hooks around running: decide in setup, settle in the call, clean up whatever happens."""

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import pytest

from pytest_gpucluster.hooks import deadline, disk_full, settings, signals, state
from pytest_gpucluster.plain import visible
from pytest_gpucluster.requirement import Finding, Verdict

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run

_NOT_SETTLED = "the test ended without asking for the decision"


def obtain_decision(item: pytest.Item) -> Callable[[], Finding]:
    """Obtain evidence and decide; return what the test calls to settle the row.

    Raises:
        Outcome: environment or inconclusive, or after the deadline: there is nothing that the test could settle.
        pytest.skip.Exception: not applicable.
    """
    case = state.case_of(item)
    if case is None:
        pytest.fail(
            f"the fixture settle serves tests declared with @requirement: {item.nodeid}", pytrace=False
        )
    run: Run = item.config.stash[state.RUN]
    started = time.monotonic()
    with disk_full.ending_the_run(run.folder):
        if why := deadline.passed(run, case.requirement.scenario):
            deadline.leave_out(item, run, case, why)
        run.begin(state.selection_of(item.config))
        finding, presupposed = run.decide(case.requirement)
    case.finding, case.seconds = finding, round(time.monotonic() - started, 3)
    case.waived = run.waived(case.requirement, finding)
    case.text = run.text(case.requirement, finding, item.nodeid, case.waived)
    state.set_property(item, state.VERDICT_PROPERTY, finding.verdict.value)
    if case.waived:
        state.set_property(item, state.WAIVER_PROPERTY, case.waived)

    def settle() -> Finding:
        """Settle the row: return the finding of a pass, raise on a violation."""
        _close(item, run, case, presupposed)
        if finding.verdict is Verdict.FAIL:
            raise state.Outcome(case.text)
        return finding

    if finding.verdict in {Verdict.ENVIRONMENT, Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE}:
        _close(item, run, case, presupposed)
        if finding.verdict is Verdict.NOT_APPLICABLE:
            pytest.skip(f"not applicable: {visible.text(finding.observed)}")
        raise state.Outcome(case.text)
    return settle


def _close(item: pytest.Item, run: "Run", case: state.Case, presupposed: list[dict[str, object]]) -> None:
    case.settled = True
    if not case.recorded:
        case.recorded = True
        with disk_full.ending_the_run(run.folder):
            run.record(case, presupposed, item.nodeid)


def _replace_by_inconclusive(item: pytest.Item, observed: str) -> None:
    """Make a requirement inconclusive whose test did not settle it."""
    case, run = state.case_of(item), item.config.stash.get(state.RUN, None)
    if case is None or run is None:
        return
    run.begin(state.selection_of(item.config))
    required = case.finding.required if case.finding else "a settled decision"
    case.finding = Finding(Verdict.INCONCLUSIVE, required=required, observed=observed)
    case.waived = run.waived(case.requirement, case.finding)
    case.text = run.text(case.requirement, case.finding, item.nodeid, case.waived)
    state.set_property(item, state.VERDICT_PROPERTY, Verdict.INCONCLUSIVE.value)
    if case.waived:
        state.set_property(item, state.WAIVER_PROPERTY, case.waived)
    _close(item, run, case, [])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run nothing when only the plan is asked for; let SIGTERM end a run like Ctrl-C does.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtestloop
    """
    config = session.config
    if settings.wants_plan(config) and not session.testsfailed:
        return True
    if config.stash.get(state.RUN, None) is not None:
        signals.interrupt_on_sigterm(config)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Record a requirement whose evidence or decision broke as inconclusive; the error itself is shown.

    A test that a plugin repeats begins anew, so that each attempt stands in the record.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_setup
    """
    signals.end_if_told(item.config)
    state.begin_attempt(item)
    try:
        return (yield)
    except (state.Outcome, pytest.skip.Exception, pytest.exit.Exception, KeyboardInterrupt):
        raise
    except (Exception, pytest.fail.Exception) as error:
        case = state.case_of(item)
        if case is not None and not case.settled:
            _replace_by_inconclusive(item, f"setup broke: {_brief(error)}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Make a requirement inconclusive whose test ends without settling it.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_call
    """
    case = state.case_of(item)
    if case is None:
        return (yield)
    try:
        result = yield
    except state.Outcome:
        raise
    except (pytest.skip.Exception, pytest.exit.Exception, KeyboardInterrupt):
        raise
    except (Exception, pytest.fail.Exception) as error:
        if not case.settled:
            _replace_by_inconclusive(item, f"the test itself broke: {_brief(error)}")
        raise
    if not case.settled:
        _replace_by_inconclusive(item, _NOT_SETTLED)
        # Raised in teardown, so that JUnit shows an error and not a failure.
        item.stash[_UNSETTLED] = True
    return result


_UNSETTLED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Tell that a test did not settle its requirement.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_teardown
    """
    result = yield
    if item.stash.get(_UNSETTLED, False):
        del item.stash[_UNSETTLED]
        case = state.case_of(item)
        raise state.Outcome(case.text if case else _NOT_SETTLED)
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Clean up, end the cluster, end the record, write the reports.

    Last, so that workers have ended before the cluster does.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_sessionfinish
    """
    config = session.config
    run: Run | None = config.stash.get(state.RUN, None)
    if run is None:
        return
    left = run.close()
    if state.is_worker(config):
        return
    from pytest_gpucluster.hooks import finish

    if settings.wants_plan(config):
        return
    selection = state.selection_of(config)
    if selection.beyond_budget() and not run.begun:
        run.begin(selection, touch=False)
    finish.end(session, run.folder, exit_status=int(exitstatus), left_overs=left)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give SIGTERM back.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_unconfigure
    """
    signals.restore_sigterm(config)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
