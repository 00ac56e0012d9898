"""A decision in words: for a terminal and for a pull request."""

from pytest_gpucluster.acceptance import policy, text
from tests.acceptance.toy import ago, attempt, decide, run, wants


def said(found):
    """Return the terminal's lines."""
    return list(text.lines(found))


def test_an_open_gate_says_for_what_and_until_when():
    """Its last line is the answer."""
    found = decide([run("r", attempt("GANG-002"))], wants("GANG-002"))
    assert said(found)[-1] == "gate        open for scheduling, until 2026-12-08 11:00 UTC"
    assert said(found)[1] == "runs        r; compared with the cluster as it is"


def test_a_closed_gate_says_why_once_per_reason():
    """Rows of one reason stand together, with one command that runs them all."""
    found = decide([run("r", attempt("HLT-004"))], wants("GANG-001", "GANG-002", "HLT-004"))
    lines = said(found)
    assert "GANG-001, GANG-002 (only): not run: no run tried it" in lines
    assert "  fix: run it: pytest --cluster=embedded -k 'GANG-001 or GANG-002'" in lines
    assert lines[-1] == "gate        closed: 2 reasons in only"


def test_what_was_ignored_waived_or_contradicted_is_told():
    """Nothing that bears on the answer is left out."""
    runs = [
        run("a", attempt("GANG-002", "fail", at=ago(days=2)), attempt("FAB-001", "not_applicable")),
        run("b", attempt("GANG-002", at=ago(days=1))),
        run("c", attempt("GANG-002", "inconclusive")),
        run("x", attempt("GANG-002"), profile={"name": "other"}),
    ]
    stages = (policy.Stage("only", areas=("health",), rows=("GANG-002", "FAB-001")),)
    found = decide(
        [*runs, run("h", attempt("HLT-004"))], wants(stages=stages, not_applicable={"fabric": "none here"})
    )
    lines = "\n".join(said(found))
    assert "not counted x: it was made for the profile 'other', not for 'embedded'" in lines
    assert "excused     FAB-001: does not apply: none here" in lines
    assert "conflict    GANG-002: b says pass on gpu-0, gpu-1, gpu-2, but a says fail on" in lines
    assert "note        GANG-002: later tried and not decided in c (inconclusive: as seen)" in lines
    assert "not shown   1 row without a test: HLT-001" in lines


def test_markdown_keeps_to_its_cells():
    """What a cluster says is no markup."""
    observed = "a | b\n<script>*x*</script> [y](z)"
    found = decide([run("r", attempt("GANG-002", "fail", observed=observed))], wants("GANG-002"))
    page = text.markdown(found)
    assert "fail: a \\| b \\<script\\>\\*x\\*\\</script\\> \\[y\\](z)" in page
    table = [line for line in page.splitlines() if line.startswith("| GANG-002")]
    assert [line.replace("\\|", "").count("|") for line in table] == [5, 5]


def test_coverage_is_a_table_of_rows_by_nodes():
    """Failures stand out without colour; what was not tried is a dash."""
    rows = [attempt("FAB-003", "fail", nodes=["gpu-0", "gpu-1"], red=["gpu-1"]), attempt("MFU-001")]
    found = decide([run("r", *rows, attempt("GANG-002"))], wants("FAB-003", "MFU-001", "GANG-002"))
    assert list(text.coverage(found)) == [
        ("row", "gpu-0", "gpu-1", "gpu-2"),
        ("FAB-003", "undecided", "FAIL", "-"),
        ("MFU-001", "pass", "pass", "pass"),
    ]
    assert list(text.coverage(decide([run("r", attempt("GANG-002"))], wants("GANG-002")))) == []
