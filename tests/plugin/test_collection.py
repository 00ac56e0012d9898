"""Markers, keywords, order and errors of declarations."""

import pytest

from tests.plugin.conftest import PLUGIN

pytest_plugins = ["pytester"]


def _collected(result):
    return [line.rsplit("::", 1)[1] for line in result.stdout.lines if "::test_" in line]


def test_requirements_are_selected_by_area_and_level(project):
    """Area and level are markers, also where unknown markers are errors."""
    project.rows(
        "GANG-001 calm passes", 'GANG-002 calm passes level="should"', "REF-001 calm passes",
        'GANG-008 calm passes level="control"',
    )  # fmt: skip
    assert _collected(project.run("--collect-only", "-q", "-m", "gang and must")) == ["test_gang_001"]
    assert _collected(project.run("--collect-only", "-q", "-m", "control or refusal")) == [
        "test_gang_008",
        "test_ref_001",
    ]


@pytest.mark.parametrize("keyword", ["GANG-002", "gang-002", "GANG-002 and not REF-001"])
def test_the_id_is_a_keyword(project, keyword):
    """`-k GANG-002` selects exactly that requirement."""
    project.rows("GANG-001 calm passes", "GANG-002 calm passes", "REF-001 calm passes")
    assert _collected(project.run("--collect-only", "-q", "-k", keyword)) == ["test_gang_002"]


def test_requirements_run_by_area_and_inside_it_cheap_scenarios_first(project):
    """Order is that of the areas, then of cost; tests of other kinds keep their places."""
    project.rows("REF-001 calm passes", "GANG-001 greedy passes", "GANG-007 calm passes", module="test_a")
    project.write(test_b="def test_between(): pass\n")
    project.rows("GANG-002 calm passes", "INV-001 greedy passes", module="test_c")
    assert _collected(project.run("--collect-only", "-q")) == [
        "test_inv_001",
        "test_gang_002",
        "test_gang_007",
        "test_between",
        "test_gang_001",
        "test_ref_001",
    ]


def test_order_is_left_to_a_plugin_that_shuffles(project):
    """With pytest-randomly on, the order is its own."""
    project.rows(*(f"GANG-{n:03} calm passes" for n in range(1, 12)))
    ordered = [f"test_gang_{n:03}" for n in range(1, 12)]
    args = (*PLUGIN, "-p", "no:cacheprovider", "--collect-only", "-q")
    shuffled = _collected(project.pytester.runpytest_subprocess(*args))
    assert sorted(shuffled) == ordered
    assert _collected(project.run("--collect-only", "-q")) == ordered


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("GANG-2 calm passes", "malformed requirement id 'GANG-2'"),
        ('GANG-002 calm passes level="most"', "unknown level 'most'*did you mean 'must'"),
        ('GANG-001 calm passes level="must"', "requirement GANG-001 is declared twice"),
    ],
)
def test_errors_of_a_declaration_are_one_line(project, row, told):
    """A wrong declaration is a collection error of one clear line, without a traceback."""
    project.rows("GANG-001 calm passes", module="test_first")
    project.rows(row, module="test_second")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"test_second.py: *{told}*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*raise DeclarationError*")
    assert project.log == []


def test_collecting_touches_nothing(project):
    """`--collect-only` makes no folder and asks no cluster, whatever the profile is."""
    project.rows("GANG-001 calm passes")
    before = sorted(path.name for path in project.pytester.path.iterdir())
    result = project.run("--collect-only", "--cluster=nonesuch", "--gpucluster-defect=no.such")
    assert result.ret == 0
    after = {path.name for path in project.pytester.path.iterdir()} - {"__pycache__"}
    assert after == set(before) - {"__pycache__"}
    assert project.log == []


def test_a_run_in_which_everything_is_deselected_makes_no_folder(project):
    """Without a selected requirement there is no run."""
    project.rows("GANG-001 calm passes")
    project.write(test_b="def test_other(): pass\n")
    assert project.run("-k", "test_other").ret == 0
    assert not (project.pytester.path / "reports").exists()


def test_the_plan_says_what_would_be_done_and_runs_nothing(project):
    """The plan names requirements, scenarios, cost, permissions and effect on others, and exits with 0."""
    project.rows(
        "GANG-001 greedy passes", "GANG-002 calm fails", 'GANG-007 greedy passes level="should"',
        "REF-001 broken passes",
    )  # fmt: skip
    result = project.run("--gpucluster-plan", "-m", "gang")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "cluster embedded: 3 requirements from 2 scenarios, about 12 s, 40 GPU-seconds",
            "scenario calm: nothing happens",
            "  requirements  GANG-002 (must)",
            "  others        takes nothing from them",
            "scenario greedy: takes GPUs",
            "  requirements  GANG-001 (must), GANG-007 (should)",
            "  needs         1 node, 4 nvidia.com/gpu, 2 x 3 slots, pods that run",
            "  costs         about 9 s, 40 GPU-seconds",
            "  others        holds 4 nvidia.com/gpu in queue default for about 10 s; adds a resource under*",
            "others        makes its own namespace for each worker and removes it",
            "*holds at most 4 nvidia.com/gpu at the same time",
            "*changes the status of at most 2 nodes for each scenario",
            "permissions   create, delete, watch namespaces",
            "*patch nodes/status",
            "Nothing was run, and no cluster was touched.",
        ]
    )
    assert project.log == []
    assert not (project.pytester.path / "reports").exists()


def test_the_plan_names_what_the_budget_leaves_out_waivers_and_what_is_made_outside_the_namespace(project):
    """A plan of what would really be run; it is no run, so that nothing of it makes it red."""
    project.rows(
        "GANG-001 greedy passes", "GANG-002 Scenario('queued',needs=Needs(permissions=(CREATE,))) passes"
    )
    path = project.pytester.path / "test_rows.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace(
            "from doubles import *",
            "from doubles import *\nCREATE = 'create,delete queues.scheduling.volcano.sh'",
        ),
        encoding="utf-8",
    )
    waiver = "waivers=[{id: GANG-002, reason: r, owner: ops, expires: 2020-01-01}]"
    result = project.run("--gpucluster-plan", "--gpucluster-max-gpu-seconds=39", f"--gpucluster-set={waiver}")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "cluster embedded: 1 requirement from 1 scenario, about 1 s, 0 GPU-seconds",
            "  others        makes and removes its own Queue",
            "GANG-001: not run: budget: scenario greedy takes 40 GPU-seconds*",
            "waivers       the waiver of GANG-002 by ops expired on 2020-01-01 and has no effect",
            "*makes and removes outside its namespace: Queue",
            "Nothing was run, and no cluster was touched.",
        ]
    )
    assert project.log == []
    assert not (project.pytester.path / "reports").exists()


def test_the_plan_counts_no_rows_of_sections_that_are_not_declared(project):
    """They take nothing; why they do not apply stands once, with their ids."""
    project.rows(
        "FAB-001 Scenario('wide',needs=Needs(section='fabric',gpus=4,gpu_seconds=40)) passes",
        "FAB-002 Scenario('wide',needs=Needs(section='fabric',gpus=4,gpu_seconds=40)) passes",
        "GANG-001 calm passes",
    )
    result = project.run(
        "--gpucluster-plan", "--gpucluster-set=fabric=null", "--gpucluster-max-gpu-seconds=1"
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "cluster embedded: 1 requirement from 1 scenario, about 3 s, 0 GPU-seconds",
            "not applied   2 requirements: the profile does not declare `fabric` (FAB-001, FAB-002)",
            "limit         at most 1 GPU-seconds (--gpucluster-max-gpu-seconds)",
        ]
    )
    result.stdout.no_fnmatch_line("*not run: budget*")


@pytest.mark.parametrize("seed", range(3))
def test_the_plan_is_in_the_order_of_the_suite_whoever_shuffles(project, seed):
    """A plan that differs from try to try cannot be compared."""
    project.rows(
        "REF-001 cut passes", "GANG-002 greedy passes", "GANG-001 calm passes", "INV-001 broken passes"
    )
    (project.pytester.path / "conftest.py").write_text(
        "import random\n\n\ndef pytest_collection_modifyitems(items):\n"
        f"    random.Random({seed}).shuffle(items)\n", encoding="utf-8",
    )  # fmt: skip
    lines = [line for line in project.run("--gpucluster-plan").outlines if line.startswith("scenario ")]
    assert [line.split()[1].rstrip(":") for line in lines] == ["broken", "calm", "greedy", "cut"]
