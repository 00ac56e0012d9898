"""JUnit tells violations from trouble."""

from pathlib import Path
from xml.etree import ElementTree as ET

from pytest_gpucluster.report import junit, record
from pytest_gpucluster.requirement import Finding, Verdict
from tests.report import sample


def parsed(folder: Path) -> ET.Element:
    """Return the suite of a run's JUnit text."""
    root = ET.fromstring(junit.render(record.fold(folder / record.JOURNAL)))  # noqa: S314 - our own text
    suite = root.find("testsuite")
    assert suite is not None
    return suite


def children(suite: ET.Element) -> dict[str, set[str]]:
    """Return for each case, but those of the site's own tests, what it holds besides properties."""
    return {
        str(case.get("name")).split()[0]: {child.tag for child in case} - {"properties"}
        for case in suite.findall("testcase")
        if "::" not in str(case.get("name"))
    }


def test_each_verdict_has_its_place(run: Path) -> None:
    """A violation is a failure, trouble an error, what does not apply or was not run skipped."""
    assert children(parsed(run)) == {
        "GANG-001": set(),
        "GANG-002": {"failure"},
        "GANG-007": {"skipped"},
        "REF-001": set(),
        "REF-002": {"error"},
        "PLG-003": {"error"},
        "FAB-006": {"failure"},
        "SITE-001": set(),
        "LIFE-001": {"skipped"},
        "cleanup": {"error"},
    }


def test_totals_agree_with_the_cases(run: Path) -> None:
    """The counts that tools read are those of the cases."""
    suite = parsed(run)
    assert [suite.get(n) for n in ("tests", "failures", "errors", "skipped")] == ["18", "3", "6", "4"]
    assert suite.get("timestamp") == "2026-11-28T09:30:01"


def test_properties_carry_the_requirement(run: Path) -> None:
    """Id, level, verdict, evidence and numbers are properties of the case."""
    case = next(c for c in parsed(run).findall("testcase") if str(c.get("name")).startswith("FAB-006"))
    found = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert found["gpucluster.requirement"] == "FAB-006"
    assert found["gpucluster.level"] == "must"
    assert found["gpucluster.verdict"] == "fail"
    assert found["gpucluster.number.bus bandwidth"] == "121.4 GB/s"
    assert found["gpucluster.waived_by"] == "net-ops"
    assert len(str(found["gpucluster.sha256"])) == 64


def test_the_failure_carries_the_whole_text(run: Path) -> None:
    """Who reads only JUnit sees cause, fix and how to repeat."""
    failure = next(parsed(run).iter("failure"))
    assert failure.get("type") == "violation"
    assert "fix" in str(failure.text)
    assert "-k GANG-002" in str(failure.text)


def test_unprintable_characters_do_not_break_the_file(tmp_path: Path) -> None:
    """A container may log what XML cannot hold."""
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(run="r", plugin="1", command=[], cluster={}, profile={}, sources={})
    row = sample.make_suite().registry.get("GANG-001")
    journal.requirement(row, Finding(Verdict.FAIL, "a", "b\x00\x1b[31m\ud800"), text="c\x07")
    suite = parsed(tmp_path)
    assert next(suite.iter("failure")).text == r"c\x07"
    assert children(suite)["end"] == {"error"}
