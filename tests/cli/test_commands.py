"""What the commands do, in this process and without a cluster."""

import importlib
import json
from pathlib import Path

import pytest

import pytest_gpucluster
from pytest_gpucluster.cli import cleanup
from pytest_gpucluster.evidence.log.model import SCHEMA
from pytest_gpucluster.kube.connection import Ask
from pytest_gpucluster.report import record, seal, suites, write
from pytest_gpucluster.requirement import Finding, Verdict, catalogue
from tests.cli.conftest import Call
from tests.report import sample


def test_describe_lists_every_row_built_or_not(call: Call, sample_suites: None) -> None:
    """Rows without a test are listed as not built."""
    status, out, _ = call("describe", "requirements", "--json")
    rows = {row["id"]: row for row in json.loads(out)}
    assert status == 0
    assert set(rows) == {"SITE-001", *(row.id for row in catalogue.rows())}
    assert rows["GANG-002"]["built"]
    assert rows["GANG-002"]["presupposes"]
    assert not rows["TRN-001"]["built"]


def test_describe_shows_one_row_in_full(call: Call, sample_suites: None) -> None:
    """The normative sentence, scenario and judge of a row are shown."""
    _, out, _ = call("describe", "requirements", "GANG-002", "TRN-001")
    assert "none MUST be bound" in out
    assert "gang-scarce" in out
    assert "not built: it has no test" in out


def test_describe_counts_the_rows(call: Call, sample_suites: None) -> None:
    """The table ends with how many rows have a test."""
    _, out, _ = call("describe", "requirements")
    assert out.splitlines()[-1] == "9 of 142 rows have a test"


def test_describe_defects_names_the_rows_they_flip(
    call: Call, sample_suites: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each planted defect is listed with what it does and the rows that it turns red."""
    monkeypatch.setattr(suites, "flips", lambda _mutants: {"gang.binds-partially": {"GANG-002": "fail"}})
    _, out, _ = call("describe", "defects")
    lines = out.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("gang.binds-partially: "))
    assert lines[place + 1].strip() == "GANG-002 fail"
    assert {"defect", "does", "flips"} == set(json.loads(call("describe", "defects", "--json")[1])[0])


def test_describe_profile_shows_values_with_sources(call: Call) -> None:
    """Each leaf of the effective profile names its source."""
    _, out, _ = call("describe", "profile", "--set", "budgets.bind=31")
    line = next(line for line in out.splitlines() if line.startswith("budgets.bind "))
    assert line.split(maxsplit=2)[1:] == ["31.0", "option --set"]
    assert json.loads(call("describe", "profile", "--json")[1])["profile"]["name"] == "embedded"


@pytest.mark.parametrize(
    ("stream", "status", "head"),
    [
        ("gang-fits", 0, "PASS GANG-001"),
        ("gang-scarce", 1, "VIOLATION GANG-002"),
        ("gang-too-large", 3, "ENVIRONMENT REF-002"),
        ("gang-fits", 3, "INCONCLUSIVE PLG-003"),
        ("gang-fits", 4, "NOT APPLICABLE GANG-007"),
    ],
)
def test_judge_tells_the_verdict_by_its_status(
    call: Call, run: Path, stream: str, status: int, head: str
) -> None:
    """0 pass, 1 violation, 3 not decided, 4 not applicable; the text is that of a failing test."""
    row_id = head.rsplit(maxsplit=1)[-1]
    got, out, err = call("judge", run / "evidence" / f"{stream}.jsonl", "--requirement", row_id)
    assert (got, err) == (status, "")
    assert out.startswith(head)
    assert f"--requirement {row_id}" in out


def test_judge_takes_what_it_is_told_over_the_header(call: Call, run: Path) -> None:
    """`--given` overrides the evidence's own header, as YAML."""
    path = run / "evidence" / "gang-scarce.jsonl"
    _, out, _ = call("judge", path, "--requirement", "GANG-002", "--given", "n=7", "--given", "a.b=[1, 2]")
    assert "3 of 7 members were bound" in out


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("window=-1", "--given window=-1: needs a number above 0"),
        ("window=.nan", "--given window=nan: needs a number above 0"),
        ("window=nan", "--given window: needs a number, got a text: 'nan'"),
        ("window.a=3", "--given window: needs a number, got a mapping"),
        ("min_member=0", "--given min_member=0: needs a number above 0"),
        ("n=[1]", "--given n: needs a number, got a list"),
        ("n=true", "--given n: needs a number, got true or false"),
    ],
)
def test_judge_is_told_nothing_that_measures_nothing(call: Call, run: Path, given: str, line: str) -> None:
    """A window of -1 s is no window, and every gang held through it."""
    path = run / "evidence" / "gang-scarce.jsonl"
    status, out, err = call("judge", path, "--requirement", "GANG-002", "--given", given)
    assert (status, out) == (2, "")
    assert line in err


def test_judge_prints_json(call: Call, run: Path) -> None:
    """The finding as plain data, with what became of the presuppositions."""
    path = run / "evidence" / "gang-scarce.jsonl"
    _, out, _ = call("judge", path, "--requirement", "GANG-002", "--json")
    data = json.loads(out)
    assert (data["id"], data["verdict"]) == ("GANG-002", "fail")
    assert data["presupposed"][0]["held"] is True


def test_judge_without_what_it_must_be_told_is_a_mistake(call: Call, run: Path) -> None:
    """A judge that misses something ends in one line that says what it was told."""
    path = sample.write_evidence(run / "x.jsonl", sample.evidence_lines("gang-scarce", partial=True)[1:])
    status, _, err = call("judge", path, "--requirement", "GANG-002")
    assert status == 2
    assert "GANG-002 cannot be decided on this evidence with the given values (nothing): KeyError: 'n'" in err


def test_evidence_that_cannot_be_read_is_a_mistake(call: Call, run: Path) -> None:
    """File and line are named."""
    (run / "x.jsonl").write_text("[]\n[]\n")
    status, _, err = call("judge", run / "x.jsonl", "--requirement", "GANG-002")
    assert status == 2
    assert "x.jsonl" in err


def test_report_writes_all_forms_again(call: Call, run: Path) -> None:
    """The forms are made anew from the journal and named one a line; the answer comes last, and is the status."""
    (run / "report.html").unlink()
    status, out, _ = call("report", run)
    assert status == 1
    assert [Path(line).name for line in out.splitlines()[:-2]] == [
        "report.json", "report.html", "junit.xml", "ctrf.json", "report.md", "SHA256SUMS"
    ]  # fmt: skip
    assert out.splitlines()[-2] == f"digest: {record.sha256(run / 'report.json')}"
    assert out.splitlines()[-1].startswith("answer: No: GANG-002 is violated: ")


@pytest.mark.parametrize("name", ["evidence/fabric.jsonl", "run.jsonl", "more.txt"])
def test_report_does_not_seal_what_was_changed(call: Call, run: Path, name: str) -> None:
    """New sums over changed files would hide the change: status 3, one line, and nothing is written."""
    before = (run / "SHA256SUMS").read_bytes()
    with (run / name).open("a") as file:
        file.write("\n")
    status, out, err = call("report", run)
    assert (status, out) == (3, "")
    assert err.startswith(f"gpucluster: {run / name}: the file was ")
    assert err.endswith(": the reports are not made again\n")
    assert (run / "SHA256SUMS").read_bytes() == before


@pytest.mark.parametrize("gone", [(), ("report.json", "report.html", "junit.xml")])
def test_report_does_not_seal_a_run_whose_sums_are_gone(call: Call, run: Path, gone: tuple[str, ...]) -> None:
    """A run that came to its end was sealed: without its sums nothing says that it is as it was."""
    for name in ("SHA256SUMS", *gone):
        (run / name).unlink()
    status, out, err = call("report", run)
    assert (status, out) == (3, "")
    assert "SHA256SUMS: the file is missing: nothing shows what the run wrote" in err
    assert not (run / "SHA256SUMS").exists()


def test_report_seals_a_run_that_was_killed_once(call: Call, tmp_path: Path, sample_suites: None) -> None:
    """Its folder has no sums before; after, what is changed is found, and sums that are gone are not made again."""
    sample.make_run(tmp_path / "run", end=False)
    assert call("report", tmp_path / "run")[0] == 1
    assert call("verify", tmp_path / "run")[0] == 1
    (tmp_path / "run" / "logs").mkdir()
    status, _, err = call("report", tmp_path / "run")
    assert status == 3
    assert "logs: the folder is not in the record of the run" in err
    (tmp_path / "run" / "logs").rmdir()
    (tmp_path / "run" / "SHA256SUMS").unlink()
    assert call("report", tmp_path / "run")[0] == 3


def test_report_does_not_seal_what_was_sealed_again_by_hand(call: Call, run: Path) -> None:
    """Sums that were made anew do not hide a change from the record."""
    (run / "evidence" / "fabric.jsonl").write_text("{}\n")
    (run / "SHA256SUMS").write_text(seal.text(run))
    status, _, err = call("report", run)
    assert status == 3
    assert "evidence/fabric.jsonl: the file was changed" in err


def test_verify_compares_the_digest_that_was_noted(call: Call, run: Path) -> None:
    """The one sum that a run tells at its end stands for the whole folder."""
    digest = record.sha256(run / "report.json")
    assert call("verify", run, "--digest", digest.upper())[0] == 1
    status, out, _ = call("verify", run, "--digest", "0" * 64)
    assert status == 3
    assert f"differs: report.json: its SHA-256 is {digest}, not {'0' * 64}" in out
    for slip in (digest[:-1], digest[:12], f"digest: {digest}", ""):
        status, out, err = call("verify", run, "--digest", slip)
        assert (status, out) == (2, "")
        assert f"--digest {slip!r}: expected the 64 hexadecimal digits" in err


def test_report_says_what_it_could_not_write(call: Call, run: Path) -> None:
    """Status 3 and one line when a form is missing."""
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    status, _, err = call("report", run)
    assert status == 3
    assert "report.html: not written" in err


def test_verify_tells_by_its_status_and_a_line_for_each_difference(call: Call, run: Path) -> None:
    """That of the answer for an untouched run, 3 with one line for each thing that differs, and then no answer."""
    status, out, _ = call("verify", run)
    assert status == 1
    assert out.splitlines()[-3:] == [
        (
            "verified: 8 verdicts decided again from evidence, 11 files as sealed; made again and the same: "
            "report.json, report.html, junit.xml, ctrf.json, report.md"
        ),
        f"digest: {record.sha256(run / 'report.json')}",
        "answer: No: GANG-002 is violated: No member starts until all can (and 7 more)",
    ]
    (run / "evidence" / "fabric.jsonl").unlink()
    status, out, _ = call("verify", run)
    assert status == 3
    assert "differs: evidence/fabric.jsonl: the file is missing" in out
    assert out.splitlines()[-1] == "answer: none: the record does not hold: 1 difference"


def test_verify_of_a_killed_run_says_first_what_it_means(call: Call, run: Path) -> None:
    """Files with the same trouble share a line, and none is left out of the count."""
    for name in ("SHA256SUMS", "report.json", "report.html", "junit.xml"):
        (run / name).unlink()
    lines = (run / "run.jsonl").read_text().splitlines(keepends=True)
    (run / "run.jsonl").write_text("".join(line for line in lines if '"run-end"' not in line))
    for number in range(30):
        (run / "evidence" / f"more-{number}.jsonl").write_text("")
    status, out, _ = call("verify", run)
    told = out.splitlines()
    assert status == 3
    assert told[0].startswith("note: the run was killed before its end: ")
    assert f"`gpucluster report {run}`" in told[0]
    assert len(told) < 10
    assert sum(" more: the file is not in the record of the run" in line for line in told) == 1
    assert int(told[-1].split()[-2]) > 30


ANSWERS = {"yes": (Verdict.PASS, 0), "no": (Verdict.FAIL, 1), "undecided": (Verdict.INCONCLUSIVE, 1)}


@pytest.mark.parametrize("word", ANSWERS)
def test_verify_and_report_end_as_the_answer_does(
    call: Call, tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table: 0 for yes, 1 for no and undecided, and the last line says which."""
    verdict, expected = ANSWERS[word]
    suite = sample.Suite()
    finding = Finding(verdict, "-", "-", violation=verdict is Verdict.FAIL)
    suite.declare("GANG-001", sample.constant(finding), title="It holds", text="It MUST.", scenario="x")
    monkeypatch.setattr(suites, "load_suites", lambda _extra=(): suite.registry)
    evidence = sample.write_evidence(tmp_path / "evidence" / "x.jsonl", sample.evidence_lines("x"))
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(
        run="r", plugin=pytest_gpucluster.__version__, command=[], cluster={}, profile={}, sources={},
        evidence_schema=SCHEMA,
    )  # fmt: skip
    journal.requirement(suite.registry.get("GANG-001"), finding, evidence=evidence)
    journal.cleanup([])
    journal.run_end(exit_status=0 if word == "yes" else 1, interrupted=False)
    write.write_all(tmp_path)
    for command in ("report", "verify"):
        status, out, _ = call(command, tmp_path)
        assert status == expected
        assert out.splitlines()[-1].lower().startswith(f"answer: {word}")


def test_verify_tells_a_record_that_cannot_be_read(call: Call, run: Path) -> None:
    """Status 3, one line that names the file; a folder that is no run is a mistake of the caller."""
    (run / "report.json").write_text("poem")
    status, out, err = call("verify", run)
    assert (status, out) == (3, "")
    assert "report.json: cannot be read" in err
    assert call("verify", run / "evidence")[0] == 2


def test_cleanup_of_the_embedded_cluster_has_nothing_to_do(call: Call) -> None:
    """The embedded cluster ends with its run."""
    status, out, _ = call("cleanup", "--cluster", "embedded", "--all-expired")
    assert status == 0
    assert "ends with its run" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--run", "20260101T0-x"], "nothing of run 20260101T0-x is there"),
        (["--all-expired"], "nothing of this plugin"),
    ],
)
def test_cleanup_that_finds_nothing_says_what_it_looked_for(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """An id with a slip in it is not taken for a clean cluster."""
    (tmp_path / "there.yaml").write_text(
        "connection: {kubeconfig: k, context: c}\nscheduler: volcano\nqueue: q\ngpu_resource: nvidia.com/gpu\n"
        "gpus_per_node: 8\n"
    )
    monkeypatch.setattr(cleanup, "connect", lambda *_args, **_more: None)
    module = importlib.import_module("pytest_gpucluster.scenario.sweep")
    monkeypatch.setattr(module, "sweep", lambda *_args, **_more: module.Swept((), (), ()))
    status, out, _ = call("cleanup", "--cluster", "there", "--profiles", tmp_path, *words)
    assert status == 0
    assert out.startswith(said)


def test_cleanup_takes_run_and_cluster_from_a_run_folder(call: Call, run: Path) -> None:
    """The folder of a run says which cluster and which run."""
    status, _, err = call("cleanup", run)
    assert status == 2
    assert "unknown cluster 'prod-a'" in err
    assert call("cleanup", run, "--run", "x")[0] == 2


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    """Changes are answered without a request; reading would be a request."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "x",
                "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "x", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            }
        )
    )  # fmt: skip
    connection = cleanup.connect(str(kubeconfig), "x", dry_run=True)
    try:
        for method in ("DELETE", "PATCH", "POST", "PUT"):
            assert (
                connection.call(Ask("delete", "Namespace", method, "/api/v1/namespaces/x", "delete it")) == {}
            )
        assert sum(connection.counter.summary()["requests"].values()) == 0  # type: ignore[attr-defined]
    finally:
        connection.close()


@pytest.mark.usefixtures("sample_suites")
@pytest.mark.parametrize(
    "words",
    [
        ("requirements", "--json", "GANG-001", "GANG-002"),
        ("--json", "requirements", "GANG-001", "GANG-002"),
        ("requirements", "GANG-001", "--json", "GANG-002"),
        ("requirements", "GANG-001", "GANG-002", "--json"),
    ],
)
def test_ids_and_options_of_describe_stand_in_any_order(call: Call, words: tuple[str, ...]) -> None:
    """An option in the middle ends no list."""
    status, out, err = call("describe", *words)
    assert (status, err) == (0, "")
    assert [row["id"] for row in json.loads(out)] == ["GANG-001", "GANG-002"]
