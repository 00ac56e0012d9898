"""Hooks around collection: markers and keywords from declarations, clear errors, order, usage errors."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import settings, state
from pytest_gpucluster.plain import plurals
from pytest_gpucluster.requirement import Requirement

if TYPE_CHECKING:
    from pytest_gpucluster.hooks import progress


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a requirement's item its area, its level, what it needs and its id as markers and keyword.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_itemcollected
    """
    requirement = state.declared(item)
    if requirement is None:
        return
    item.add_marker(requirement.area)
    item.add_marker(requirement.level.value)
    if getattr(getattr(requirement.scenario, "needs", None), "torch", False):
        item.add_marker("torch")
    if requirement.smoke:
        item.add_marker("smoke")
    item.extra_keyword_matches.add(requirement.id)
    state.set_property(item, state.REQUIREMENT_PROPERTY, requirement.id)
    state.set_property(item, state.LEVEL_PROPERTY, requirement.level.value)
    state.set_property(item, state.SCENARIO_PROPERTY, requirement.scenario.name)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Show an error of a declaration as one line instead of a traceback.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_make_collect_report
    """
    report = yield
    call = getattr(report, "call", None)
    error = call.excinfo.value if call is not None and call.excinfo is not None else None
    if error is not None and type(error).__name__ == "DeclarationError":
        from pytest_gpucluster.requirement import DeclarationError

        if isinstance(error, DeclarationError):
            report.longrepr = f"{collector.nodeid}: {error}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put requirements in the order of areas, and inside an area the cheap scenarios first.

    Tests of other kinds keep their places. Where a plugin shuffles on purpose, nothing is ordered.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_collection_modifyitems
    """
    places = [index for index, item in enumerate(items) if state.declared(item) is not None]
    selection = state.selection_of(config)
    selection.total = len(places)
    if places and not _check_words(config, items, nothing_selected=False):
        items.clear()
        return
    selection.collected = tuple(items) if places else ()
    if not places or _shuffled(config):
        return
    ordered = sorted((items[index] for index in places), key=_order)
    for index, item in zip(places, ordered, strict=True):
        items[index] = item


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember which requirements were left out, and by what.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_deselected
    """
    for item in items:
        requirement = state.declared(item)
        if requirement is not None:
            why = f"deselected{_selectors(item.config)}"
            state.selection_of(item.config).deselected[requirement.id] = (requirement, why)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check what the run was told, now that there is a requirement to run.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_collection_finish

    Raises:
        pytest.UsageError: see `preparing.prepare`.
    """
    config = session.config
    selection = state.selection_of(config)
    items = [(item, found) for item in session.items if (found := state.declared(item)) is not None]
    chosen = [requirement for _, requirement in items]
    selection.selected = list(dict.fromkeys(requirement.id for requirement in chosen))
    # A parametrized or repeated test may be deselected in part.
    for requirement in chosen:
        selection.deselected.pop(requirement.id, None)
    everything, selection.collected = selection.collected, ()
    if everything and not session.items:
        _check_words(config, everything, nothing_selected=True)
    if config.getoption("collectonly"):
        return
    if chosen:
        from pytest_gpucluster.hooks import asked

        selection.asked = asked.areas(config, items)
    try:
        _prepare(session, chosen)
    except pytest.UsageError as error:
        _hand_over(config, error)
        session.items.clear()
        session.testscollected = 0


def _hand_over(config: pytest.Config, error: pytest.UsageError) -> None:
    """Raise a usage error, or hand it to the controller: one that leaves a worker would look like a crash."""
    if not state.is_worker(config):
        raise error
    config.stash[state.PROBLEM] = str(error)


def _check_words(config: pytest.Config, collected: Sequence[pytest.Item], *, nothing_selected: bool) -> bool:
    """Report whether the words of `-m` and `-k` are in order; refuse those that were meant for requirements."""
    if not config.getoption("markexpr") and not config.getoption("keyword"):
        return True
    from pytest_gpucluster.hooks import selection

    told = selection.problem(config, collected, nothing_selected=nothing_selected)
    if told is not None:
        _hand_over(config, pytest.UsageError(told))
    return told is None


def _prepare(session: pytest.Session, chosen: Sequence[Requirement]) -> None:
    """Make the run ready for the rows that were selected, and for the tests of the site's own.

    Raises:
        pytest.UsageError: see `preparing.prepare` and `site_tests.take`.
    """
    config = session.config
    from pytest_gpucluster.hooks import site_tests

    named = bool(chosen) or site_tests.is_named(config)
    own = site_tests.find(session.items, named=bool(chosen) or site_tests.is_named(config, for_marks=True))
    if not chosen and not own:
        return
    cases = site_tests.take(config, own)
    if not named:
        return  # each of them says so itself; nobody else's tests are in the way
    from pytest_gpucluster.hooks import budget, by_policy, offered, preparing, progress, reruns

    playing = {case.scenario for case in cases.values() if case.plays}
    made = preparing.prepare(config, {requirement.scenario.name for requirement in chosen} | playing)
    made.policy = by_policy.load(made.settings)
    reruns.check(config, made.settings, session.items)
    made.notes += offered.check(made, chosen)
    config.stash[state.RUN] = made
    state.selection_of(config).site_tests = {nodeid: case.declaration() for nodeid, case in cases.items()}
    told = made.settings
    if told.max_gpu_seconds is not None or told.max_nodes is not None:
        budget.keep(
            session,
            chosen,
            cases,
            made.loaded.profile,
            gpu_seconds=told.max_gpu_seconds,
            nodes=told.max_nodes,
        )
    made.board = progress.Board(_parts(session.items))
    if not state.is_worker(config) and not made.settings.plan:
        from pytest_gpucluster.hooks import progress_line

        progress_line.watch(config, made.board, lambda: made.folder)
    if made.loaded.profile.provider == "existing" and session.items and not (told.plan or told.reuse):
        from pytest_gpucluster.hooks import asking

        asking.prepare(config, made)


def _parts(items: Sequence[pytest.Item]) -> dict[str, "progress.Part"]:
    """Return the scenarios of what is to run, each with its rows and about how long it takes."""
    from pytest_gpucluster.hooks import budget, progress

    rows: dict[str, dict[str, Requirement]] = {}
    for item in items:
        requirement = state.declared(item)
        if requirement is not None:
            rows.setdefault(requirement.scenario.name, {})[requirement.id] = requirement
    return {
        name: progress.Part(tuple(of), budget.cost(next(iter(of.values())))[1]) for name, of in rows.items()
    }


def pytest_report_collectionfinish(
    config: pytest.Config, start_path: Path, items: Sequence[pytest.Item]
) -> list[str]:
    """Name cluster and run folder, and each leaf of the profile that was overridden, with its source.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_report_collectionfinish
    """
    del start_path
    run = config.stash.get(state.RUN, None)
    if run is None or config.getoption("collectonly"):
        return []
    from pytest_gpucluster.hooks import waivers

    told = run.settings
    count = len(state.selection_of(config).selected)
    source = told.sources.get("cluster", "default")
    own = len(state.selection_of(config).site_tests)
    beside = f" and {plurals.count(own, 'test')} of the site's own" if own else ""
    lines = [
        f"gpucluster: {plurals.count(count, 'requirement')}{beside} on cluster {told.cluster} ({source})",
        *_taken(config),
        *_hidden(items),
        *settings.header_lines(run.loaded.overridden()),
        *waivers.lines(run.loaded),
        *(f"gpucluster: {note}" for note in run.notes if not told.plan),
    ]
    if told.reuse is not None:
        lines.append(f"gpucluster: judging the evidence of {told.reuse}, nothing is run")
        lines += _of_another(told)
    return lines


def _of_another(told: settings.Settings) -> list[str]:
    """Say that evidence is judged by the profile of another cluster, where nobody named one."""
    from pytest_gpucluster.report import record

    if told.reuse is None or "cluster" in told.sources:
        return []
    try:
        of = str(record.load(told.reuse)["cluster"].get("name") or "")
    except record.RecordError:
        return []  # what it is judged as stands above
    if of in {"", told.cluster}:
        return []
    return [
        f"gpucluster: it is of cluster {of}, and {told.cluster} is the profile in use: --cluster={of} takes its own"
    ]


def _hidden(items: Sequence[pytest.Item]) -> list[str]:
    from pytest_gpucluster.hooks import site_tests

    return site_tests.hidden(items)


def _taken(config: pytest.Config) -> list[str]:
    if settings.is_ours(config, "--cluster"):
        return []
    return [
        "gpucluster: --cluster is an option of another plugin here; name the cluster with --gpucluster-cluster"
    ]


def _shuffled(config: pytest.Config) -> bool:
    manager = config.pluginmanager
    if manager.hasplugin("randomly") and config.getoption("randomly_reorganize", default=True):
        return True
    # pytest-random-order shuffles only when asked to.
    return bool(manager.hasplugin("random_order") and config.getoption("random_order_bucket", default=None))


def _order(item: pytest.Item) -> tuple[Any, ...]:
    requirement = state.declared(item)
    if requirement is None:
        return ()
    from pytest_gpucluster.hooks import budget

    return budget.order(requirement)


def _selectors(config: pytest.Config) -> str:
    used = [
        f"{flag} {config.getoption(dest)!r}"
        for flag, dest in (("-k", "keyword"), ("-m", "markexpr"))
        if config.getoption(dest, None)
    ]
    return f" by {' and '.join(used)}" if used else ""
