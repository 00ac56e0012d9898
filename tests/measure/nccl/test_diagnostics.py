"""Reports of NCCL's and RCCL's own diagnostics: real ones of 2.31.2, and constructed ones after their source."""

import pytest

from pytest_gpucluster.measure.nccl import diagnostics
from tests import recordings

REAL = recordings.FOLDER / "nccl" / "h200x2-nccl2.31.2-diagnostics"
COMM = "across 8 ranks in comm 0x1"


def of(*texts):
    """Return what messages of one process say; constructed after the source of NCCL and RCCL."""
    return diagnostics.read([f"node-a:15 NCCL DIAG {text}" for text in texts])


def real(name):
    """Return what a real log says."""
    return diagnostics.read((REAL / f"{name}.log").read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", ["init", "both", "quiet"])
def test_real_reports_of_two_gpus(name):
    """Both directions between two GPUs, whatever NCCL_DEBUG says; a report of RAS begins before it and ends within."""
    found = real(name)
    assert found.active == (diagnostics.Active(found.active[0].process, diagnostics.Edges(2, 2), 2),)
    assert (found.edges, found.stopped, found.strange, found.differing) == ((), (), (), ())
    if name != "init":
        assert (found.ras_begun, found.ras_ended, len(found.checks)) == (1, (2,), 5)
        assert all(check.ok and check.ranks == 2 and not check.partial for check in found.checks)


def test_real_silence_is_no_success():
    """With peer-to-peer paths switched off the report has a beginning, an end, and nothing between."""
    (report,) = real("p2p-off").active
    assert (report.edges, report.ranks) == (None, 2)


def test_a_report_of_ras_alone():
    """It says nothing of paths."""
    found = real("ras")
    assert (found.active, found.ras_ended) == ((), (2,))


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("[OK]   p2p: all 56 directed GPU P2P edges verified", (56, 56, 0)),
        ("[OK]   p2p: all 32 directed GPU P2P edges verified (skipped indirect=24)", (32, 32, 24)),
        ("[INFO] p2p: 4/6 directed GPU P2P edges verified", (6, 4, 0)),
        (
            "[OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)",
            (56, 56, 0),
        ),
        ("[INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification", (56, 52, 0)),
    ],
)
def test_summaries_of_both_wordings(text, edges):
    """2.31 and what came after it."""
    found = of("=== NCCL Diagnostics ===", text, "NCCL diagnostics completed in 1.0 ms across 8 ranks")
    assert found.active[0].edges == diagnostics.Edges(*edges)
    assert found.active[0].ranks == 8
    assert not found.strange


EDGE = "srcRank=0 srcCudaDev=0 srcNvmlDev=0 dstRank=5 dstCudaDev=5 dstNvmlDev=5"


@pytest.mark.parametrize(
    ("kind", "end", "told"),
    [
        (
            "peer-memory import failed",
            "path=XGMI handle=LEGACY_CUDA_IPC reason=import; check",
            "XGMI, LEGACY_CUDA_IPC",
        ),
        ("read mismatch", "path=PIX handle=DIRECT expected=0x1 got=0x2; look", "PIX, DIRECT"),
        ("topology check failed", "path=DIS handle=CUMEM_OTHER reason=topo; inspect", "DIS, CUMEM_OTHER"),
    ],
)
def test_a_failed_edge_is_named(kind, end, told):
    """Any rank prints it, without a report around it."""
    assert of(f"[INFO] p2p: {kind} {EDGE} {end}").edges == (f"rank 0 to rank 5 ({told}): {kind}",)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[INFO] p2p: setup failed on rank 3 result=1", "stopped"),
        (
            "[INFO] p2p: resource cleanup failed rank=3 result=1; some temporary resources may remain",
            "stopped",
        ),
        ("[INFO] transport detect returned 3", "stopped"),
        ("[INFO] p2p: active check returned 1", "stopped"),
        ("[INFO] net bw: required external tool missing in comm 0x1", "untested"),
        (
            "[INFO] net bw: test unable to complete in allocated time; ran 1 of 2 test phases in comm 0x1",
            "untested",
        ),
        (
            "[INFO] net bw: same-nic rank 5 (b): 196.2 Gbit/s, >30% off median 392.4 Gbit/s in comm 0x1",
            "outliers",
        ),
        ("[INFO] net bw: same-nic: 3 more ranks >30% off median in comm 0x1", "outliers"),
        ("[OK]   something new that nobody knows", "strange"),
        ("[OK]   p2p: all directed GPU P2P edges verified", "strange"),
        ("a text without a tag", "strange"),
    ],
)
def test_each_line_has_its_place(text, where):
    """What nobody knows is kept as that."""
    assert len(getattr(of(text), where)) == 1


def test_a_notice_of_one_process_with_several_gpus_is_no_problem():
    """Peer access for the time of the check."""
    notice = "[INFO] p2p: temporarily enabled context-wide HIP peer access rank=3 cudaDev=3; avoid concurrent HIP use"
    assert of(notice) == diagnostics.Diagnostics()


@pytest.mark.parametrize(
    "text",
    [
        f"ECC: uncorrected volatile errors on rank(s) {{2}} (worst=3) {COMM}",
        f"ECC: corrected volatile errors at or above threshold 5 on rank(s) {{0}} (worst=6) {COMM}",
        f"HIP driver version: mismatch {COMM}, rank(s) {{2,3}} differ from rank 0 (70253211)",
        f"GPU inventory: model mismatch {COMM}, rank(s) {{3}} differ from rank 0 (AMD Instinct MI355X)",
        f"NVLink: inactive link(s) on rank(s) {{5}} {COMM}",
    ],
)
def test_what_ras_finds_wrong(text):
    """The tag is INFO for all of it."""
    (check,) = of(f"[INFO] {text}").checks
    assert check.bad


@pytest.mark.parametrize(
    "text",
    [
        f"ECC: unavailable via NVML {COMM}",
        "ECC: no uncorrected volatile errors across 7 of 8 ranks in comm 0x1 (unavailable via NVML on 1 ranks)",
        "GPU inventory: diagnostics incomplete, gathered 7/8 ranks in comm 0x1",
    ],
)
def test_what_ras_could_not_read_is_neither_good_nor_bad(text):
    """It is no whole check."""
    (check,) = of(f"[INFO] {text}").checks
    assert not check.bad
    assert not check.ok


def test_the_name_of_a_rank_s_own_file_may_differ():
    """Others may not; what differs and is not named is not understood."""
    lines = [
        f"[INFO] NCCL environment: mismatch {COMM} for NCCL_DEBUG_FILE",
        "[INFO] NCCL environment: NCCL_DEBUG_FILE=/a on rank(s) {0}",
        "[INFO] NCCL environment: 1 NCCL_* env var(s) differ across ranks in comm 0x1",
    ]
    assert of(*lines).differing == ()
    assert of(*lines).checks[0].ranks == 8
    assert of(*(line.replace("DEBUG_FILE", "BUFFSIZE") for line in lines)).differing == ("NCCL_BUFFSIZE",)
    assert of(*(line.replace("1 NCCL_*", "2 NCCL_*") for line in lines)).strange


def test_glued_and_torn_lines():
    """Two messages in one line are two; a torn one is not understood."""
    both = (
        "a:1 NCCL DIAG === NCCL Diagnostics ===b:2 NCCL DIAG [OK]   ECC: no errors across 2 ranks in comm 0x1"
    )
    found = diagnostics.read([both, "a:1 NCCL DIAG NCCL diagnostics completed in 1.0 ms across 2 ranks"])
    assert found.active == (diagnostics.Active("a:1", None, 2),)
    assert len(found.checks) == 1
    assert diagnostics.read(["NCCL DIAG [OK]   p2p: all 2"]).strange


def test_a_second_summary_is_not_taken_for_the_first():
    """Nor one that stands outside of a report."""
    line = "[OK]   p2p: all 2 directed GPU P2P edges verified"
    assert len(of("=== NCCL Diagnostics ===", line, line).strange) == 1
    assert len(of(line).strange) == 1
