"""The commands decide requirements of a site's own when they are told where these are declared."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_gpucluster
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.log.model import SCHEMA
from pytest_gpucluster.report import decisions, record, suites, write
from pytest_gpucluster.requirement import REGISTRY
from tests.cli.conftest import Call
from tests.report import sample

MODULE = '''
from pytest_gpucluster import requirement
from pytest_gpucluster.requirement import Finding, Verdict


class Scenario:
    name = "rack"


def one_rack(evidence, given):
    """Judge whether the pods lie on few enough nodes."""
    nodes = sorted({line.object["spec"]["nodeName"] for line in evidence.of_kind("Pod")
                    if line.object["spec"].get("nodeName")})
    verdict = Verdict.PASS if len(nodes) <= given["n"] else Verdict.FAIL
    return Finding(verdict, f"at most {given['n']} nodes", f"{len(nodes)} nodes", where=tuple(nodes))


@requirement("SITE-001", level="must", scenario=Scenario(), judge=one_rack, defects=["own.rack"])
def test_own_rack(settle):
    """A small gang stays in one rack.

    All members of a gang of at most 8 GPUs MUST be bound to nodes of one rack.
    """
    settle()
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a site's project with a run of its requirement, in a process that knows no other requirement."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(REGISTRY, "_by_id", {})
    monkeypatch.setattr(suites, "location", lambda: None)
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "test_own_rack.py").write_text(MODULE, encoding="utf-8")
    evidence = sample.write_evidence(
        tmp_path / "run" / "evidence" / "rack.jsonl", sample.evidence_lines("rack", partial=True)
    )
    row = suites.load_suites(["checks/test_own_rack.py"]).get("SITE-001")
    journal = record.Journal(tmp_path / "run" / record.JOURNAL)
    journal.run_start(
        run="r", plugin=pytest_gpucluster.__version__, command=[], cluster={}, profile={}, sources={},
        evidence_schema=SCHEMA,
    )  # fmt: skip
    journal.requirement(
        row, decisions.decide(row, ingest.read(evidence)), evidence=evidence,
        nodeid="checks/test_own_rack.py::test_own_rack",
    )  # fmt: skip
    journal.site_test("checks/test_own.py::test_x", "passed", title="x")
    journal.cleanup([])
    journal.run_end(exit_status=0, interrupted=False)
    write.write_all(tmp_path / "run")
    REGISTRY._by_id.clear()
    del sys.modules["test_own_rack"]
    yield tmp_path
    sys.modules.pop("test_own_rack", None)


def test_verify_says_how_to_name_the_module(call: Call, site: Path) -> None:
    """Nothing is taken on trust: without its module the row is not verified, in one line that says what to do."""
    status, out, _ = call("verify", "run")
    assert (status, out.splitlines()) == (
        2,
        [
            "note: 1 test of the site's own: asserted, not decided again",
            (
                "not verified: SITE-001: cannot be decided again: declared in checks/test_own_rack.py; "
                "name it with --module checks/test_own_rack.py"
            ),
            (
                "verified: 0 verdicts decided again from evidence, 7 files as sealed; made again and the same: "
                "report.json, report.html, junit.xml, ctrf.json, report.md"
            ),
            f"digest: {record.sha256(site / 'run' / record.REPORT)}",
            (
                "answer: not verified: 1 row could not be decided again; it was recorded as: Undecided: no MUST row of "
                "the catalogue passed: 1 requirement and 1 test of the site's own say nothing of the documents"
            ),
        ],
    )


def test_verify_decides_with_the_module(call: Call, site: Path) -> None:
    """The verdict is reached again, and one that was changed is found."""
    status, out, _ = call("verify", "run", "--module", "checks/test_own_rack.py")
    assert status == 1
    assert "verified: 1 verdict decided again from evidence, 7 files as sealed" in out
    assert out.splitlines()[-1].startswith("answer: Undecided: no MUST row of the catalogue passed")
    path = site / "run" / "report.json"
    path.write_text(path.read_text().replace('"verdict": "pass"', '"verdict": "fail"'))
    status, out, _ = call("verify", "run", "--module", "checks/test_own_rack.py")
    assert status == 3
    assert "differs: SITE-001: the record says fail, but the evidence says pass" in out


def test_judge_decides_with_the_module(call: Call, site: Path) -> None:
    """As any row, and the line that repeats it names the module."""
    words = ("judge", "run/evidence/rack.jsonl", "--requirement", "SITE-001")
    status, out, _ = call(*words, "--module", "checks/test_own_rack.py", "--given", "n=1")
    assert status == 1
    assert out.startswith("VIOLATION SITE-001: A small gang stays in one rack")
    assert (
        "gpucluster judge run/evidence/rack.jsonl --requirement SITE-001 --module checks/test_own_rack.py"
        in out
    )


def test_describe_shows_the_sites_rows_after_the_catalogue(call: Call, site: Path) -> None:
    """In the table, and in full; without the module they are not there."""
    _, out, _ = call("describe", "requirements", "--module", "checks/test_own_rack.py")
    assert " ".join(out.splitlines()[-2].split()) == "SITE-001 must yes A small gang stays in one rack"
    assert out.splitlines()[-1] == "1 of 142 rows have a test"
    _, out, _ = call("describe", "requirements", "SITE-001", "--module", "checks/test_own_rack.py")
    assert "MUST be bound to nodes of one rack" in out
    assert "where       test_own_rack:test_own_rack" in out
    (row,) = json.loads(
        call("describe", "requirements", "SITE-001", "--json", "--module", "checks/test_own_rack.py")[1]
    )
    assert (row["area"], row["documents"], row["defects"], row["built"]) == ("site", [], ["own.rack"], True)


def test_describe_shows_what_the_sites_rows_declare_of_defects(call: Call, site: Path) -> None:
    """A defect that only a row of the site's names is one that this version does not plant."""
    _, out, _ = call("describe", "defects", "--module", "checks/test_own_rack.py")
    lines = out.splitlines()
    place = lines.index("own.rack: not planted by this version")
    assert lines[place + 1].strip() == "SITE-001"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["judge", "run", "--requirement", "SITE-001"],
            "unknown requirement 'SITE-001': it belongs to a site; name its module with --module FILE",
        ),
        (
            ["judge", "run", "--requirement", "SITE-010", "--module", "checks/test_own_rack.py"],
            "unknown requirement 'SITE-010' in checks/test_own_rack.py; did you mean 'SITE-001'? (allowed: SITE-001)",
        ),
        (
            ["describe", "requirements", "SITE-001"],
            "it belongs to a site; name its module with --module FILE",
        ),
        (
            ["describe", "requirements", "SITE-002", "--module", "checks/test_own_rack.py"],
            "unknown requirement 'SITE-002' in checks/test_own_rack.py; did you mean 'SITE-001'?",
        ),
        (
            ["describe", "profile", "--module", "checks/test_own_rack.py"],
            "describe profile takes no --module, got 'checks/test_own_rack.py'",
        ),
        (["verify", "run", "--module", "checks/test_own_rac.py"], "did you mean 'checks/test_own_rack.py'?"),
        (
            ["verify", "run", "--module", "checks.test_none"],
            "cannot import checks.test_none: ModuleNotFoundError",
        ),
        (["verify", "run", "--modul", "x"], "verify: unknown option '--modul'; did you mean '--module'?"),
    ],
)
def test_a_mistake_is_one_line(call: Call, site: Path, words: list[str], said: str) -> None:
    """Status 2, what is wrong, and the nearest or what to do."""
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.startswith("gpucluster: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.slow
def test_the_shipped_suites_and_a_sites_module_go_together(site: Path) -> None:
    """In a process of its own, with every shipped row imported first."""
    done = subprocess.run(
        [
            sys.executable, "-c", "import sys; from pytest_gpucluster.cli import main; sys.exit(main())",
            "verify", "run", "--module", "checks/test_own_rack.py",
        ],
        cwd=site, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "verified: 1 verdict decided again from evidence, 7 files as sealed" in done.stdout
    assert "differs" not in done.stdout
