"""Modules with requirements of a site's own are imported by file or name, as pytest would import them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_gpucluster.report import modules, suites
from pytest_gpucluster.requirement import REGISTRY
from tests.inner import QUIET

pytest_plugins = ["pytester"]

ROW = '''
import dataclasses

import pytest

from pytest_gpucluster import requirement
from pytest_gpucluster.requirement import Finding, Verdict
{imports}

@dataclasses.dataclass
class Scenario:
    name: str = "own"


pytestmark = pytest.mark.fabric


@requirement("{row}", level="must", scenario=Scenario(),
             judge=lambda evidence, given: Finding(Verdict.PASS, "-", "-"))
def test_it(settle):
    """A title.

    It MUST hold.
    """
    settle()
'''

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Give the writing of a site's test file; what is imported of it is forgotten with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(REGISTRY, "_by_id", {})
    monkeypatch.setattr(suites, "location", lambda: None)
    before = set(sys.modules)

    def make(name: str, row: str = "SITE-001", *, imports: str = "", text: str | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ROW.format(row=row, imports=imports) if text is None else text, encoding="utf-8")
        return path

    yield make
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def declared() -> list[tuple[str, str]]:
    """Return id and place of what was declared."""
    return [(row.id, row.where) for row in REGISTRY]


@pytest.mark.parametrize(
    ("file", "packages", "where"),
    [
        ("checks/test_own_site.py", [], "test_own_site:test_it"),
        ("checks_of_site/test_own_site.py", ["checks_of_site"], "checks_of_site.test_own_site:test_it"),
        ("a/own_b/c/test_own_site.py", ["a/own_b", "a/own_b/c"], "own_b.c.test_own_site:test_it"),
    ],
)
def test_a_file_gets_the_name_that_pytest_gives_it(
    write: Write, file: str, packages: list[str], where: str
) -> None:
    """So that what it declares is the same test, wherever it was imported first; once is enough."""
    for package in packages:
        write(f"{package}/__init__.py", text="")
    path = write(file)
    suites.load_suites([file])
    suites.load_suites([str(path), f"./{Path(file).parent}/../{Path(file).parent.name}/{path.name}"])
    assert declared() == [("SITE-001", where)]


def test_pytest_names_it_alike(write: Write, pytester: pytest.Pytester) -> None:
    """The name is pytest's own: the record's `where` and the module's are equal."""
    del write
    pytester.mkpydir("site_checks")
    file = pytester.path / "site_checks" / "test_rack.py"
    file.write_text(ROW.format(row="SITE-007", imports=""), encoding="utf-8")
    pytester.runpytest_inprocess("--collect-only", "-q", *QUIET)
    by_pytest = declared()
    REGISTRY._by_id.clear()
    for name in ("site_checks.test_rack", "site_checks"):
        sys.modules.pop(name, None)
    modules.load(str(file))
    assert by_pytest == declared() == [("SITE-007", "site_checks.test_rack:test_it")]


def test_what_lies_beside_the_file_is_found(write: Write) -> None:
    """Helpers of the site are imported by name, relatively, and from the present folder."""
    write("checks/own_scenarios.py", text="ONE = 1\n")
    write("own_root.py", text="TWO = 2\n")
    write(
        "checks/test_own_a.py", "SITE-001", imports="from own_scenarios import ONE\nfrom own_root import TWO"
    )
    write("own_pkg/__init__.py", text="")
    write("own_pkg/helpers.py", text="THREE = 3\n")
    write("own_pkg/test_own_b.py", "SITE-002", imports="from .helpers import THREE")
    suites.load_suites(["checks/test_own_a.py", "own_pkg/test_own_b.py"])
    assert [row for row, _ in declared()] == ["SITE-001", "SITE-002"]


def test_a_dotted_name_is_found_from_the_present_folder(write: Write) -> None:
    """As with `python -m`; a file that was imported by it is not imported again."""
    write("own_dotted/checks/test_own.py")
    suites.load_suites(["own_dotted.checks.test_own", "own_dotted/checks/test_own.py"])
    assert declared() == [("SITE-001", "own_dotted.checks.test_own:test_it")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import no_such_module_of_anybody\n",
            "ModuleNotFoundError: No module named 'no_such_module_of_anybody'",
        ),
        ("def broken(:\n", "SyntaxError: "),
        ("import pytest\npytest.importorskip('no_such_module_of_anybody')\n", "Skipped: could not import"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        (ROW.format(row="SITE-1", imports=""), "test_own_bad:test_it: malformed requirement id 'SITE-1'"),
        (ROW.format(row="GANG-001", imports=""), "GANG-001 names no document"),
    ],
)
def test_a_module_that_fails_is_named_with_its_error(write: Write, text: str, said: str) -> None:
    """Whatever its code does; the name is free again for the next attempt."""
    write("test_own_bad.py", text=text)
    with pytest.raises(suites.SuiteError, match=r"^cannot import test_own_bad\.py: ") as caught:
        suites.load_suites(["test_own_bad.py"])
    assert said in str(caught.value)
    assert "test_own_bad" not in sys.modules


def test_ctrl_c_is_not_an_error_of_the_module(write: Write) -> None:
    """Who interrupts the import ends the command."""
    write("test_own_bad.py", text="raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        modules.load("test_own_bad.py")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("checks/test_own_sit.py", "no such file; did you mean 'checks/test_own_site.py'?"),
        ("nowhere/x.py", "module 'nowhere/x.py': no such file"),
        ("checks/", "is a folder: name its files"),
        ("no_such_module_of_anybody.test_x", "ModuleNotFoundError"),
    ],
)
def test_a_module_that_is_not_there_is_one_line(write: Write, told: str, said: str) -> None:
    """With the nearest name beside it."""
    write("checks/test_own_site.py")
    with pytest.raises(suites.SuiteError) as caught:
        suites.load_suites([told])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_files_of_one_name_are_told_apart_by_dotted_names(write: Write) -> None:
    """The second is refused with what to do, and can then be named."""
    write("own_racks/a/test_own_twin.py", "SITE-001")
    write("own_racks/b/test_own_twin.py", "SITE-002")
    with pytest.raises(suites.SuiteError, match="another module is also called test_own_twin"):
        suites.load_suites(["own_racks/a/test_own_twin.py", "own_racks/b/test_own_twin.py"])
    suites.load_suites(["own_racks.b.test_own_twin"])
    assert [row for row, _ in declared()] == ["SITE-001", "SITE-002"]


def test_an_id_that_is_taken_is_named(write: Write) -> None:
    """Two tests of a site with one id: both are named."""
    write("test_own_one.py")
    write("test_own_two.py")
    with pytest.raises(
        suites.SuiteError, match="SITE-001 is declared twice: test_own_one:test_it and test_own_two"
    ):
        suites.load_suites(["test_own_one.py", "test_own_two.py"])
