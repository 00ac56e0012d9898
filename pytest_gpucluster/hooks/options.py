"""Hooks around options: declare them, register markers, print the header."""

import copy
from collections.abc import Generator

import pytest

from pytest_gpucluster.hooks import needs, settings
from pytest_gpucluster.requirement import AREAS, Level

LEVEL_MEANINGS = {
    Level.MUST: "a requirement that the cluster MUST meet",
    Level.SHOULD: "a requirement that the cluster SHOULD meet",
    Level.CONTROL: "shows that the detector sees the documented failure on this very cluster",
}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare options and ini settings.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_addoption
    """
    settings.register(parser)
    if getattr(pluginmanager, "_conftest_plugins", ()):
        # Loaded by a conftest file: the hook below was called before.
        settings.claim(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Take the name `--cluster` where neither a plugin nor a conftest file has an option of that name.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_load_initial_conftests
    """
    kept = settings.without_claimed(args)
    if len(kept) < len(args):
        # Until it is claimed, the value of `--cluster NAME` would look like a path.
        known = parser.parse_known_args(kept, namespace=copy.copy(early_config.option))
        early_config.known_args_namespace.file_or_dir = known.file_or_dir
    result = yield
    settings.claim(parser)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register markers; add the hooks for xdist where it is present.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_configure
    """
    for name, meaning in AREAS.values():
        config.addinivalue_line("markers", f"{name}: gpucluster area: {meaning}")
    for level, meaning in LEVEL_MEANINGS.items():
        config.addinivalue_line("markers", f"{level.value}: gpucluster level: {meaning}")
    config.addinivalue_line("markers", "torch: gpucluster need: the payload of the scenario needs torch")
    config.addinivalue_line("markers", needs.HELP)
    config.addinivalue_line("markers", "smoke: gpucluster selection: a few rows that answer in seconds")
    if config.pluginmanager.hasplugin("xdist"):
        from pytest_gpucluster.hooks import workers

        workers.configure(config)


@pytest.hookimpl(trylast=True)
def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name each setting that is not default, with its source.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_report_header
    """
    if not settings.is_set(config):
        return []
    try:
        return list(settings.header_lines(settings.resolve(config).changed()))
    except pytest.UsageError:
        # Told when a requirement is collected; a foreign run must not care.
        return []
