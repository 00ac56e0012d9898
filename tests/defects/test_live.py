"""Every live defect turns red exactly the rows that the table names; run by `make defects`."""

import pathlib

import pytest

from suites.defects import FLIPS
from tests.endtoend import harness

pytestmark = pytest.mark.matrix

WITH_TORCH = {"node.hostname-loopback"}
"""Defects that the torch row must see; the others leave it out, since it is the slowest."""


def verdicts_under(folder: pathlib.Path, *args: str) -> dict[str, str]:
    """Run the suite in a process of its own; returns requirement id -> verdict."""
    harness.run_suite(folder, *args, timeout=300)
    report = harness.report_of(folder)
    assert not report["cleanup"]["left_overs"], report["cleanup"]
    return harness.verdicts(report)


@pytest.mark.parametrize("defect", sorted(FLIPS))
def test_a_defect_turns_red_exactly_its_rows(defect, tmp_path, measured):
    """The rows of the table have their verdict, every other row that was run still passes."""
    chosen = [] if defect in WITH_TORCH else ["-m", "not torch"]
    verdicts = verdicts_under(tmp_path, f"--gpucluster-defect={defect}", *chosen)
    red = {row: verdict for row, verdict in verdicts.items() if verdict != "pass"}
    measured(defect, red)
    assert red == {row: verdict for row, verdict in FLIPS[defect].items() if row in verdicts}
