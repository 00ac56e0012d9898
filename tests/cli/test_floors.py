"""`gpucluster floors` proposes floors that a profile takes, or says in one line why it does not."""

import json

import pytest
import yaml

from pytest_gpucluster import profile
from pytest_gpucluster.report import decisions
from tests.defects import matrix

MEASURING = ("MFU-001", "MFU-002", "FAB-006")


@pytest.fixture(scope="module")
def report():
    """Return a report of a run on GPUs, its figures constructed."""
    rows = []
    for row in matrix.rows():
        if row.id in MEASURING:
            finding = decisions.decide(row, matrix.evidence(row.scenario.name))
            rows.append({"id": row.id, "verdict": str(finding.verdict), "finding": finding.as_dict()})
    return {"run": {"id": "r1", "started": "2026-11-28T10:00:00Z"}, "requirements": rows}


@pytest.fixture
def written(tmp_path, report):
    """Return the path of a report, changed on the way."""

    def write(name="report.json", **more):
        path = tmp_path / name
        path.write_text(json.dumps({**report, **more}, allow_nan=False))
        return path

    return write


PROFILE = """
connection: {kubeconfig: k, context: c}
scheduler: volcano
queue: default
gpu_resource: nvidia.com/gpu
gpus_per_node: 4
"""


def test_a_profile_takes_what_is_proposed(call, written, tmp_path):
    """The sections go into a profile as they are, each floor with its origin."""
    status, out, err = call("floors", "--from", written())
    assert (status, err) == (0, "")
    (tmp_path / "prod-a.yaml").write_text(PROFILE + out)
    told = profile.load("prod-a", [tmp_path]).profile
    assert {floor.format for floor in told.mfu.floors} == {"bf16", "fp16", "tf32", "fp8"}
    assert 640 < told.mfu.floors[0].tflops < 690
    assert told.mfu.training.mfu == pytest.approx(0.525, abs=0.01)
    assert told.mfu.training.layers == 24
    assert all("run r1 of 2026-11-28" in floor.origin for floor in (*told.mfu.floors, *told.fabric.floors))


def test_the_margin_is_stated(call, written):
    """A larger margin gives lower floors."""
    low = yaml.safe_load(call("floors", "--from", written(), "--margin", "0.2")[1])
    high = yaml.safe_load(call("floors", "--from", written(), "--margin=0")[1])
    pairs = zip(low["mfu"]["floors"], high["mfu"]["floors"], strict=True)
    assert all(one["tflops"] < other["tflops"] for one, other in pairs)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "the following arguments are required: --from"),
        (("--from", "absent.json"), "no such report: 'absent.json'"),
        (("--form", "x"), "--from"),
    ],
)
def test_mistakes_are_one_line(call, words, problem):
    """What is wrong, and what is meant."""
    status, out, err = call("floors", *words)
    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_a_margin_that_is_none(call, written):
    """It is a part, from 0 to below 1."""
    for text in ("1", "x", "-0.1", "nan"):
        status, _, err = call("floors", "--from", written(), f"--margin={text}")
        assert status == 2
        assert "must be a number from 0 to below 1" in err


def test_reports_without_figures(call, written, tmp_path):
    """An empty report, and one whose rows failed, propose nothing."""
    assert "has no accepted figures" in call("floors", "--from", written("a.json", requirements=[]))[2]
    (tmp_path / "b.json").write_text("{")
    assert "b.json: is not valid JSON" in call("floors", "--from", tmp_path / "b.json")[2]


@pytest.mark.parametrize(
    ("row", "verdict", "gone"),
    [
        ("FAB-001", "fail", "fabric"),
        ("FAB-003", "inconclusive", "fabric"),
        ("FAB-018", "fail", "fabric"),
        ("MFU-003", "fail", "mfu"),
    ],
)
def test_figures_of_something_else_propose_nothing(call, written, row, verdict, gone):
    """Of sockets, where InfiniBand was declared, no floor of InfiniBand follows: it would pass sockets for ever."""
    accepted = json.loads(written().read_text())["requirements"]

    def proposed(verdict):
        rows = [*accepted, {"id": row, "verdict": verdict, "finding": {}}]
        return call("floors", "--from", written(requirements=rows))

    status, out, _ = proposed(verdict)
    assert status == 0
    assert f"{row} is {verdict}" in out.splitlines()[0]
    assert out.startswith("# ")
    assert yaml.safe_load(out).keys() == {"fabric", "mfu"} - {gone}
    for harmless in ("pass", "not_applicable"):
        assert yaml.safe_load(proposed(harmless)[1]).keys() == {"fabric", "mfu"}
