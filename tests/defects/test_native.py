"""Under the scheduler `native` every defect of native gangs turns red exactly the rows that the table names."""

import pytest

from pytest_gpucluster.provider import known_defects
from suites.defects.native import AS_DOCUMENTED, NATIVE_FLIPS
from tests.endtoend import harness

NATIVE = {"GPUCLUSTER_SCHEDULER": "native"}
ROWS = "GANG or REF"
"""What is run: the rows that speak of a gang, whatever its scheduler."""


def test_every_defect_of_native_gangs_is_in_the_table():
    """The table names every defect, and each pair of rows that it turns red is told apart by one."""
    assert set(NATIVE_FLIPS) == {name for name in known_defects() if name.startswith("native.")}
    rows = {row for flips in NATIVE_FLIPS.values() for row in flips}
    seen = {row: tuple(flips.get(row) for flips in NATIVE_FLIPS.values()) for row in rows}
    assert len(set(seen.values())) == len(rows)


@pytest.mark.matrix
@pytest.mark.parametrize("defect", ["", *sorted(NATIVE_FLIPS)])
def test_a_defect_turns_red_exactly_its_rows(defect, tmp_path, pytestconfig):
    """The rows of the table have their verdict; every other row passes, or is not applicable."""
    expected = {**AS_DOCUMENTED, **NATIVE_FLIPS.get(defect, {})}
    chosen = " or ".join(sorted(expected)) if pytestconfig.getoption("declared") else ROWS
    planted = [f"--gpucluster-defect={defect}"] if defect else []
    harness.run_suite(tmp_path, *planted, "-k", chosen, timeout=900, env=NATIVE)
    report = harness.report_of(tmp_path)
    assert not report["cleanup"]["left_overs"], report["cleanup"]
    verdicts = harness.verdicts(report)
    red = {row: said for row, said in verdicts.items() if said not in ("pass", "not_applicable")}
    assert red == expected
