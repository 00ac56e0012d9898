"""A row that was decided red stays red, whatever its test, or a mark on it, makes of it afterwards."""

import pytest

pytest_plugins = ["pytester"]

ROW = '''
import pytest

{mark}
@requirement("GANG-001", level="must", documents="R", scenario={scenario}, judge={judge})
def test_row(settle):
    """Title.

    It MUST hold.
    """
    {body}
'''
ENDS = {
    "caught": ("", "try:\n        settle()\n    except Exception:\n        return"),
    "skipped": ("", "try:\n        settle()\n    except Exception:\n        pytest.skip('not today')"),
    "xfailed": ("", "try:\n        settle()\n    except Exception:\n        pytest.xfail('not today')"),
    "mark": ("@pytest.mark.xfail", "settle()"),
    "strict": ("@pytest.mark.xfail(strict=True)", "settle()"),
}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("end", ENDS)
def test_a_violation_stays_a_failure(project, end, workers):
    """The run is red and says the violation."""
    mark, body = ENDS[end]
    project.write(test_rows=ROW.format(mark=mark, body=body, scenario="calm", judge="fails"))
    result = (
        project.run("--cluster=embedded")
        if workers == "-n0"
        else project.run_apart("--cluster=embedded", workers)
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    assert "2 of 3 members bound" in str(result.stdout)


@pytest.mark.parametrize(("scenario", "word"), [("broken", "ENVIRONMENT"), ("cut", "INCONCLUSIVE")])
def test_what_is_not_decided_is_not_excused_by_a_mark(project, scenario, word):
    """An expected failure is one of the test, not of the cluster."""
    project.write(
        test_rows=ROW.format(mark="@pytest.mark.xfail", body="settle()", scenario=scenario, judge="passes")
    )
    result = project.run("--cluster=embedded", "-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"*test_row*{word}*"])
