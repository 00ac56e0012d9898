"""A site's own tests: which they are, what becomes of them, and how they come into the record.

A test is one of them if it uses a fixture of this plugin or carries the mark `needs`, and declares no requirement. It
asserts; no judge decides it, and the record says so.
"""

import contextlib
import dataclasses
import inspect
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import disk_full, needs, settings, state
from pytest_gpucluster.plain import plurals
from pytest_gpucluster.requirement import AREAS, Level, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpucluster.hooks.run import Run

FIXTURES = frozenset({"gpu_cluster", "gpu_namespace", "stage", "run_payload", "scenario_evidence"})
"""Fixtures by which a test is one of a site's own."""
PLAYING = frozenset({"gpu_namespace", "stage", "run_payload"})
"""Fixtures that make something on the cluster."""
PLUGIN = "gpucluster-site-tests"
_SHIPPED = "pytest_gpucluster."
NO_CLUSTER = "no cluster is named: name one with --cluster (embedded, host, kind, or a profile)"


@dataclasses.dataclass
class SiteCase:
    """One of a site's own tests and what became of it.

    Attributes:
        nodeid: pytest's name.
        title: first line of its docstring, else its name.
        area: area by its mark, "" for none.
        level: by its mark; must without one.
        needs: what it takes.
        plays: whether it makes something on the cluster.
        scenario: name of its evidence.
        outcome: what became of it so far, "" for nothing that speaks against it.
        text: why.
        seconds: how long its phases took.
        scenarios: shipped scenarios whose evidence it looked at.
        evidence: its own evidence, None for none.
    """

    nodeid: str
    title: str
    area: str
    level: str
    needs: needs.SiteNeeds
    plays: bool
    scenario: str
    outcome: str = ""
    text: str = ""
    seconds: float = 0.0
    scenarios: list[str] = dataclasses.field(default_factory=list)
    evidence: "Path | None" = None

    def declaration(self) -> dict[str, Any]:
        """Return what is known of it before it is run, as plain data."""
        return {
            "title": self.title,
            "area": self.area,
            "level": self.level,
            "needs": self.needs.as_dict(),
        }


CASE = pytest.StashKey[SiteCase]()


def find(items: Iterable[pytest.Item], *, named: bool) -> list[pytest.Item]:
    """Return the tests of a site's own.

    Args:
        items: what was collected.
        named: whether a cluster is named; without one a foreign mark `needs` is nobody's business.
    """
    return [item for item in items if state.declared(item) is None and _is_ours(item, named=named)]


def _is_ours(item: pytest.Item, *, named: bool) -> bool:
    used = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    if any(_shipped(item, name) for name in used):
        return True
    return named and not needs.is_foreign(item.config) and item.get_closest_marker(needs.MARK) is not None


def _shipped(item: pytest.Item, name: str) -> bool:
    """Report whether a fixture is this plugin's: a project may have one of the same name, and then it is its own."""
    info = getattr(item, "_fixtureinfo", None)
    found: Sequence[Any] = getattr(info, "name2fixturedefs", {}).get(name) or ()
    return bool(found) and str(getattr(found[-1].func, "__module__", "")).startswith(_SHIPPED)


def hidden(items: Iterable[pytest.Item]) -> list[str]:
    """Return one line for each module in which another fixture takes the place of one of ours."""
    lines: dict[str, None] = {}
    for item in items:
        used = FIXTURES.intersection(getattr(item, "fixturenames", ()))
        theirs = sorted(name for name in used if not _shipped(item, name))
        if theirs:
            where = item.nodeid.partition("::")[0]
            lines[f"gpucluster: {where} uses its own fixture {', '.join(theirs)}, not the plugin's"] = None
    return list(lines)


def take(config: pytest.Config, items: Sequence[pytest.Item]) -> dict[str, SiteCase]:
    """Prepare the tests of a site's own and watch over them; returns them by node id.

    Raises:
        pytest.UsageError: a mark `needs` that is written wrongly.
    """
    cases: dict[str, SiteCase] = {}
    paths: dict[str, Path] = {}
    for item in items:
        try:
            cases[item.nodeid] = item.stash[CASE] = _case(item)
        except needs.NeedsError as error:
            raise pytest.UsageError(str(error)) from None
        if paths.setdefault(item.nodeid, item.path) != item.path:
            raise pytest.UsageError(
                f"two tests have the node id {item.nodeid}: {paths[item.nodeid]} and {item.path}; choose a root "
                "that contains both (--rootdir)"
            )
    if cases and not config.pluginmanager.hasplugin(PLUGIN):
        config.pluginmanager.register(SiteTests(), PLUGIN)
    return cases


def _case(item: pytest.Item) -> SiteCase:
    function = getattr(item, "function", None)
    doc = inspect.getdoc(function) if function is not None else None
    marks = {mark.name for mark in item.iter_markers()}
    area = next((name for name, _ in AREAS.values() if name in marks), "")
    level = next((level.value for level in Level if level.value in marks), Level.MUST.value)
    used = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return SiteCase(
        item.nodeid,
        (doc or item.name).strip().partition("\n")[0].rstrip("."),
        area,
        level,
        needs.of(item),
        bool(PLAYING & used),
        needs.scenario_name(item.nodeid, item.name),
    )


def case_of(item: pytest.Item) -> SiteCase:
    """Return the case of a test that uses our fixtures, also where collection could not see that it would."""
    case = item.stash.get(CASE, None)
    if case is None:
        take(item.config, [item])
        case = item.stash[CASE]
    return case


class SiteTests:
    """Hooks around a site's own tests; registered where there are some."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        """Check what a test needs before any fixture makes something.

        Innermost, so that what other plugins prepare for a test is there when it is skipped.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_setup
        """
        case, run = item.stash.get(CASE, None), item.config.stash.get(state.RUN, None)
        if case is None or run is None:
            return (yield)
        if int(getattr(item, "execution_count", 1) or 1) > 1 and case.outcome:
            state.set_property(item, state.FLAKY_PROPERTY, "1")
        case.outcome = case.text = ""
        case.seconds = 0.0
        item.user_properties[:] = [
            (name, value) for name, value in item.user_properties if name != state.VERDICT_PROPERTY
        ]
        with _explained(item, case):
            _check_deadline(item, run, case)
            with disk_full.ending_the_run(run.folder):
                run.begin(state.selection_of(item.config))
            check_needs(run, case)
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Tell trouble of the cluster from an assertion that does not hold.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_call
        """
        case = item.stash.get(CASE, None)
        if case is None:
            return (yield)
        with _explained(item, case):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Take down what became of a test, and write it into the record when it has come to its end.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtest_makereport
        """
        report = yield
        case = item.stash.get(CASE, None)
        if case is None:
            return report
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, state.Outcome):
            report.longrepr = str(error)
        report.user_properties = list(item.user_properties)
        _note(case, report, error)
        run = item.config.stash.get(state.RUN, None)
        if report.when == "teardown" and run is not None:
            _record(run, case)
        return report


@contextlib.contextmanager
def _explained(item: pytest.Item, case: SiteCase) -> Generator[None]:
    """Turn trouble of the cluster and what does not apply into what rows make of them."""
    from pytest_gpucluster.provider import ProviderError
    from pytest_gpucluster.scenario import evidence_header

    try:
        yield
    except Exception as error:
        verdict = "environment" if isinstance(error, ProviderError) else evidence_header.verdict_of(error)
        if verdict is None:
            raise
        text = " ".join(str(error).split())
        state.set_property(item, state.VERDICT_PROPERTY, verdict)
        case.outcome, case.text = verdict, text
        if verdict == Verdict.NOT_APPLICABLE.value:
            pytest.skip(f"not applicable: {text}")
        raise state.Outcome(text) from error


def _check_deadline(item: pytest.Item, run: "Run", case: SiteCase) -> None:
    """Begin no test after the deadline.

    Raises:
        Outcome: it is not run, and red.
    """
    from pytest_gpucluster.hooks import deadline

    why = deadline.passed(run)
    if why:
        with disk_full.ending_the_run(run.folder):
            run.begin(state.selection_of(item.config), touch=False)
        state.set_property(item, state.VERDICT_PROPERTY, state.NOT_RUN)
        case.outcome, case.text = state.NOT_RUN, why
        raise state.Outcome(f"{item.nodeid}: not run: {why}")


def check_needs(run: "Run", case: SiteCase) -> None:
    """Check what a test needs: first what the profile declares, then what the nodes offer.

    Raises:
        NotApplicable: with the reason.
        EnvironmentProblem: the nodes cannot be read.
    """
    wanted = case.needs
    if not (wanted.capabilities or wanted.nodes or wanted.gpus):
        return
    from pytest_gpucluster.profile import capabilities
    from pytest_gpucluster.scenario import NotApplicable

    missing = capabilities.undeclared(run.loaded.profile, wanted.capabilities)
    if missing:
        raise NotApplicable(missing)
    if not (wanted.nodes or wanted.gpus):
        return
    nodes = run.gpu_nodes()
    offered = sum(node.gpus for node in nodes)
    if len(nodes) < wanted.nodes:
        raise NotApplicable(
            f"it needs {plurals.count(wanted.nodes, 'GPU node')}, but {len(nodes)} of this cluster accept pods"
        )
    if offered < wanted.gpus:
        resource = run.loaded.profile.gpu_resource
        raise NotApplicable(
            f"it needs {wanted.gpus} {resource}, but the nodes of this cluster offer {offered}"
        )


def _note(case: SiteCase, report: pytest.TestReport, error: BaseException | None) -> None:
    case.seconds += report.duration
    if report.skipped:
        case.outcome = case.outcome or "skipped"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        case.text = case.text or reason.removeprefix("Skipped: ")
    elif report.failed and case.outcome in {"", "skipped", "not_applicable"}:
        asserted = report.when == "call" and isinstance(error, AssertionError | pytest.fail.Exception)
        case.outcome = "failed" if asserted else "error"
        case.text = report.longreprtext


def _record(run: "Run", case: SiteCase) -> None:
    """Write into the journal what became of a test."""
    with disk_full.ending_the_run(run.folder):
        run.journal.site_test(
            case.nodeid,
            case.outcome or "passed",
            **case.declaration(),
            seconds=round(case.seconds, 3),
            scenarios=case.scenarios,
            text=case.text,
            evidence=case.evidence,
        )


def is_named(config: pytest.Config, *, for_marks: bool = False) -> bool:
    """Report whether anybody named a cluster, or a run whose evidence is judged.

    Args:
        config: pytest's configuration.
        for_marks: whether marks alone are to be ours; a variable of a shell, which is there in every project, does not
            make them so.
    """
    try:
        sources = settings.resolve(config).sources
    except pytest.UsageError:
        return False
    named = [sources[name] for name in ("cluster", "reuse") if name in sources]
    return any(not for_marks or not source.startswith("environment") for source in named)
