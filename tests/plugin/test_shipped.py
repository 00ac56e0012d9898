"""The shipped suites in a run that names a cluster and no path; small ones of a test's own stand for them."""

import sys

import pytest

from pytest_gpucluster.hooks import shipped
from pytest_gpucluster.report import suites
from tests.plugin.conftest import HEAD, HERE
from tests.plugin.test_options import KUBECONFIG, PROFILE

pytest_plugins = ["pytester"]

NAME = "shipped_rows"
ROW = '''
@requirement("{id}", documents="R", scenario=calm, judge=passes, level="must")
def test_{name}(settle):
    """Title.

    It MUST hold.
    """
    settle()
'''
INI = '[pytest]\nstrict = true\nfilterwarnings = ["error"]\n'
ADDED = "gpucluster: a cluster but no path is named, so *"
PROD_A = "*on cluster prod-a (option --cluster)"


@pytest.fixture
def here(project, monkeypatch, tmp_path_factory):
    """An empty folder with a profile `prod-a`, beside suites of two rows."""
    for name in ("pytest.toml", "doubles.py", "conftest.py"):
        (project.pytester.path / name).unlink()
    clusters = project.pytester.mkdir("clusters")
    (clusters / "prod-a.yaml").write_text(PROFILE, encoding="utf-8")
    (clusters / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    root = tmp_path_factory.mktemp("installed")
    (root / "doubles.py").write_text((HERE / "doubles.py").read_text(encoding="utf-8"), encoding="utf-8")
    for area, row in (("gang", "GANG-001"), ("fabric", "FAB-001")):
        folder = root / NAME / area
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        text = HEAD + ROW.format(id=row, name=area)
        (folder / f"test_{area}.py").write_text(text, encoding="utf-8")
    (root / NAME / "__init__.py").write_text("import doubles\n\ndoubles.install()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(root)
    monkeypatch.setattr(shipped, "PACKAGE", NAME)
    monkeypatch.setattr(suites, "location", lambda: (root / NAME, NAME))
    yield project
    for name in [name for name in sys.modules if name.partition(".")[0] in {NAME, "doubles"}]:
        del sys.modules[name]


def ini(project, *lines):
    """Write an ini file with these lines."""
    (project.pytester.path / "pytest.toml").write_text(INI + "\n".join(lines) + "\n", encoding="utf-8")


def own(project, folder="."):
    """Write a test of the project's own."""
    at = project.pytester.path / folder
    at.mkdir(exist_ok=True)
    (at / "test_own.py").write_text("def test_own(): pass\n", encoding="utf-8")


def collected(project, *args):
    """Return the names of the tests that a run collects, and check that nothing else is wrong."""
    result = project.run(*args, "--co", "-q")
    assert result.ret in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}, result.stdout.str()
    assert result.stderr.str() == ""
    return sorted(line.rpartition("::")[2] for line in result.stdout.lines if "::" in line)


def test_in_an_empty_folder_the_card_s_command_runs_the_rows_that_it_selects(here):
    """`pytest --cluster=prod-a -m fabric` runs them, and one line says why and how they are left out."""
    result = here.run("--cluster=prod-a", "-m", "fabric")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines_random([f"{ADDED}'.'*gpucluster_suites = false*", PROD_A])
    assert [row["id"] for row in here.report()["requirements"]] == ["FAB-001"]


@pytest.mark.parametrize("by", ["option", "value", "long", "ini", "environment"])
def test_whoever_names_the_cluster_names_the_suites(here, by, monkeypatch):
    """Option, ini and variable are the same."""
    args = {
        "option": ["--cluster=prod-a"],
        "value": ["--cluster", "prod-a"],
        "long": ["--gpucluster-cluster=prod-a"],
    }
    if by == "ini":
        ini(here, 'gpucluster_cluster = "prod-a"')
    if by == "environment":
        monkeypatch.setenv("GPUCLUSTER_CLUSTER", "prod-a")
    assert collected(here, *args.get(by, [])) == ["test_fabric", "test_gang"]


def test_without_a_cluster_or_with_a_path_pytest_collects_what_it_always_did(here):
    """Paths, node ids, modules, and a path among the options of the ini file keep their meaning."""
    own(here)
    assert collected(here) == ["test_own"]
    for path in (".", "test_own.py", "test_own.py::test_own"):
        words = path.split()
        assert collected(here, "--cluster=prod-a", *words) == ["test_own"]
    assert collected(here, "--cluster=prod-a", "--pyargs", f"{NAME}.gang") == ["test_gang"]
    ini(here, 'addopts = ["test_own.py"]')
    assert collected(here, "--cluster=prod-a") == ["test_own"]


def test_testpaths_are_run_beside_the_suites(here):
    """Tests that the project names are run too, those that it does not name are not; the header says which."""
    own(here)
    own(here, "checks")
    ini(here, 'testpaths = ["che*"]')
    result = here.run("--cluster=prod-a")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"{ADDED}beside testpaths*"])
    assert collected(here) == ["test_own"]
    ini(here)
    result = here.run("--cluster=prod-a")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"{ADDED}no test of the present folder*"])


def test_a_module_of_testpaths_stays_one_and_a_folder_is_not_taken_for_a_module(here):
    """`--pyargs` reads testpaths as modules; without it a folder that has the name of a module is that folder."""
    own(here, "json")
    ini(here, 'testpaths = ["json"]')
    assert collected(here, "--cluster=prod-a") == ["test_fabric", "test_gang", "test_own"]
    ini(here, f'testpaths = ["{NAME}.gang"]')
    assert collected(here, "--cluster=prod-a", "--pyargs", "-k", "test_gang") == ["test_gang"]


def test_the_switch_leaves_the_suites_out(here):
    """`gpucluster_suites = false`, in the ini file or by -o."""
    own(here)
    assert collected(here, "--cluster=prod-a", "-o", "gpucluster_suites=false") == ["test_own"]
    ini(here, "gpucluster_suites = false")
    result = here.run("--cluster=prod-a")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line(ADDED)


def test_a_variable_of_a_shell_takes_no_project_s_tests_away(here, monkeypatch):
    """It was not exported for a project with tests of its own, unless that says so."""
    monkeypatch.setenv("GPUCLUSTER_CLUSTER", "prod-a")
    own(here, "deep")
    assert collected(here) == ["test_own"]
    ini(here, 'testpaths = ["deep"]')
    assert collected(here) == ["test_own"]
    monkeypatch.chdir(here.pytester.mkdir("docs"))
    assert collected(here) == []
    ini(here)
    assert collected(here) == []
    monkeypatch.chdir(here.pytester.path)
    ini(here, 'testpaths = ["deep"]', "gpucluster_suites = true")
    assert collected(here) == ["test_fabric", "test_gang", "test_own"]
    # What pytest would not look at is no test.
    ini(here, 'norecursedirs = ["deep"]')
    assert collected(here) == ["test_fabric", "test_gang"]


def test_in_a_subfolder_profiles_are_found_upwards_to_the_root_of_the_project(here, monkeypatch):
    """`testpaths` counts at the root only, as ever; the suites are run, and the nearest profile is used."""
    ini(here, 'testpaths = ["checks"]')
    own(here, "checks")
    below = here.pytester.mkdir("results") / "today"
    below.mkdir()
    monkeypatch.chdir(below)
    result = here.run("--cluster=prod-a")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([PROD_A])
    (below.parent / "prod-a.yaml").write_text(PROFILE.replace("training", "mine"), encoding="utf-8")
    result = here.run("--cluster=prod-a")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *results/prod-a.yaml:2: kubeconfig file *results/kubeconfig does not exist"]
    )


@pytest.mark.parametrize(
    "habit",
    [
        'python_files = ["check_*.py"]',
        'python_files = ["gang/*.py", "fabric/test_*.py"]',
        'python_functions = ["check_*"]',
        'addopts = ["--import-mode=importlib"]',
    ],
)
def test_habits_of_the_project_do_not_leave_the_rows_out(here, habit):
    """However a project calls its own tests, the suites are collected."""
    ini(here, habit)
    assert collected(here, "--cluster=prod-a") == ["test_fabric", "test_gang"]


THEIRS = 'def pytest_addoption(parser):\n    parser.addoption("--cluster", default="x")\n'


def test_where_the_name_is_taken_only_the_long_one_adds_the_suites(here):
    """Another project's `--cluster` says nothing of ours."""
    own(here)
    here.pytester.makeconftest(THEIRS)
    for form in (["--cluster=prod-a"], ["--cluster", "prod-a"]):
        assert collected(here, *form) == ["test_own"]
    assert collected(here, "--cluster=x", "--gpucluster-cluster=prod-a") == ["test_fabric", "test_gang"]


def one_line(result, text):
    """Check that a run ended with one line of error and ran nothing."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([text])
    assert len([line for line in result.stderr.lines if line.strip()]) == 1


def test_a_cluster_that_is_unknown_is_one_line(here):
    """With the known ones and the nearest."""
    one_line(
        here.run("--cluster=prod-b"),
        "ERROR: --cluster: unknown cluster 'prod-b'; did you mean 'prod-a'? (allowed: embedded, host, kind, prod-a)*",
    )
    assert here.log == []


def test_a_cluster_that_is_unknown_is_told_before_anything_is_collected(here):
    """A mistake in the command costs no collection; a variable that names it disturbs no run of others' tests."""
    here.pytester.makepyfile(test_slow="raise SystemExit('was collected')")
    result = here.run("--cluster=prod-b", ".")
    one_line(result, "ERROR: --cluster: unknown cluster 'prod-b'*")
    assert "collected" not in result.stdout.str()


def test_an_installation_without_the_suites_is_one_line(here, monkeypatch):
    """It says what can be done; a path, or the switch, needs none."""
    own(here)
    monkeypatch.setattr(suites, "location", lambda: None)
    one_line(
        here.run("--cluster=prod-a"),
        "ERROR: a cluster but no path is named, and * has no suites: install it*",
    )
    assert collected(here, "--cluster=prod-a", ".") == ["test_own"]
    assert collected(here, "--cluster=prod-a", "-o", "gpucluster_suites=false") == ["test_own"]
    assert here.run("--cluster=prod-a", "--help").ret == 0


def test_a_package_of_the_project_that_hides_the_suites_is_one_line(here):
    """A checkout calls its suites `suites`, and so may a project."""
    folder = here.pytester.mkdir(NAME)
    (folder / "__init__.py").touch()
    one_line(here.run("--cluster=prod-a"), f"ERROR: the package *{NAME} has the name of the suites in *")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "gpucluster_suite = false",
            "gpucluster_suite: unknown setting; did you mean 'gpucluster_suites'? (allowed: *",
        ),
        (
            'gpucluster_clutser = "x"',
            "gpucluster_clutser: unknown setting; did you mean 'gpucluster_cluster'? *",
        ),
        (
            "gpuclutser_suites = false",
            "gpuclutser_suites: unknown setting; did you mean 'gpucluster_suites'? *",
        ),
        ('gpucluster_suites = "perhaps"', "*gpucluster_suites*expects a bool, got str: 'perhaps'"),
        ("gpucluster_cluster = 3", "*gpucluster_cluster*expects a string, got int: 3"),
        ('gpucluster_keep = "x"', "*gpucluster_keep*expects a bool, got str: 'x'"),
    ],
)
def test_a_wrong_setting_is_one_line(here, line, told):
    """A switch that is misspelt would switch nothing."""
    ini(here, line)
    result = here.run("--cluster=embedded" if "cluster =" not in line else "-rA")
    one_line(result, f"ERROR: *pytest.toml: {told}")


def test_a_wrong_value_on_the_command_line_is_one_line(here):
    """`-o` says where it stands, whose setting it is and what is allowed."""
    told = "ERROR: -o: gpucluster_suites: invalid truth value 'maybe', allowed are true and false"
    one_line(here.run("--cluster=embedded", "-o", "gpucluster_suites=maybe"), told)


def test_settings_of_others_are_theirs(here):
    """A setting that somebody declares is known, and one like none of ours is pytest's to tell."""
    own(here)
    here.pytester.makeconftest(
        'def pytest_addoption(parser):\n    parser.addini("gpucluster_suite", "theirs")\n'
    )
    path = here.pytester.path / "pytest.toml"
    path.write_text('[pytest]\ngpucluster_suite = "x"\n', encoding="utf-8")
    assert collected(here) == ["test_own"]
    path.write_text('[pytest]\ngpu_clusters = "x"\n', encoding="utf-8")
    here.run().assert_outcomes(passed=1, warnings=1)


@pytest.mark.parametrize("named", ["option", "ini", "variable"])
def test_a_run_that_is_judged_again_names_the_suites_as_a_cluster_does(here, monkeypatch, named):
    """Its evidence is of their rows; a variable leaves out what a project with tests was not meant for."""
    (here.pytester.path / "old" / "evidence").mkdir(parents=True)
    args = ["--collect-only"]
    if named == "option":
        args.append("--gpucluster-reuse=old")
    elif named == "ini":
        ini(here, 'gpucluster_reuse = "old"')
    else:
        monkeypatch.setenv("GPUCLUSTER_REUSE", "old")
    result = here.run(*args)
    result.stdout.fnmatch_lines(
        ["gpucluster: a run to judge again but no path is named, so the shipped suites are run*"]
    )
    assert "Rows test_gang.py" in result.stdout.str()
