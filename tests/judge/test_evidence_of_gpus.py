"""What was seen on real GPUs is judged again, and comes out as the committed reports say."""

import json
import pathlib

import pytest

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.report import decisions
from tests.defects import matrix

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence"
ROWS = {row.id: row for row in matrix.rows() if row.scenario.name == "collectives"}
NVLINK, SOCKETS = "one-pod", "two-pods-declare-ib"


def decided(run):
    """Return row -> verdict of evidence that is judged again, and of the report."""
    evidence = ingest.read(FOLDER / run / "evidence" / "collectives.jsonl")
    report = json.loads((FOLDER / run / "report.json").read_text(encoding="utf-8"))
    told = {row["id"]: row["verdict"] for row in report["requirements"] if row["id"] in ROWS}
    return {row: str(decisions.decide(ROWS[row], evidence).verdict) for row in told}, told


@pytest.mark.parametrize("run", [NVLINK, SOCKETS])
def test_evidence_of_a_run_comes_to_the_same_verdicts(run):
    """On any machine, without a cluster or a GPU."""
    again, told = decided(run)
    assert len(told) >= 10
    assert again == told


def test_sockets_are_found_where_infiniband_was_declared():
    """Two pods of one machine: NCCL went on over sockets without a word, and every rank still had the right data."""
    found, _ = decided(SOCKETS)
    assert {row for row, verdict in found.items() if verdict == "fail"} >= {
        "FAB-001",
        "FAB-002",
        "FAB-003",
        "FAB-017",
    }
    assert found["FAB-004"] == found["FAB-014"] == "pass"


def test_nvlink_inside_a_pod_passes():
    """One pod of two GPUs; what lies between nodes is not applicable there."""
    found, _ = decided(NVLINK)
    assert found["FAB-018"] == found["FAB-006"] == found["FAB-017"] == "pass"
    assert found["FAB-001"] == found["FAB-003"] == "not_applicable"
