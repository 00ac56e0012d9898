"""Claims of the provider stand beside what was measured, and change nothing."""

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.report import claims, decisions, html, record
from tests.defects import matrix

SIZE = 1 << 30
REDUCED = {"figure": "busbw", "collective": "all_reduce", "size": SIZE}


def decided(row_id, **changed):
    """Return a row as it is decided on its recorded evidence."""
    row = next(row for row in matrix.rows() if row.id == row_id)
    finding = decisions.decide(row, matrix.evidence(row.scenario.name))
    return {"id": row_id, "verdict": finding.verdict.value, "finding": finding.as_dict(), **changed}


def compared(claim, *rows):
    """Return what becomes of one claim."""
    (found,) = claims.compared(
        {"profile": {"values": {"claims": [{"origin": "offer", **claim}]}}, "requirements": rows}
    )
    return found


@pytest.mark.parametrize(
    ("claim", "row_id"),
    [
        ({"figure": "products", "format": "bf16", "value": 1000.0}, "MFU-001"),
        ({"figure": "mfu", "value": 0.5}, "MFU-002"),
        ({"figure": "tokens", "value": 1000.0}, "MFU-002"),
        ({"figure": "busbw", "collective": "all_reduce", "size": SIZE, "value": 100.0}, "FAB-006"),
    ],
)  # fmt: skip
def test_a_claim_stands_beside_the_slowest_that_was_measured(claim, row_id):
    """With its share, the row that measured it and that row's verdict."""
    found = compared(claim, decided(row_id))
    assert (found["row"], found["verdict"], found["why"]) == (row_id, "pass", "")
    assert found["measured"] > 0
    assert found["share"] == pytest.approx(found["measured"] / claim["value"], abs=1e-4)


@pytest.mark.parametrize(
    ("claim", "rows", "why"),
    [
        ({"figure": "mfu"}, (), "MFU-002 was not run"),
        ({"figure": "products", "format": "absent"}, ("MFU-001",), "MFU-001 has no such figure"),
        ({"figure": "busbw", "collective": "all_reduce", "size": 3}, ("FAB-006",), "FAB-006 has no such figure"),
        ({**REDUCED, "nodes": 64}, ("FAB-006",), "measured on another shape: "),
        ({**REDUCED, "gpus": 3}, ("FAB-006",), "measured on another shape: "),
    ],
)  # fmt: skip
def test_what_was_not_measured_in_its_shape_is_not_measured(claim, rows, why):
    """No other figure stands in for it."""
    found = compared({"value": 1.0, **claim}, *map(decided, rows))
    assert (found["measured"], found["share"]) == (None, None)
    assert found["why"].startswith(why)


@pytest.mark.parametrize("verdict", ["inconclusive", "environment"])
def test_what_is_undecided_is_not_measured(verdict):
    """A figure that nobody vouches for is none."""
    found = compared({"figure": "mfu", "value": 0.5}, decided("MFU-002", verdict=verdict))
    assert found["measured"] is None
    assert found["why"].startswith(f"MFU-002 is {verdict}: ")


def test_figures_of_cpus_are_not_measured():
    """They are notes about the payload."""
    row = decided("MFU-001")
    row["finding"]["facts"]["shape"]["device"] = "CPU"
    assert compared({"figure": "products", "format": "bf16", "value": 1.0}, row)["measured"] is None


def test_a_claim_changes_no_verdict_and_no_answer(run):
    """It is on the page and in the report, and all else is as it was."""
    path = run / record.JOURNAL
    before = record.fold(path)
    text = path.read_text(encoding="utf-8")
    claim = '"claims":[{"figure":"mfu","value":0.99,"origin":"offer, page 4"}],'
    assert '"profile":{' in text
    path.write_text(text.replace('"profile":{', f'"profile":{{{claim}', 1), encoding="utf-8")
    after = record.fold(path)
    assert before["claims"] == []
    assert [one["why"] for one in after["claims"]] == ["MFU-002 was not run"]
    same = ("requirements", "answer", "counts", "decision")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    page = html.render(after)
    assert "<strong>not measured</strong></td><td>MFU-002 was not run</td>" in page
    assert "offer, page 4" in page
    assert 'id="claims"' not in html.render(before)


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        ("{figure: products, value: 989, origin: x}", "`format` is required with `figure: products`"),
        ("{figure: busbw, value: 9, collective: all_reduce, origin: x}", "`size` is required with `figure: busbw`"),
        ("{figure: mfu, value: 0.5, size: 3, origin: x}", "`size` is not a part of `figure: mfu`"),
        ("{figure: mfu, value: 0, origin: x}", "claims.0.value"),
        ("{figure: speed, value: 1, origin: x}", "claims.0.figure"),
        ("{figure: mfu, value: 0.5}", "claims.0.origin"),
    ],
)  # fmt: skip
def test_a_claim_that_is_no_figure_is_one_clear_line(claim, problem):
    """It names the leaf."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("embedded", env={}, cli=[f"claims=[{claim}]"])
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
