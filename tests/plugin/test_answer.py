"""The answer on the terminal, and an exit status that agrees with it in every mode."""

import pytest

pytest_plugins = ["pytester"]

GATE = pytest.mark.parametrize("gate", [(), ("--gpucluster-gate",)], ids=["tried", "gate"])


def answer_line(result):
    """Return what the terminal says as the answer; it stands directly above pytest's line of counts."""
    lines = [line for line in result.stdout.lines if line.strip()]
    assert lines[-2].startswith("answer    "), lines[-4:]
    return lines[-2].removeprefix("answer    ")


@GATE
def test_a_yes_says_for_what(project, gate):
    """Status 0, and the line names what passed and what was not asked for."""
    project.rows("GANG-001 calm passes", "LIFE-001 calm passes", "KUE-001 calm does_not_apply")
    result = project.run(*gate)
    assert result.ret == 0
    assert answer_line(result).startswith("Yes for gang and lifecycle; kueue is not applicable here; ")
    assert project.report()["answer"]["word"] == "yes"


@GATE
@pytest.mark.parametrize("how", ["-mkueue", "-kKUE-001", "-kkueue", "test_kueue.py"])
def test_an_area_that_was_asked_for_and_does_not_apply_is_red(project, gate, how):
    """Asked for by marker, by id, by name or by its file: nothing of it was tested."""
    project.rows("GANG-001 calm passes")
    project.rows("KUE-001 calm does_not_apply", "KUE-002 calm does_not_apply", module="test_kueue")
    result = project.run(how, *gate)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert answer_line(result).startswith(
        "Undecided: kueue was requested, but no row of it applies: the profile"
    )
    assert project.report()["answer"]["word"] == "undecided"
    assert project.report()["run"]["exit_status"] == 1


@GATE
def test_an_area_that_was_asked_for_beside_another_is_red(project, gate):
    """What passed beside it does not make up for it; what was only not left out was not asked for."""
    project.rows("GANG-001 calm passes", "KUE-001 calm does_not_apply")
    assert project.run("-m", "gang or kueue", *gate).ret == pytest.ExitCode.TESTS_FAILED
    assert project.run("-m", "not fabric", *gate).ret == 0


@GATE
def test_a_run_in_which_nothing_applies_is_red(project, gate):
    """All rows not applicable is the absence of a failure, and no pass."""
    project.rows("GANG-001 calm does_not_apply", "LIFE-001 calm does_not_apply")
    result = project.run(*gate)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "no MUST row passed" in answer_line(result)


@GATE
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_left_overs_make_the_run_red(project, monkeypatch, gate, workers):
    """Named, counted in the last line, in the record; no yes."""
    monkeypatch.setenv("FAKE_LEFT_OVERS", "Pod/x in ns-1")
    project.rows("GANG-001 calm passes")
    result = project.run_apart(*gate, *workers) if workers else project.run(*gate)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert answer_line(result).startswith("Undecided: the run left something on the cluster: Pod/x in ns-1")
    report = project.report()
    assert (report["answer"]["word"], report["run"]["exit_status"]) == ("undecided", 1)


@GATE
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_a_budget_that_cut_rows_off_does_not_end_in_passed_alone(project, gate, workers):
    """The last lines say that rows were cut off, and that the answer is undecided; so does the exit status."""
    project.rows(
        "GANG-001 calm passes",
        "GANG-002 calm passes",
        "LIFE-001 greedy passes",
        "REF-007 greedy passes level='should'",
    )
    result = project.run_apart("--gpucluster-max-gpu-seconds=39", *gate, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert answer_line(result) == "Undecided: 2 rows were cut off by the budget of GPU-seconds"
    assert "2 cut off by the budget" in [line for line in result.stdout.lines if line.strip()][-1]


def test_a_should_that_was_cut_off_leaves_the_answer_open(project):
    """Whoever asked for it did not get it."""
    project.rows("GANG-001 calm passes", "REF-007 greedy passes level='should'")
    result = project.run("--gpucluster-max-gpu-seconds=39")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert answer_line(result) == "Undecided: 1 row was cut off by the budget of GPU-seconds"


def test_a_row_that_a_mark_skips_is_red(project):
    """It was asked for, and nobody knows."""
    project.rows("GANG-001 calm passes")
    project.write(
        test_skipped='''
            import pytest

            @pytest.mark.skip(reason="not today")
            @requirement("GANG-002", level="must", documents="R", scenario=calm, judge=passes)
            def test_row(settle):
                """Title.

                It MUST hold.
                """
                settle()
        '''
    )
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert answer_line(result).startswith("Undecided: GANG-002 was not run: skipped: not today")


@GATE
@pytest.mark.parametrize("judge", ["passes", "fails"])
def test_answer_and_status_agree_where_a_row_is_decided(project, gate, judge):
    """0 and yes, or 1 and no."""
    project.rows(f"GANG-001 calm {judge}")
    result = project.run(*gate)
    assert (result.ret, answer_line(result).partition(" ")[0]) == (
        (0, "Yes") if judge == "passes" else (1, "No:")
    )


def test_a_run_without_a_must_is_as_green_as_its_tests_unless_it_is_a_gate(project):
    """A SHOULD that passed answers nothing: undecided, and no failure of what was tried."""
    project.rows("REF-007 calm passes level='should'")
    result = project.run()
    assert result.ret == 0
    assert answer_line(result).startswith("Undecided: no MUST row passed")
    assert project.run("--gpucluster-gate").ret == pytest.ExitCode.TESTS_FAILED


def test_a_red_run_ends_with_what_to_mend(project):
    """The cause once, with its rows, its fix and a command; why the answer is no yes does not say it again."""
    project.rows("GANG-001 calm fails", "GANG-002 calm fails", "REF-001 calm passes")
    result = project.run("--cluster=embedded")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*= to mend =*",
            "2 rows are not green: fix this cause, then run the last line",
            "1. the gang plugin is off",
            "   rows  GANG-001, GANG-002 (fail)",
            "   fix   switch it on",
            "again     pytest * -k 'GANG-001 or GANG-002' --cluster=embedded",
            "answer    No: GANG-001 is violated*(and 1 more)",
        ]
    )
    assert result.stdout.str().count("   fix   switch it on") == 1
    assert "because" not in result.stdout.str()


def test_rows_that_are_undecided_for_one_cause_are_told_in_one_block(project, monkeypatch):
    """The cluster does not start: what that means is said once, with the rows that it keeps from being decided."""
    monkeypatch.setenv("FAKE_REFUSES", "1")
    project.rows("GANG-001 calm passes", "GANG-002 calm passes", "REF-001 calm passes")
    result = project.run()
    text = result.stdout.str()
    assert text.count("observed  the control plane ended with code 1") == 1
    result.stdout.fnmatch_lines(
        ["also      GANG-002, REF-001: the same cause", "3 rows are not green: fix this cause*"]
    )


def test_a_green_run_has_nothing_to_mend(project):
    """Nor a command for after."""
    project.rows("GANG-001 calm passes")
    text = project.run().stdout.str()
    assert "to mend" not in text
    assert "again  " not in text


def test_planted_defects_are_no_yes(project):
    """A run that is meant to fail and does not answers nothing about a cluster."""
    project.rows("GANG-001 calm passes")
    result = project.run("--gpucluster-defect=scheduler.down")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert answer_line(result) == "Undecided: defects were planted: scheduler.down"


@pytest.mark.parametrize("word", ["volcanoo", "slurm"])
def test_an_unknown_scheduler_ends_the_run_before_anything_is_touched(project, word):
    """Status 4 and one line with what is allowed."""
    project.rows("GANG-001 calm passes")
    result = project.run(f"--gpucluster-set=scheduler={word}", "--gpucluster-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: option --gpucluster-set: scheduler = '{word}': is not known*allowed: *"]
    )
    assert project.log == []
