"""The shipped suites in a run that names a cluster and no path."""

import fnmatch
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from pytest_gpucluster.hooks import settings, state, table
from pytest_gpucluster.report import suites

PATTERN = "test_*.py"
"""The modules of the suites, whatever the project around them calls its own."""

PACKAGE = "pytest_gpucluster.suites"
"""Name of the suites, in a checkout too (`plain.checkout`)."""


def configure(config: pytest.Config, source: str, *, what: str = "a cluster") -> None:
    """Add the suites to what the run collects, unless it was told a path or to leave them out.

    Args:
        config: pytest's configuration.
        source: who named the cluster, or the run that is judged again.
        what: which of them.

    Raises:
        pytest.UsageError: an installation without the suites, or a project that hides them.
    """
    if config.args_source is pytest.Config.ArgsSource.ARGS or not _wanted(config, source):
        return
    folder = _folder(config)
    beside = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    own = _own(config) if beside else []
    if any(folder.is_relative_to(Path(path).resolve()) for path in own):
        # In the checkout itself: already there.
        return
    _add(config, own, folder, beside=beside, what=what)


def configure_worker(config: pytest.Config, args: Sequence[str]) -> None:
    """Collect in a worker what its controller would: pytest alone would decide anew, and not the same."""
    _add(config, args[:-1], _folder(config), beside=len(args) > 1)


def _add(
    config: pytest.Config, own: Sequence[str], folder: Path, *, beside: bool, what: str = "a cluster"
) -> None:
    config.args = [*own, PACKAGE]
    config.pluginmanager.register(Shipped(config, folder, beside=beside, what=what), state.SUITES)


class Shipped:
    """Tells of the added suites, and collects them although the project around them has habits of its own."""

    def __init__(self, config: pytest.Config, folder: Path, *, beside: bool, what: str) -> None:
        """Take the folder of the suites, whether the project's own tests are collected too, and what is named."""
        self._folder = folder
        self._what = what
        self._beside = beside
        self._patterns = config.getini("python_files")

    def pytest_report_header(self) -> str:
        """Say what was added and how to leave it out."""
        run = (
            "the shipped suites are run beside testpaths"
            if self._beside
            else "the shipped suites are run, but no test of the present folder"
        )
        return (
            f"gpucluster: {self._what} but no path is named, so {run} "
            f"(to leave the suites out, name a path such as '.', or set {table.SUITES} = false)"
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Let pytest take the name of the suites for a package, and `--lf` look into their modules.

        With a path pytest would also collect the folders above it, with their conftest files.

        As soon as one failed test is found, pytest skips every file that has none, and it looks for those below the
        root of the project only: a red row would not be repeated.
        """
        # Not before: workers, which get the options, would read `testpaths` as packages too.
        session.config.option.pyargs = True
        last_failed = session.config.pluginmanager.get_plugin("lfplugin")
        paths = getattr(last_failed, "_last_failed_paths", None)
        if paths is not None:
            paths.update(self._folder.rglob(PATTERN))

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> "Rows | None":
        """Collect a module of the suites that the project's `python_files` leaves out."""
        if not fnmatch.fnmatch(file_path.name, PATTERN) or not file_path.is_relative_to(self._folder):
            return None
        if _takes(file_path, self._patterns):
            # pytest asks for a module itself.
            return None
        return self.pytest_pycollect_makemodule(file_path, parent)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> "Rows | None":
        """Make the collector of a module of the suites."""
        if not module_path.is_relative_to(self._folder):
            return None
        rows: Rows = Rows.from_parent(parent, path=module_path)
        return rows


class Rows(pytest.Module):
    """A module of the suites, which names its tests as it does whatever the project's `python_functions` say."""

    def funcnamefilter(self, name: str) -> bool:
        """Report whether a function of this name is a test."""
        return name.startswith("test_")


def _wanted(config: pytest.Config, source: str) -> bool:
    told = settings.ini(config, table.SUITES)
    if told is not None:
        return bool(told)
    # A variable names the cluster for a whole shell: a project with tests of its own was not meant.
    return not source.startswith("environment") or not (config.getini("testpaths") or _has_tests(config))


def _has_tests(config: pytest.Config) -> bool:
    """Report whether pytest would find a test module in the project, or below the present folder if that is in none."""
    files, folders = config.getini("python_files"), config.getini("norecursedirs")
    for folder, inside, names in os.walk(config.rootpath if config.inipath else config.invocation_params.dir):
        inside[:] = [name for name in inside if not _takes(Path(folder, name), folders)]
        if any(name.endswith(".py") and _takes(Path(folder, name), files) for name in names):
            return True
    return False


def _takes(path: Path, patterns: Iterable[str]) -> bool:
    """Report whether one of the patterns is that of a path, read as pytest reads them."""
    return any(
        fnmatch.fnmatch(str(path), pattern if pattern.startswith("/") else f"*/{pattern}")
        if "/" in pattern
        else fnmatch.fnmatch(path.name, pattern)
        for pattern in patterns
    )


def _folder(config: pytest.Config) -> Path:
    found = suites.location()
    if found is None:
        raise pytest.UsageError(
            "a cluster but no path is named, and this installation of pytest-gpucluster has no suites: install it "
            f"again, name a path, or set {table.SUITES} = false"
        )
    folder, package = found
    hiding = config.rootpath / package / "__init__.py"
    # Installed, they have the name of a part of this package, which no other can hide.
    if "." not in package and hiding.is_file() and not folder.is_relative_to(hiding.parent.resolve()):
        raise pytest.UsageError(
            f"the package {hiding.parent} has the name of the suites in {folder}, which therefore cannot be "
            "imported: install pytest-gpucluster other than from a checkout, or name a path"
        )
    return folder


def _own(config: pytest.Config) -> list[str]:
    """Return what `testpaths` names, as pytest took it; paths are made absolute, so that none is taken for a module."""
    if config.option.pyargs:
        return config.args
    return [str(config.invocation_params.dir / arg) for arg in config.args]
