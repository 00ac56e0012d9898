"""What the plugin does to projects that have nothing to do with it: nothing."""

import importlib
import os
import subprocess
import sys

import pytest

from pytest_gpucluster import plugin
from tests.inner import ALONE
from tests.plugin.conftest import ROOT

pytest_plugins = ["pytester"]

ENTRY_POINTS = "[pytest11]\ngpucluster = pytest_gpucluster.plugin\n"


@pytest.fixture
def foreign(pytester, monkeypatch, tmp_path):
    """A foreign project in an environment in which the plugin is installed."""
    for name in [*os.environ]:
        if name.startswith(("PYTEST_", "GPUCLUSTER_")):
            monkeypatch.delenv(name)
    site = tmp_path / "site"
    info = site / "pytest_gpucluster-0.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: pytest-gpucluster\nVersion: 0.0.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    return pytester


def _run(pytester, *args):
    command = (sys.executable, "-m", "pytest", *ALONE, *args)
    return pytester.run(*command)


def test_markers_of_the_same_name_keep_working(foreign):
    """A project with its own `health` and `gang` markers and fixtures runs as it did, strictly."""
    (foreign.path / "pytest.toml").write_text(
        '[pytest]\nstrict = true\nfilterwarnings = ["error"]\nmarkers = ["health: ours", "gang(n): ours too"]\n',
        encoding="utf-8",
    )
    foreign.makepyfile(
        """
        import pytest

        @pytest.fixture
        def settle():
            return 42

        @pytest.mark.health
        @pytest.mark.gang(3)
        def test_ours(settle, request):
            assert settle == 42
            assert request.node.get_closest_marker("gang").args == (3,)

        def test_other():
            pass
        """
    )
    result = _run(foreign, "-m", "health and gang")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.no_fnmatch_line("*gpucluster:*")
    assert result.stderr.str() == ""
    assert not (foreign.path / "reports").exists()


@pytest.mark.parametrize("form", [["--cluster=theirs"], ["--cluster", "theirs"]])
def test_a_project_with_an_option_of_the_same_name_keeps_it(foreign, form):
    """A conftest file may have a `--cluster` of its own, which then is its own alone."""
    foreign.makeconftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--cluster", default="none", help="ours")
        """
    )
    foreign.makepyfile(
        """
        def test_ours(request):
            assert request.config.getoption("--cluster") == request.config.getoption("cluster") == "theirs"
        """
    )
    result = _run(foreign, *form)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*gpucluster:*")
    assert result.stderr.str() == ""


@pytest.mark.parametrize("order", ["aa_theirs", "zz_theirs"])
def test_an_installed_plugin_with_an_option_of_the_same_name_keeps_it(foreign, order, monkeypatch):
    """Whichever of the two is loaded first, the other plugin has the name."""
    foreign.makepyfile(
        **{
            order: """
            def pytest_addoption(parser):
                parser.getgroup("theirs").addoption("--cluster", default="none", help="theirs")
            """,
            "test_ours": """
            def test_ours(request):
                assert request.config.getoption("--cluster") == "x"
            """,
        }
    )
    plugins = (
        ["-p", order, "-p", "gpucluster"] if order.startswith("aa") else ["-p", "gpucluster", "-p", order]
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ["PYTHONPATH"], str(foreign.path)]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = foreign.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugins, "--cluster=x")
    result.assert_outcomes(passed=1)


def test_broken_settings_of_ours_do_not_touch_a_foreign_run(foreign, monkeypatch):
    """Variables left in the environment are nobody's problem until a requirement is collected."""
    monkeypatch.setenv("GPUCLUSTER_CLUSTER", "nonesuch")
    monkeypatch.setenv("GPUCLUSTER_KEEP", "perhaps")
    foreign.makepyfile("def test_ours(): pass")
    for workers in ("-n0", "-n2"):
        assert _run(foreign, workers).ret == 0
    assert not (foreign.path / "reports").exists()


HEAVY = {
    "kubernetes",
    "aiohttp",
    "cryptography",
    "pydantic",
    "jinja2",
    "torch",
    "yaml",
    "urllib3",
    "filelock",
}
OWN = ("hooks", "plain", "requirement", "fixtures", "plugin")


def test_nothing_heavy_is_imported(foreign, monkeypatch):
    """The plugin costs a foreign run its hook modules and not one of its dependencies, to the end of the run."""
    foreign.makepyfile(
        """
        import atexit, pathlib, sys

        def test_ours():
            atexit.register(lambda: pathlib.Path("imported.txt").write_text(" ".join(sys.modules)))
        """
    )
    # Other installed plugins import what they like.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    _run(foreign, "-p", "gpucluster").assert_outcomes(passed=1)
    imported = set((foreign.path / "imported.txt").read_text().split())
    assert not HEAVY & imported
    ours = {name for name in imported if name.startswith("pytest_gpucluster.")}
    assert ours
    assert not {name for name in ours if name.split(".")[1] not in OWN}


def test_sigterm_keeps_its_default_in_a_foreign_run(foreign):
    """SIGTERM ends a foreign run as it always did."""
    foreign.makepyfile("import os, signal\n\ndef test_ours(): os.kill(os.getpid(), signal.SIGTERM)\n")
    assert _run(foreign).ret == -15


def test_the_plugin_loads_by_its_entry_point(foreign):
    """An installed plugin is found by pytest, and `-p no:gpucluster` turns it off."""
    assert "--cluster=NAME" in _run(foreign, "--help").stdout.str()
    assert "--cluster=NAME" not in _run(foreign, "--help", "-p", "no:gpucluster").stdout.str()


def test_public_names_are_imported_when_first_used():
    """Importing the package imports no part of it that is heavy, and every public name can be had."""
    code = (
        "import sys, pytest_gpucluster as p; "
        "assert not {'pydantic', 'kubernetes', 'yaml'} & set(sys.modules); "
        "assert callable(p.requirement); "
        "from pytest_gpucluster.requirement import REGISTRY; from pytest_gpucluster import requirement; "
        "assert callable(requirement); "
        "[getattr(p, name) for name in p.__all__]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_every_hook_of_the_hook_modules_is_gathered():
    """A hook that is written in a hook module and not gathered by the entry point would never run."""
    modules = [importlib.import_module(f"pytest_gpucluster.hooks.{name}") for name in
               ("collection", "interrupted", "options", "reporting", "runtest")]  # fmt: skip
    hooks = {
        name: getattr(module, name)
        for module in modules
        for name in vars(module)
        if name.startswith("pytest_")
    }
    hooks.pop("pytest_gpucluster", None)
    assert {name: getattr(plugin, name, None) for name in hooks} == hooks
    assert {name for name in plugin.__all__ if name.startswith("pytest_")} == set(hooks)
