"""Waivers of a profile: shown as waived, never green, and without effect once they have expired."""

import datetime as dt
import xml.etree.ElementTree as ET

import pytest

pytest_plugins = ["pytester"]

TOMORROW = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)).isoformat()


def _waived(row_id, expires=TOMORROW):
    waiver = f"{{id: {row_id}, reason: switch is on order, owner: net-team, expires: {expires}}}"
    return f"--gpucluster-set=waivers=[{waiver}]"


@pytest.mark.parametrize(("row", "word"), [("fails", "fail"), ("breaks", "inconclusive")])
def test_a_waived_row_is_shown_as_waived_and_stays_red(project, row, word):
    """Terminal, record, JUnit and page call it waived, with owner and last day; the run is not green."""
    project.rows(f"GANG-001 calm {row}", "GANG-002 calm passes")
    result = project.run(_waived("GANG-001"), "-v")
    if row == "fails":
        assert result.parseoutcomes() == {"passed": 1, "waived": 1}
        result.stdout.fnmatch_lines(
            [
                f"gpucluster: GANG-001 is waived until {TOMORROW} by net-team: switch is on order",
                "*WAIVED*",
                "*= waived =*",
                f"waived    until {TOMORROW} by net-team: switch is on order; the row stays red",
            ]
        )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = project.report()
    found = {row["id"]: row for row in report["requirements"]}
    assert (found["GANG-001"]["verdict"], found["GANG-001"]["waiver"]["owner"]) == (word, "net-team")
    assert found["GANG-002"]["waiver"] is None
    assert report["counts"]["waived"] == 1
    assert report["answer"]["word"] == "undecided"
    (failure,) = ET.parse(project.latest / "junit.xml").iter("failure")  # noqa: S314 - our own file
    assert failure.get("type") == "waived"
    assert failure.get("message").startswith(f"waived until {TOMORROW} by net-team: switch is on order")
    page = (project.latest / "report.html").read_text(encoding="utf-8")
    assert "v-waived" in page
    assert "net-team: switch is on order" in page


def test_a_row_that_passes_needs_no_waiver(project):
    """A waiver does not make a pass anything else."""
    project.rows("GANG-001 calm passes")
    result = project.run(_waived("GANG-001"))
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 1}


def test_an_expired_waiver_has_no_effect_and_is_named(project):
    """The row is violated as if nobody had waived it; head and page name the waiver that ran out."""
    project.rows("GANG-001 calm fails")
    result = project.run(_waived("GANG-001", "2020-12-31"))
    result.stdout.fnmatch_lines(
        ["gpucluster: the waiver of GANG-001 by net-team expired on 2020-12-31 and has no effect"]
    )
    assert result.parseoutcomes() == {"failed": 1}
    report = project.report()
    assert report["requirements"][0]["waiver"] is None
    assert report["waivers"][0]["expired"] is True
    assert report["answer"]["word"] == "no"
    assert "Expired waiver:" in (project.latest / "report.html").read_text(encoding="utf-8")


def test_a_waiver_counts_on_its_last_day(project):
    """Expiry is a day, and that day still counts."""
    project.rows("GANG-001 calm fails")
    today = dt.datetime.now(dt.UTC).date().isoformat()
    assert "waived" in project.run(_waived("GANG-001", today)).parseoutcomes()


def test_an_unknown_id_is_one_line_with_the_nearest(project):
    """A waiver that names no requirement ends the run before anything is touched."""
    project.rows("GANG-001 calm fails")
    result = project.run(_waived("GAMG-001"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.stderr.lines if line.strip()]
    assert len(lines) == 1
    result.stderr.fnmatch_lines(
        [
            "ERROR: option --gpucluster-set: waivers.0.id = 'GAMG-001': unknown requirement; did you mean 'GANG-001'?*"
        ]
    )
    assert project.log == []
