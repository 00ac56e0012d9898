"""What planted defects say about rows: bad entries are one clear line, and a row's defects follow from good ones."""

import pytest

from pytest_gpucluster.requirement import DeclarationError, flips


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {"GANG-0002": "fail"},
            r"^defect 'gang.x' of mutants.gang names the unknown row 'GANG-0002'; did you mean",
        ),
        ({"GANG-001": "fail", "GNAG-001": "fail"}, r"unknown row 'GNAG-001'; did you mean 'GANG-001'"),
        ({"GANG-001": "failed"}, r"turns GANG-001 to 'failed'; did you mean 'fail'"),
        ({"GANG-001": "pass"}, r"turns GANG-001 to 'pass'.*allowed: environment, fail, inconclusive"),
        ({}, "turns no row red: it shows nothing"),
    ],
)
def test_a_wrong_entry_is_one_clear_line(entry, line):
    """Which defect, where, what is allowed, the nearest match."""
    with pytest.raises(DeclarationError, match=line) as caught:
        flips.check("gang.x", entry, "mutants.gang")
    assert "\n" not in str(caught.value)
    assert "mutants.gang" in str(caught.value)


def test_a_good_entry_is_taken():
    """Rows of the catalogue, whether they have a test or not, each with a verdict that is not a pass."""
    flips.check("gang.x", {"GANG-001": "fail", "ELA-001": "environment", "REF-001": "inconclusive"}, "m")


LIVE = {
    "b.fails": {"GANG-001": "fail"},
    "a.fails": {"GANG-001": "fail"},
    "c.blurs": {"GANG-001": "inconclusive"},
}


@pytest.mark.parametrize(
    ("live", "mutants", "expected"),
    [
        (LIVE, {}, ("a.fails", "b.fails")),
        ({"c.blurs": {"GANG-001": "inconclusive"}, "d.other": {"REF-001": "fail"}}, {}, ("c.blurs",)),
        (
            LIVE,
            {"gang.m": {"GANG-001": "fail"}, "gang.n": {"GANG-001": "inconclusive"}},
            ("a.fails", "b.fails", "gang.m"),
        ),
        ({}, {"gang.n": {"GANG-001": "inconclusive"}, "watch.cut": {"GANG-001": "fail"}}, ("gang.n",)),
        ({}, {"watch.cut": {"GANG-001": "fail"}, "gangs.m": {"GANG-001": "fail"}}, ()),
    ],
)
def test_the_defects_of_a_row_are_those_under_which_it_fails(live, mutants, expected):
    """Or that turn it red, if it fails under none; of mutants only those of its own area."""
    assert flips.of_row("GANG-001", "gang", live, mutants) == expected
