"""FAB-020: reports of NCCL's own diagnostics, real and constructed."""

import dataclasses
import json

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.judge.fabric import own_diagnostics
from pytest_gpucluster.measure.nccl import diagnostics
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.fabric_diagnostics import MUTANTS
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.defects import matrix

REAL = recordings.FOLDER / "nccl" / "h200x2-nccl2.31.2-diagnostics"


@pytest.fixture(scope="module")
def recorded():
    """Return the constructed evidence of two nodes of four GPUs."""
    return read(matrix.HOST / "nccl-diagnostics.jsonl")


def of_real(*names, given=None):
    """Return the finding on real logs, of two ranks of one pod; what they say of themselves is constructed."""
    lines = []

    def said(event, **fields):
        told = {"run": "", "attempt": 0, "event": event, "pod": "p", "container": "main", "t": 0.0, **fields}
        lines.append(f"GPUCONF1 {json.dumps(told)}")

    for rank in (0, 1):
        me = {"rank": rank, "world": 2, "local_rank": rank, "local_world": 2, "group_rank": 0, "host": "vm",
              "node": "gpu-0", "backend": "nccl"}  # fmt: skip
        said("who", device="cuda", device_name="NVIDIA H200", uuid=f"GPU-{rank}", uuid_by="driver", handed=[],
             handed_count=0, **me)  # fmt: skip
        figure = {"collective": "all_reduce", "size": 65536, "iters": 20, "mean": 20.0, "min": 19.0, "p50": 20.0,
                  "p90": 21.0, "p99": 22.0, "algbw": 3.2768, "busbw": 3.2768, "factor": 1.0, "wrong": 0}  # fmt: skip
        said("measured", part=1, parts=1, results=[figure], first_pod=1.0, first_process=1.0, **me)
        said("done", code=0, **me)
    for name in names:
        lines += (REAL / f"{name}.log").read_text(encoding="utf-8").splitlines()
    made = [
        {"t": 0.1 * n, "type": "LOG", "pod": "p", "uid": "u", "line": line} for n, line in enumerate(lines)
    ]
    made.append({"t": 900.0, "type": "NOTE", "note": "end"})
    told = {"world": 2, "nodes": 1, "fabric": {"device": "gpu"}, **(given or {})}
    return own_diagnostics.every_edge_tried(recordings.evidence_of(made, header={"given": told}))


@pytest.mark.parametrize(
    ("names", "verdict", "told"),
    [
        (["both"], Verdict.PASS, "all 2 directed pairs of GPUs on 1 node verified"),
        (
            ["quiet"],
            Verdict.PASS,
            "CUDA driver version, ECC, GPU inventory, NCCL environment, NVLink in order",
        ),
        (["init", "ras"], Verdict.PASS, "all 2 directed pairs"),
        (["init"], Verdict.INCONCLUSIVE, "no whole report of RAS over 2 ranks"),
        (["ras"], Verdict.INCONCLUSIVE, "no report of NCCL's diagnostics was printed"),
        (["p2p-off"], Verdict.INCONCLUSIVE, "none of 2 pairs was tried"),
        (["p2p-off", "ras"], Verdict.INCONCLUSIVE, "none of 2 pairs was tried"),
    ],
)
def test_real_reports(names, verdict, told):
    """Silence about paths is no success, however well the report ends."""
    found = of_real(*names)
    assert (found.verdict, told in found.observed) == (verdict, True), found


def test_a_report_of_fewer_ranks_than_the_world():
    """Each node may have built a world of its own."""
    found = of_real("both", given={"world": 4})
    assert found.verdict is Verdict.INCONCLUSIVE


def test_two_nodes_with_a_network(recorded):
    """Pairs of both nodes and the network between them."""
    found = own_diagnostics.every_edge_tried(recorded, recorded.given)
    assert found.verdict is Verdict.PASS
    assert "all 24 directed pairs of GPUs on 2 nodes" in found.observed
    assert "392.4 Gbit/s same-nic" in found.observed


def older(evidence, version):
    """Return the evidence of another release, which prints no report."""
    silent = MUTANTS["fabric.diagnosed-not-printed"].act(evidence)
    return base.with_lines(
        silent,
        [
            line
            if "NCCL version" not in str(line.data.get("line"))
            else type(line)(
                **{**vars(line), "data": {**line.data, "line": line.data["line"].replace("2.32.3", version)}}
            )
            for line in silent.lines
        ],
    )


@pytest.mark.parametrize(
    ("version", "verdict"), [("2.28.9", Verdict.NOT_APPLICABLE), ("2.31.2", Verdict.INCONCLUSIVE)]
)
def test_a_release_that_has_no_diagnostics(recorded, version, verdict):
    """What cannot report is not asked; what can, and is silent, is not understood."""
    silent = older(recorded, version)
    assert own_diagnostics.every_edge_tried(silent, silent.given).verdict is verdict


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_each_departure_names_what_it_is(recorded, name):
    """A failure has a cause with its fix."""
    changed = MUTANTS[name].act(recorded)
    found = own_diagnostics.every_edge_tried(changed, changed.given)
    assert found.verdict == MUTANTS[name].flips["FAB-020"]
    assert found.verdict is not Verdict.FAIL or (found.violation and found.causes)


COMM = "in comm 0x4dba73aa1c4b6897"


def rewritten(evidence, old, new, *after):
    """Return the evidence with a text of the reports replaced, and with lines behind those that have it."""
    lines = []
    for line in evidence.lines:
        text = str(line.data.get("line") or "")
        if diagnostics.MARK not in text or old not in text:
            lines.append(line)
            continue
        head = text.partition(diagnostics.MARK)[0]
        lines += [
            dataclasses.replace(line, data={**line.data, "line": said})
            for said in (text.replace(old, new), *(f"{head}{diagnostics.MARK} {one}" for one in after))
        ]
    return base.with_lines(evidence, lines)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("all active across 8 ranks", "all active across 4 of 8 ranks", ()),
        ("all active across 8 ranks", "all active across 4 ranks", ()),
        ("found 18 link(s)", "found 0 link(s)", ()),
        ("NVLink: found 18 link(s) per device, all active", "clocks: alike", ()),
        ("[OK]   ECC", "[OK]   ECC", (f"[INFO] ECC: diagnostics incomplete, gathered 7/8 ranks {COMM}",)),
        ("[OK]   ECC", "[OK]   ECC", (f"[INFO] ECC: query failed on rank(s) {{3}} across 8 ranks {COMM}",)),
        ("[OK]   GPU inv", "[OK]   GPU inv", (f"[INFO] GPU inventory: gathered 7/8 ranks {COMM}",)),
        ("all 24 directed GPU P2P edges verified", "all 0 directed GPU P2P edges verified (skipped indirect=24)", ()),
        ("all 24 directed GPU P2P edges verified", "all 20 directed GPU P2P edges verified (skipped indirect=4)", ()),
        ("391.1/392.4/393.0", "0.0/0.0/0.0", ()),
        ("391.1/392.4/393.0", "0.0/392.4/393.0", ()),
        ("391.1/392.4/393.0", "393.0/392.4/391.1", ()),
        ("391.1/392.4/393.0", "391.1/3.92.4/393.0", ()),
        ("391.1/392.4/393.0", "100.0/392.4/393.0", ()),
        ("[OK] net bw", "[OK] net bw", (
            f"[OK] net bw: 390.0/391.0/392.0 Gbit/s min/median/max cross-nic bw (across 4 ranks) {COMM}",
        )),
    ],
)  # fmt: skip
def test_what_a_report_left_out_is_no_pass(recorded, old, new, after):
    """Some ranks, no link, a pair through a third GPU, a figure that cannot be: nothing of that is success."""
    changed = rewritten(recorded, old, new, *after)
    found = own_diagnostics.every_edge_tried(changed, changed.given)
    assert found.verdict is Verdict.INCONCLUSIVE, found


def test_a_setting_whose_values_are_shown_differs(recorded):
    """Even if the line that says so by name is lost."""
    shown = "[INFO] NCCL environment: NCCL_BUFFSIZE=1 on rank(s) {0}"
    changed = rewritten(recorded, "1 NCCL_* env var(s) differ", "1 NCCL_* env var(s) differ", shown)
    found = own_diagnostics.every_edge_tried(changed, changed.given)
    assert (found.verdict, "NCCL_BUFFSIZE" in found.observed) == (Verdict.FAIL, True)
