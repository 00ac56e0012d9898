"""Plugins that repeat tests: refused in a gate run, elsewhere shown as what they are."""

from collections.abc import Iterable

import pytest

from pytest_gpucluster.hooks import settings, site_tests, state

PLUGIN = "rerunfailures"


def check(config: pytest.Config, told: settings.Settings, items: Iterable[pytest.Item]) -> None:
    """Refuse a gate run in which a row that failed would be repeated until it passes.

    Raises:
        pytest.UsageError: one line: which row, how often, what to leave out.
    """
    if not told.gate:
        return
    source = told.sources.get("gate", "")
    if told.defects:
        raise pytest.UsageError(
            f"{source}: a gate run judges the cluster unchanged: leave out the planted defect {told.defects[0]}"
        )
    repeats = getattr(config.pluginmanager.getplugin(PLUGIN), "get_reruns_count", None)
    if repeats is None:
        return
    for item in items:
        requirement = state.declared(item)
        name = requirement.id if requirement is not None else item.nodeid
        ours = requirement is not None or site_tests.CASE in item.stash
        count = repeats(item) if ours else None
        if count:
            raise pytest.UsageError(
                f"{source}: a gate run decides each row once, but pytest-rerunfailures would repeat {name} "
                f"up to {count} times: leave out --reruns and flaky marks, or run with -p no:rerunfailures"
            )
