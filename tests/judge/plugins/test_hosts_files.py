"""PLG-006 on a dump without ConfigMaps: what containers take from one is unknown, and what is stated wrong is wrong."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.requirement import Finding, Verdict
from tests import recordings

FILE = recordings.FOLDER / "diagnose" / "volcano-svc-note.json"


def _evidence(tmp_path: Path, data: dict[str, str] | None = None, drop_env: str = "") -> Evidence:
    listed = json.loads(FILE.read_text())
    items: list[dict[str, Any]] = copy.deepcopy(listed["items"])
    if data is not None:
        metadata = {"name": "hang-svc", "namespace": "misa", "uid": "cm"}
        items.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    for obj in items if drop_env else ():
        if obj["kind"] == "Pod" and obj["metadata"]["name"].startswith("hang"):
            box = obj["spec"]["containers"][0]
            box["env"] = [e for e in box["env"] if e["name"] != drop_env]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({**listed, "items": items}, indent=1))
    return ingest.read(path)


def _judge(evidence: Evidence) -> Finding:
    return recordings.JUDGES["PLG-006"](evidence, evidence.given)


def test_a_config_map_that_is_not_in_the_evidence_is_unknown(tmp_path: Path):
    """Absent from the dump is not absent from the cluster: the row is not decided, and says what it lacks."""
    finding = _judge(_evidence(tmp_path))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "ConfigMap hang-svc, which is not in the evidence" in finding.observed


@pytest.mark.parametrize("name", ["VC_WORKER_HOSTS", "VC_MASTER_NUM"])
def test_a_variable_that_the_pod_does_not_have_is_wrong(name: str, tmp_path: Path):
    """The pod's own specification is there, and does not carry the variable: no ConfigMap mends that."""
    finding = _judge(_evidence(tmp_path, drop_env=name))
    assert finding.verdict is Verdict.FAIL
    assert name in finding.observed


def test_a_config_map_that_is_there_is_read(tmp_path: Path):
    """With the ConfigMap in the evidence its values are judged."""
    finding = _judge(_evidence(tmp_path, {"VC_WORKER_HOSTS": "elsewhere-0.hang"}))
    assert finding.verdict is Verdict.FAIL
    assert "elsewhere-0.hang" in finding.observed
