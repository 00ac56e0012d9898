"""The journal survives what happens to its writers."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_gpucluster.plain import redact
from pytest_gpucluster.report import record, write
from pytest_gpucluster.requirement import Finding, Verdict
from tests.report import sample

WRITER = """
import pathlib, sys
from pytest_gpucluster.report.record import Journal
journal = Journal(pathlib.Path(sys.argv[1]))
journal.run_start(run="r", plugin="1", command=[], cluster={}, profile={}, sources={})
print("ready", flush=True)
while True:
    journal.cleanup(["x" * 5000])
"""


def test_lines_of_many_writers_never_mix(tmp_path: Path) -> None:
    """Writers with file descriptors of their own append whole lines."""
    path = tmp_path / record.JOURNAL

    def many(name: str) -> None:
        for number in range(40):
            record.Journal(path).write("cleanup", left_overs=[name * 300, str(number)])

    threads = [threading.Thread(target=many, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(entries) == 160
    assert {len(entry["left_overs"][0]) for entry in entries} == {300}


def test_a_killed_writer_leaves_a_readable_journal(tmp_path: Path) -> None:
    """After SIGKILL in the middle of writing, the run folds to an interrupted one."""
    path = tmp_path / record.JOURNAL
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    report = record.fold(path)
    assert report["run"]["killed"]
    assert report["answer"]["word"] == "undecided"


def test_a_line_that_was_cut_off_is_told_and_the_next_begins_anew(run: Path) -> None:
    """A fragment of a killed process costs itself only."""
    path = run / record.JOURNAL
    with path.open("ab") as file:
        file.write(b'{"event":"cleanup","left_ov')
    (problem,) = record.fold(path)["problems"]
    assert problem.endswith("of run.jsonl is cut off: the run was killed while writing it")
    record.Journal(path).cleanup(["Pod/late"])
    report = record.fold(path)
    assert "Pod/late" in report["cleanup"]["left_overs"]
    assert "is not an event and was left out" in report["problems"][0]


def test_an_unknown_event_is_refused_at_once(tmp_path: Path) -> None:
    """A word that no reader knows is a mistake of the writer."""
    with pytest.raises(ValueError, match="unknown event 'requiremnt'"):
        record.Journal(tmp_path / "run.jsonl").write("requiremnt")


def test_no_planted_secret_reaches_any_file(tmp_path: Path) -> None:
    """Canaries in every field of the record are in none of the files that are made from it."""
    canary = "CANARY0123456789"
    suite = sample.make_suite()
    journal = record.Journal(tmp_path / record.JOURNAL, redact.Redactor(known=(canary,)))
    journal.run_start(
        run="r",
        plugin="1",
        command=["pytest", f"--gpucluster-set=registry.password={canary}x", "--token", "CANARY-2"],
        cluster={"name": "c", "facts": {"server": f"https://u:{canary}@host", "nodes": [{"name": canary}]}},
        profile={"overlay": {"env": [{"name": "HF_TOKEN", "value": "CANARY-3"}]}},
        sources={"x": canary},
    )
    row = suite.registry.get("GANG-001")
    secret = {"kind": "Secret", "data": {"a": "CANARY-5"}}
    finding = Finding(Verdict.FAIL, "-", f"env HF_TOKEN=CANARY-4 {canary}", facts={"pod": secret})
    journal.requirement(row, finding, text=f"Authorization: Bearer CANARY-6 {canary}", nodeid=canary)
    journal.not_run(suite.registry.get("GANG-002"), f"password=CANARY-7 {canary}")
    journal.site_test(
        f"t.py::test[{canary}]", "failed", title=f"token={canary}", area=canary, scenarios=[canary],
        needs={"capabilities": [canary], "password": "CANARY-8"},
        text=f"E  AssertionError: Authorization: Bearer CANARY-9 {canary}",
    )  # fmt: skip
    journal.cleanup([f"Secret/{canary}"])
    journal.run_end(exit_status=1, interrupted=False)
    written = write.write_all(tmp_path)
    assert len(written) == 6
    for path in tmp_path.iterdir():
        assert "CANARY" not in path.read_text(), path.name
