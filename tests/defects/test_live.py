"""Every live defect turns red exactly the rows that the table names; run by `make defects`."""

import json
import pathlib
import subprocess
import sys

import pytest

from suites.defects import FLIPS

pytestmark = pytest.mark.matrix

ROOT = pathlib.Path(__file__).resolve().parents[2]

WITH_TORCH = {"node.hostname-loopback"}
"""Defects that the torch row must see; the others leave it out, since it is the slowest."""


def run_suite(folder: pathlib.Path, *args: str) -> dict[str, str]:
    """Run the suite in a process of its own; returns requirement id -> verdict."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "suites", "-q", f"--gpucluster-report-dir={folder}", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    reports = sorted(folder.glob("*/report.json"))
    assert reports, f"no report was written:\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    report = json.loads(reports[-1].read_text(encoding="utf-8"))
    assert not report["cleanup"]["left_overs"], report["cleanup"]
    return {row["id"]: row["verdict"] for row in report["requirements"]}


@pytest.mark.parametrize("defect", sorted(FLIPS))
def test_a_defect_turns_red_exactly_its_rows(defect, tmp_path):
    """The rows of the table have their verdict, every other row that was run still passes."""
    chosen = [] if defect in WITH_TORCH else ["-k", "not RDZV"]
    verdicts = run_suite(tmp_path, f"--gpucluster-defect={defect}", *chosen)
    red = {row: verdict for row, verdict in verdicts.items() if verdict != "pass"}
    assert red == {row: verdict for row, verdict in FLIPS[defect].items() if row in verdicts}
