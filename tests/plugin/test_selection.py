"""Words of `-m` and `-k` that were meant for requirements and select none."""

import pytest

pytest_plugins = ["pytester"]

ALLOWED = "(allowed: * and * more, see pytest --markers)"


@pytest.fixture
def rows(project):
    """A project with three rows and a test of its own, whose markers are not strict."""
    path = project.pytester.path / "pytest.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("strict = true\n", ""), encoding="utf-8")
    project.rows("GANG-001 calm passes", "GANG-002 calm passes", "FAB-001 calm passes")
    project.write(test_other="import pytest\n\ndef test_plain(): pass\n")
    return project


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("-m", "gnag"), f"-m 'gnag': no test has a marker 'gnag'; did you mean 'gang'? {ALLOWED}"),
        (("-m", "xyz"), f"-m 'xyz': no test has a marker 'xyz' {ALLOWED}"),
        (
            ("-m", "gang or fabirc"),
            "-m 'gang or fabirc': no test has a marker 'fabirc'; did you mean 'fabric'? *",
        ),
        (("-m", "not fabirc"), "-m 'not fabirc': no test has a marker 'fabirc'; did you mean 'fabric'? *"),
        (
            ("-m", "gang-001"),
            "-m 'gang-001': gang-001 is not a marker; select a requirement with -k GANG-001",
        ),
        (("-k", "GANG-999"), "-k 'GANG-999': there is no requirement GANG-999; did you mean 'GANG-009'?"),
        (("-k", "GNAG-001"), "-k 'GNAG-001': there is no requirement GNAG-001; did you mean 'GANG-001'?"),
        (("-k", "GANG-001 or gang-999"), "*there is no requirement GANG-999; did you mean 'GANG-009'?"),
        (("-k", "GANG-001 or LIFE-0O3"), "*there is no requirement LIFE-0O3; did you mean 'LIFE-003'?"),
        (("-k", "GANG-001 or REF_002"), "*there is no requirement REF_002; did you mean 'REF-002'?"),
        (("-k", "GANG-001 or KUE-02"), "*there is no requirement KUE-02; did you mean 'KUE-002'?"),
        (("-k", "not GANG-999"), "*there is no requirement GANG-999; did you mean 'GANG-009'?"),
        (("-k", "REF-001"), "-k 'REF-001': REF-001 (*) is not among the collected requirements"),
        (("-k", "gnag"), "-k 'gnag': no test has 'gnag' in its name or its markers; did you mean 'gang'?"),
        (("-k", "test_gnag_001"), "*; did you mean 'test_gang_001'?"),
    ],
    ids=str,
)
def test_such_a_word_is_one_line_and_exit_4(rows, args, line):
    """Whatever else is selected."""
    result = rows.run(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {line}"])
    assert len([each for each in result.stderr.lines if each.strip()]) == 1
    assert rows.log == []
    assert not (rows.pytester.path / "reports").exists()


@pytest.mark.parametrize("option", ["--co", "--gpucluster-plan", "--cluster=embedded"])
def test_a_word_is_judged_whether_or_not_anything_is_run(rows, option):
    """Listing and planning are tries of the run that follows."""
    for args in (("-m", "gnag"), ("-k", "GANG-001 or GANG-999"), ("-k", "REF-001")):
        assert rows.run(*args, option).ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("-m", "gang and fabric"), 5),
        (("-m", "not slow"), 0),
        (("-m", "gang or slow"), 0),
        (("-m", "fast"), 0),
        (("-m", "fast(speed=3)"), 0),
        (("-k", "plain or test_nothing"), 0),
        (("-k", "gang_00"), 0),
        (("-k", "nothing_like_it"), 5),
        (("-k", "not KUE-006"), 0),
        (("-k", "GANG-001 and plain"), 5),
        (("-k", "OWN-001"), 5),
        (("-k", "not OWN-001"), 0),
    ],
    ids=str,
)
def test_words_of_others_and_words_that_exclude_are_left_alone(rows, args, status):
    """A marker that a project registers or uses, a part of a name, a row that is not there to be left out."""
    rows.write(test_other="import pytest\n\n@pytest.mark.fast(speed=3)\ndef test_plain(): pass\n")
    path = rows.pytester.path / "pytest.toml"
    path.write_text(path.read_text(encoding="utf-8") + 'markers = ["fast(speed): ours"]\n', encoding="utf-8")
    result = rows.run(*args)
    assert result.ret == status
    assert result.stderr.str() == ""


def test_a_strict_project_is_told_the_nearest_too(project):
    """A marker that is not registered is refused by pytest itself, which names none."""
    project.rows("GANG-001 calm passes")
    result = project.run("-m", "gnag")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: -m 'gnag': no test has a marker 'gnag'; did you mean 'gang'? *"])


def test_a_project_without_rows_is_left_alone(project):
    """Its words are its own, whatever they are like."""
    path = project.pytester.path / "pytest.toml"
    path.write_text("[pytest]\ngpucluster_suites = false\n", encoding="utf-8")
    project.write(test_other="def test_plain(): pass\n")
    for args in (("-m", "gnag"), ("-k", "GANG-999")):
        result = project.run(*args, "--cluster=embedded")
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        assert result.stderr.str() == ""


def test_with_workers_the_controller_tells_it_once(rows):
    """In one line, with the same exit status."""
    pytest.importorskip("xdist")
    result = rows.run_apart("-n2", "-m", "gnag")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = [line for line in [*result.stdout.lines, *result.stderr.lines] if "did you mean" in line]
    assert len(told) == 1


def test_what_last_failed_is_not_taken_for_all_there_is(project):
    """With --lf pytest does not read the files in which nothing failed."""
    project.rows("GANG-001 calm fails")
    project.rows("FAB-001 calm passes", module="test_more")
    arguments = ("-p", "cacheprovider", "-p", "no:randomly")
    pytester = project.pytester
    assert pytester.runpytest_inprocess(*arguments).ret == pytest.ExitCode.TESTS_FAILED
    result = pytester.runpytest_inprocess(*arguments, "--lf", "-k", "GANG-001 or FAB-001")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
