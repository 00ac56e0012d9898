"""Tests that a site writes of its own: how they are found, priced, refused; without a cluster of any kind."""

import pytest

pytest_plugins = ["pytester"]

FIXTURES = ("gpu_cluster", "gpu_namespace", "stage", "run_payload", "scenario_evidence")


def of_fixture(name: str, body: str = "pass", mark: str = "", prefix: str = "") -> str:
    """Return a test that asks for a fixture."""
    return f"import pytest\n\n{mark}\n{prefix}def test_it({name}):\n    {body}\n"


@pytest.mark.parametrize("name", FIXTURES)
def test_a_fixture_without_a_cluster_is_one_line(project, name):
    """Nothing is started, and the line says what to do; other tests of the project are not disturbed."""
    project.write(test_own=of_fixture(name) + "\n\ndef test_other():\n    pass\n")
    result = project.run()
    result.assert_outcomes(errors=1, passed=1)
    line = f"{name}: no cluster is named: name one with --cluster (embedded, host, kind, or a profile)"
    assert [each for each in result.outlines if each == line], result.outlines
    assert "Traceback" not in str(result.stdout)
    assert project.log == []
    assert not (project.pytester.path / "reports").exists()


@pytest.mark.parametrize("name", ["stage", "run_payload", "scenario_evidence"])
def test_an_async_test_is_one_line(project, name):
    """Waits block: an async test would stand still."""
    project.write(test_own=of_fixture(name, prefix="async "))
    result = project.run("--cluster=embedded")
    result.stdout.fnmatch_lines([f"test_own.py::test_it is async: {name} waits by blocking*plain function"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_module_with_a_fixture_of_that_name_keeps_it(project):
    """The module's own fixture is used, no cluster is touched, no run is made."""
    project.write(
        test_own="""
        import pytest

        @pytest.fixture
        def stage():
            return "mine"

        def test_it(stage):
            assert stage == "mine"
        """
    )
    project.run().assert_outcomes(passed=1)
    assert project.log == []
    project.rows("GANG-001 calm passes")
    result = project.run("--cluster=embedded")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["gpucluster: test_own.py uses its own fixture stage, not the plugin's"])


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        (
            "needs('fabirc')",
            "*needs names an unknown capability 'fabirc'; did you mean 'fabric'? (allowed: fabric,*",
        ),
        (
            "needs(node=2)",
            "*needs has no 'node'; did you mean 'nodes'? (allowed: alone, gpus, nodes, seconds)*",
        ),
        ("needs(nodes='2')", "*needs(nodes='2') must be a whole number, 0 or more*"),
        ("needs(nodes=True)", "*needs(nodes=True) must be a whole number, 0 or more*"),
        ("needs(gpus=-1)", "*needs(gpus=-1) must be a whole number, 0 or more*"),
        ("needs(gpus=1, seconds=float('nan'))", "*needs(seconds=nan) must be seconds, 0 or more*"),
        ("needs(gpus=4)", "*needs(gpus=4) does not give a duration: add seconds=*"),
        ("needs(alone=1)", "*needs(alone=1) must be True or False*"),
    ],
)
def test_a_mark_that_is_written_wrongly_is_one_line(project, mark, line):
    """Before anything is made; the line names the test."""
    project.write(test_own=of_fixture("stage", mark=f"@pytest.mark.{mark}"))
    result = project.run("--cluster=embedded")
    result.stderr.fnmatch_lines([f"*test_own.py::test_it: {line.lstrip('*')}"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert project.log == []


def test_a_mark_that_is_written_wrongly_is_one_line_with_workers(project):
    """The controller tells what a worker found."""
    project.write(test_own=of_fixture("stage", mark="@pytest.mark.needs('fabirc')"))
    result = project.run_apart("--cluster=embedded", "-n2")
    result.stdout.fnmatch_lines(["ERROR: test_own.py::test_it: needs names an unknown capability 'fabirc'*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_foreign_mark_of_that_name_is_nobody_elses_business(project):
    """Without a cluster, and without a fixture of ours, `needs` may mean what it likes."""
    project.write(test_own=of_fixture("tmp_path", mark="@pytest.mark.needs('a database', 7)"))
    project.run().assert_outcomes(passed=1)


def test_the_plan_counts_what_tests_take_and_touches_nothing(project):
    """Price by the mark; a test without one says so."""
    project.write(
        test_own=of_fixture("stage", mark="@pytest.mark.needs('slots', nodes=2, gpus=8, seconds=30)")
        + "\n\ndef test_free(stage):\n    pass\n"
        + "\n\n@pytest.mark.needs()\ndef test_modest(stage):\n    pass\n"
    )
    project.rows("GANG-002 greedy passes")
    result = project.run("--cluster=embedded", "--gpucluster-plan")
    result.stdout.fnmatch_lines(
        [
            "*1 requirement from 1 scenario and 3 tests of the site's own, about 39 s, 280 GPU-seconds",
            "site test test_own.py::test_it: test_it",
            "  needs         slots, 2 GPU nodes, 8 GPUs",
            "  costs         about 30 s, 240 GPU-seconds",
            "site test test_own.py::test_free: test_free",
            "  needs         not declared (mark needs)",
            "site test test_own.py::test_modest: test_modest",
            "  needs         nothing",
        ]
    )
    assert project.log == []


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_budget_leaves_out_what_is_dear_and_what_has_no_price(project, workers):
    """Both are named, recorded as not run, and the run is red; nothing of them was run."""
    project.write(
        test_own=of_fixture(
            "stage", mark="@pytest.mark.needs(gpus=8, seconds=30)", body="raise AssertionError"
        )
        + "\n\ndef test_free(stage):\n    raise AssertionError\n"
    )
    project.rows("GANG-001 calm passes")
    result = project.run_apart("--cluster=embedded", "--gpucluster-max-gpu-seconds=100", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "test_own.py::test_it: not run: budget: * takes 240 GPU-seconds, 100 of 100 are left*",
            "test_own.py::test_free: not run: budget: the test does not declare its needs*",
        ]
    )
    told = {each["nodeid"]: (each["outcome"], each["text"][:7]) for each in project.report()["site_tests"]}
    assert told == {
        "test_own.py::test_it": ("not_run", "budget:"),
        "test_own.py::test_free": ("not_run", "budget:"),
    }


def test_fixtures_are_listed_with_what_they_give(project):
    """`pytest --fixtures` reads well: one line each, and their attributes."""
    result = project.run("--fixtures")
    for name in FIXTURES:
        result.stdout.fnmatch_lines([f"{name}*-- *pytest_gpucluster*"])
    result.stdout.fnmatch_lines(["*A stage on which a test acts on the cluster*"])


def test_all_rows_may_be_mixed_with_own_tests_of_other_kinds(project):
    """A plain test of the project stays plain: it is in no record."""
    project.write(test_own="def test_plain():\n    pass\n")
    project.rows("GANG-001 calm passes")
    project.run("--cluster=embedded").assert_outcomes(passed=2)
    assert project.report()["site_tests"] == []


def test_a_variable_of_the_shell_makes_no_foreign_mark_ours(project, monkeypatch):
    """Also with a cluster named for the shell, `needs` of a project that uses no fixture of ours is its own."""
    monkeypatch.setenv("GPUCLUSTER_CLUSTER", "nonsense")
    project.write(test_own=of_fixture("tmp_path", mark="@pytest.mark.needs('a database', 7)"))
    project.run().assert_outcomes(passed=1)


def test_a_mark_that_the_project_registered_is_its_own(project):
    """Named on the command line too: the project said what its mark means."""
    project.write(test_own=of_fixture("tmp_path", mark="@pytest.mark.needs('a database', 7)"))
    project.rows("GANG-001 calm passes")
    project.run("--cluster=embedded", "-o", "markers=needs(what): ours").assert_outcomes(passed=2)
    assert project.report()["site_tests"] == []


def test_a_price_that_collection_could_not_see_is_not_paid(project):
    """Under a budget a test that asks at run time is refused, and nothing is made."""
    project.write(test_own="def test_it(request):\n    request.getfixturevalue('stage')\n")
    project.rows("GANG-001 calm passes")
    result = project.run("--cluster=embedded", "--gpucluster-max-gpu-seconds=1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*budget: the test does not declare its needs*"])


def test_a_gate_run_repeats_no_test_of_the_site(project):
    """A test that fails and then passes is no gate's evidence."""
    project.write(test_own=of_fixture("gpu_cluster"))
    result = project.run_apart("--cluster=embedded", "--gpucluster-gate", "--reruns=1")
    result.stderr.fnmatch_lines(["*pytest-rerunfailures would repeat test_own.py::test_it up to 1 times*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_two_tests_of_one_node_id_are_refused(project):
    """Else the second would stand in the place of the first."""
    for name in ("a", "b"):
        folder = project.pytester.mkdir(name)
        (folder / "test_same.py").write_text(of_fixture("gpu_cluster"), encoding="utf-8")
    project.pytester.syspathinsert()
    root = project.pytester.mkdir("else")
    result = project.run("--cluster=embedded", f"--rootdir={root}", "--import-mode=importlib", "a", "b")
    result.stderr.fnmatch_lines(["*two tests have the node id *test_same.py::test_it: *"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_list_is_no_capability(project):
    """A plausible slip is one line."""
    project.write(test_own=of_fixture("stage", mark="@pytest.mark.needs(['fabric'])"))
    result = project.run("--cluster=embedded")
    result.stderr.fnmatch_lines(["*needs names an unknown capability [[]'fabric'*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_what_breaks_after_a_test_did_not_apply_is_an_error(project):
    """In the terminal and in the record; the reason does not hide it."""
    project.write(
        test_own="""
        import pytest
        from pytest_gpucluster.scenario import NotApplicable

        @pytest.fixture
        def bad():
            yield
            raise RuntimeError("teardown broke")

        def test_it(bad, gpu_cluster_of):
            raise NotApplicable("no such hardware")

        @pytest.fixture
        def gpu_cluster_of(scenario_evidence):
            return scenario_evidence
        """
    )
    result = project.run("--cluster=embedded")
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_it*", "*RuntimeError: teardown broke*"])
    (test,) = project.report()["site_tests"]
    assert (test["outcome"], "teardown broke" in test["text"]) == ("error", True)
