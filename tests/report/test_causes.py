"""What is to be mended after a run: each cause once, with its rows."""

from pytest_gpucluster.report import causes

NO_IMAGE = {"text": "no image is declared", "fix": "declare images.python"}
NO_ROOM = {"text": "there is no room", "fix": "make some"}


def row(name, verdict, *found, observed="", where=()):
    """Return a row of a report."""
    finding = {"causes": list(found), "observed": observed or f"{name} was seen", "where": list(where)}
    return {"id": name, "verdict": verdict, "finding": finding}


REPORT = {
    "requirements": [
        row("INV-001", "pass"),
        row("GANG-001", "inconclusive", NO_IMAGE),
        row("GANG-002", "fail", NO_ROOM, NO_IMAGE, where=("Pod/a on n", "Pod/b on n", "Pod/c on n")),
        *(row(f"LIFE-{n:03}", "environment", NO_IMAGE) for n in range(1, 9)),
        row("FAB-001", "not_applicable", NO_ROOM),
        row("NUMA-001", "inconclusive", observed="nobody answered"),
        row("NUMA-002", "inconclusive", observed="nobody answered"),
    ]
}


def test_each_cause_is_told_once_the_gravest_first():
    """Rows of one likeliest cause stand together; without a cause what was observed stands for it."""
    found = causes.found(REPORT)
    assert [(one.text, one.verdict, len(one.rows)) for one in found] == [
        ("there is no room", "fail", 1), ("no image is declared", "environment", 9),
        ("nobody answered", "inconclusive", 2),
    ]  # fmt: skip
    assert found[1].rows[-1] == "GANG-001"
    assert found[0].where == ("Pod/a on n", "Pod/b on n")


def test_the_lines_of_a_terminal():
    """Number and cause, the first rows, the fix; nothing is wider than the texts of findings."""
    found = causes.found(REPORT)
    assert causes.head(found) == "12 rows are not green: fix these 3 causes, then run the last line"
    assert causes.head(found[:1]) == "1 row is not green: fix this cause, then run the last line"
    lines = [*causes.lines(found)]
    assert lines[:4] == [
        "1. there is no room",
        "   rows  GANG-002 (fail)",
        "   where Pod/a on n, Pod/b on n",
        "   fix   make some",
    ]
    assert (
        "   rows  LIFE-001, LIFE-002, LIFE-003, LIFE-004, LIFE-005, LIFE-006 and 3 more (environment)"
        in lines
    )
    assert lines[-2:] == ["3. nobody answered", "   rows  NUMA-001, NUMA-002 (inconclusive)"]
    wide = causes.Ailment("word " * 60, "mend " * 60, ("A-001",), "fail", ())
    assert max(map(len, causes.lines([wide]))) <= 100


def test_a_green_run_has_nothing_to_mend():
    """Nor has one without rows."""
    assert causes.found({"requirements": [row("INV-001", "pass"), row("FAB-001", "not_applicable")]}) == ()
