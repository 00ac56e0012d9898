"""The card's command in processes of their own: with small suites in an installation, and with the real ones here."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.inner import QUIET
from tests.plugin.conftest import HEAD, HERE, PLUGIN, ROOT
from tests.plugin.test_options import KUBECONFIG, PROFILE
from tests.plugin.test_shipped import ROW

FAILS = ROW.replace("passes", "fails")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder in which the plugin is installed as from a wheel, with suites of three rows of which one fails."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "pytest_gpucluster"
    shutil.copytree(ROOT / "pytest_gpucluster", package, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / "pytest_gpucluster-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-gpucluster\nVersion: 0.0.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\ngpucluster = pytest_gpucluster.plugin\n")
    (folder / "doubles.py").write_text((HERE / "doubles.py").read_text())
    suites = package / "suites"
    suites.mkdir()
    (suites / "__init__.py").write_text("import doubles\n\ndoubles.install()\n")
    for area, row in (
        ("gang", ROW.format(id="GANG-001", name="gang")),
        ("fabric", FAILS.format(id="FAB-001", name="fabric")),
    ):
        (suites / area).mkdir()
        (suites / area / "__init__.py").touch()
        (suites / area / f"test_{area}.py").write_text(HEAD + row)
    (suites / "fabric" / "test_more.py").write_text(HEAD + ROW.format(id="FAB-002", name="more"))
    return folder


@pytest.fixture
def folder(tmp_path):
    """An empty folder with a profile."""
    clusters = tmp_path / "clusters"
    clusters.mkdir()
    (clusters / "prod-a.yaml").write_text(PROFILE)
    (clusters / "kubeconfig").write_text(KUBECONFIG)
    return tmp_path


def run(folder, *args, path=(), status=0, code=("-P", "-m", "pytest")):
    """Run pytest in a folder, and return what it says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GPUCLUSTER_"))}
    done = subprocess.run(
        [sys.executable, *code, *QUIET[:2], *QUIET[4:], *args],
        cwd=folder, env={**kept, "PYTHONPATH": os.pathsep.join(map(str, path))}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def names(said):
    """Return the names of the tests that a run listed, in order."""
    return [line.rpartition("::")[2] for line in said.splitlines() if "::" in line]


OWN = {"test_own.py": "def test_own(): assert False\n", "test_fine.py": "def test_fine(): pass\n"}


def test_each_way_to_select_finds_the_rows_of_an_installation(site, folder):
    """Listed, by name, without a cache, by workers, and the failed ones again: the project's tests and the rows."""
    ini = '[pytest]\nstrict = true\nfilterwarnings = ["error"]\ntestpaths = ["own"]\n'
    (folder / "pytest.toml").write_text(ini)
    (folder / "own").mkdir()
    for name, text in OWN.items():
        (folder / "own" / name).write_text(text)
    prod = ("--cluster=prod-a", "-q")
    listed = names(run(folder, *prod, "--co", path=[site]))
    assert listed == ["test_fine", "test_own", "test_gang", "test_fabric", "test_more"]
    said = run(folder, *prod, "-k", "FAB-002", "-p", "no:cacheprovider", path=[site])
    assert "1 passed, 4 deselected" in said
    said = run(folder, *prod, "-n", "2", path=[site], status=1)
    assert "2 failed, 3 passed" in said
    # pytest alone would leave the file of the red row out, since it lies outside the project.
    said = run(folder, *prod, "--lf", path=[site], status=1)
    assert "2 failed" in said
    assert "VIOLATION FAB-001" in said


def test_an_environment_inside_the_project_is_no_hindrance(site, folder):
    """Where pytest itself does not look, such as in .venv, the suites are found all the same, and nothing else."""
    inside = folder / ".venv" / "lib" / "site-packages"
    inside.parent.mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").touch()
    inside.symlink_to(site, target_is_directory=True)
    assert names(run(folder, "--cluster=prod-a", "--co", "-q", path=[inside])) == [
        "test_gang",
        "test_fabric",
        "test_more",
    ]


@pytest.fixture(scope="module")
def editable(tmp_path_factory):
    """A folder of packages with an editable installation of this checkout, and what its wheel holds."""
    out, into = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("editable")
    build = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, out], cwd=ROOT, check=True, timeout=120)
    with zipfile.ZipFile(next(out.glob("*.whl"))) as wheel:
        wheel.extractall(into)
    return into


IN_SITE = (
    "import site, sys; site.addsitedir(sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
)


def test_an_editable_installation_has_the_suites_of_the_checkout_under_both_names(editable, folder):
    """Installed are a path and no copies; the command and `--pyargs` collect each row once."""
    assert not list(editable.rglob("*.py"))
    ids = ("INV-001", "GANG-001")
    code = ("-P", "-c", IN_SITE, editable)
    for args in (
        ("--cluster=prod-a",),
        ("--pyargs", "pytest_gpucluster.suites.gang", "pytest_gpucluster.suites", "suites"),
    ):
        said = run(folder, *args, "-k", " or ".join(ids), "--co", "-q", code=code)
        assert len(names(said)) == len(ids), said


@pytest.mark.parametrize("below", [".", "tests/plugin"])
def test_in_the_checkout_its_own_suites_are_run(below):
    """At its root they are what `testpaths` names, elsewhere they are added: each row once."""
    said = run(
        ROOT / below, "--cluster=embedded", "-k", "GANG-001", "--co", "-q", "-p", "no:cacheprovider", *PLUGIN
    )
    assert names(said) == ["test_a_gang_that_fits_runs_whole"]


def test_both_names_of_the_suites_are_one_module():
    """What imports from them has the same scenarios, whichever name it uses."""
    script = (
        "import pytest_gpucluster.suites.scenarios as one, suites.scenarios as two, suites.gang.test_whole as three; "
        "from pytest_gpucluster.suites.gang import test_whole as four; assert one is two; assert three is four; "
        "import importlib.util as u; assert u.find_spec('pytest_gpucluster.suites.nosuch') is None"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            ("--cluster=embedded", "-k", "KUE-006"),
            "KUE-006 (Volcano behind Kueue: one admission, one gang) is not built",
        ),
        (("suites/gang", "-k", "GANG-001 or REF-001"), "is not among the collected requirements"),
    ],
    ids=["not built", "elsewhere"],
)
def test_a_row_that_is_not_built_is_told_from_one_that_is_elsewhere(args, line):
    """The catalogue knows rows that have no test yet."""
    said = run(ROOT, *args, "-q", "-p", "no:cacheprovider", *PLUGIN, status=4)
    (told,) = [each for each in said.splitlines() if each.startswith("ERROR")]
    assert line in told
