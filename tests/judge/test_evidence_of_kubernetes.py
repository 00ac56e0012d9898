"""What was seen on a real Kubernetes with real GPUs is judged again: dev/gpu-kubernetes, two H200."""

import json
import pathlib

import pytest

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.report import decisions
from tests.defects import matrix

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence"
RUNS = {"kubernetes-one-node": 18, "kubernetes-two-nodes": 14, "kubernetes-two-nodes-declare-ib": 11}
"""Folder of a run -> how many rows of it are judged again at least."""
MENDED = {
    ("kubernetes-two-nodes", "FAB-011"): ("fail", "pass"),
    # A published floor was asked of nodes whose adapters the profile does not declare.
    ("kubernetes-two-nodes-declare-ib", "FAB-006"): ("fail", "not_applicable"),
}
"""A fault of the judge that was found since: the verdict then, and now."""


def judged(run):
    """Return row -> (verdict of the report, verdict now) of the rows whose evidence is kept."""
    report = json.loads((FOLDER / run / "report.json").read_text(encoding="utf-8"))
    told = {row["id"]: row["verdict"] for row in report["requirements"]}
    found = {}
    for row in matrix.rows():
        path = FOLDER / run / "evidence" / f"{row.scenario.name}.jsonl"
        if row.id in told and path.is_file():
            found[row.id] = (told[row.id], str(decisions.decide(row, ingest.read(path)).verdict))
    return found


@pytest.mark.parametrize("run", RUNS)
def test_evidence_of_a_run_comes_to_the_same_verdicts(run):
    """On any machine; but for what was mended since."""
    found = judged(run)
    assert len(found) >= RUNS[run]
    changed = {(run, row): pair for row, pair in found.items() if pair[0] != pair[1]}
    assert changed == {key: pair for key, pair in MENDED.items() if key[0] == run}


def test_gangs_ran_on_real_kubelets_and_gpus():
    """Placed whole, met by name, saw their own GPUs, multiplied as fast as declared."""
    found = judged("kubernetes-one-node")
    rows = ("INV-002", "GANG-001", "RDZV-001", "FAB-006", "FAB-018", "MFU-001", "MFU-002", "HLT-004")
    assert {row: found[row][1] for row in rows} == dict.fromkeys(rows, "pass")


def test_sockets_between_two_nodes_are_what_is_declared_or_they_are_found():
    """The same wires under two profiles; the second declares InfiniBand, and ranks are named."""
    assert judged("kubernetes-two-nodes")["FAB-001"][1] == "pass"
    found = judged("kubernetes-two-nodes-declare-ib")
    assert {found[row][1] for row in ("FAB-001", "FAB-002", "FAB-003")} == {"fail"}
    assert found["FAB-004"][1] == found["FAB-014"][1] == "pass"
    path = FOLDER / "kubernetes-two-nodes-declare-ib" / "evidence" / "collectives.jsonl"
    (row,) = [each for each in matrix.rows() if each.id == "FAB-001"]
    where = " ".join(decisions.decide(row, ingest.read(path)).where)
    assert "rank 0" in where
    assert "gpu-1" in where


@pytest.mark.parametrize("run", RUNS)
def test_committed_evidence_names_no_machine(run):
    """No GPU, boot or folder of the machine that it was made on."""
    for path in (FOLDER / run).rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            for mark in ("/opt/gk", "/opt/reports", "GPU-661c", "GPU-a254", "661c8005", "4655d00a"):
                assert mark not in text, f"{path.name}: {mark}"
