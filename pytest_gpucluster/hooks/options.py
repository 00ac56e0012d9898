"""Hooks around options: declare them, register markers, print the header."""

import copy
import os
from collections.abc import Generator

import pytest

from pytest_gpucluster.hooks import needs, settings, state, table
from pytest_gpucluster.requirement import AREAS, Level

LEVEL_MEANINGS = {
    Level.MUST: "a requirement that the cluster MUST meet",
    Level.SHOULD: "a requirement that the cluster SHOULD meet",
    Level.CONTROL: "shows that the detector sees the documented failure on this cluster",
}


TORCH = "torch"
SMOKE = "smoke"


def markers() -> tuple[str, ...]:
    """Return the names of the markers by which requirements are selected."""
    return (*(name for name, _ in AREAS.values()), *(level.value for level in LEVEL_MEANINGS), TORCH, SMOKE)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare options and ini settings.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_addoption
    """
    table.register(parser)
    if getattr(pluginmanager, "_conftest_plugins", ()):
        # Loaded by a conftest file: the hook below was called before.
        table.claim(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Take the name `--cluster` where neither a plugin nor a conftest file has an option of that name.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_load_initial_conftests
    """
    if any(word.startswith("--gpuc") for word in args):
        from pytest_gpucluster.hooks import misspelt

        misspelt.check_options(args)
    kept = table.without_claimed(args)
    if len(kept) < len(args):
        # Until it is claimed, the value of `--cluster NAME` would look like a path.
        known = parser.parse_known_args(kept, namespace=copy.copy(early_config.option))
        early_config.known_args_namespace.file_or_dir = known.file_or_dir
    result = yield
    table.claim(parser)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register markers; add the hooks for xdist where it is present.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_configure
    """
    _check_ini(config)
    for name, meaning in AREAS.values():
        config.addinivalue_line("markers", f"{name}: gpucluster area: {meaning}")
    for level, meaning in LEVEL_MEANINGS.items():
        config.addinivalue_line("markers", f"{level.value}: gpucluster level: {meaning}")
    config.addinivalue_line("markers", f"{TORCH}: gpucluster need: the payload of the scenario needs torch")
    config.addinivalue_line("markers", needs.HELP)
    config.addinivalue_line("markers", f"{SMOKE}: gpucluster selection: a few rows that answer in seconds")
    if config.pluginmanager.hasplugin("xdist"):
        from pytest_gpucluster.hooks import workers

        workers.configure(config)
    if state.is_worker(config):
        return
    source = settings.who_names_cluster(config)
    if source is not None and source.startswith("option") and not config.getoption("collectonly"):
        _check_cluster(config)
    named = source or settings.who_names_run(config)
    if named is not None:
        from pytest_gpucluster.hooks import shipped

        shipped.configure(config, named, what="a cluster" if source else "a run to judge again")


def _check_cluster(config: pytest.Config) -> None:
    """Refuse a cluster that nobody knows before hundreds of tests are collected for it.

    What an ini file or a variable names is looked at only where a requirement is collected: a run of others' tests
    must not care.

    Raises:
        pytest.UsageError: there is no profile of that name, or its file cannot be read.
    """
    from pytest_gpucluster import profile

    told = settings.resolve(config)
    try:
        profile.find(told.cluster, told.search())
    except profile.ProfileError as error:
        raise pytest.UsageError(str(error)) from None


def _check_ini(config: pytest.Config) -> None:
    """Refuse a setting that is almost one of ours."""
    # Ours begin so; pytest itself only warns of others that nobody knows, or is silent.
    ours = [name for name in settings.ini_names(config) if name[:1] in "gG" or "cluster" in name.lower()]
    if not table.settings_known().issuperset(ours):
        from pytest_gpucluster.hooks import misspelt

        misspelt.check_ini(config, ours)


@pytest.hookimpl(trylast=True)
def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name each setting that is not default, with its source.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_report_header
    """
    told = almost_ours()
    if not settings.is_set(config):
        return told
    try:
        return [*settings.header_lines(settings.resolve(config).changed()), *told]
    except pytest.UsageError:
        # Told when a requirement is collected; a foreign run must not care.
        return told


def almost_ours() -> list[str]:
    """Return a line for each variable that is almost one of ours."""
    unknown = [name for name in os.environ if name[:3].upper() == "GPU"]
    if not unknown:
        return []
    from pytest_gpucluster.hooks import misspelt

    return list(misspelt.variables(unknown))
