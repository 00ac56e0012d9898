"""How far a run is, while it runs: a line that changes at a terminal, plain lines in a log, nothing with -q."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from pytest_gpucluster.hooks import progress
from tests.inner import QUIET
from tests.plugin.conftest import PLUGIN

pytest_plugins = ["pytester"]

PARTS = {
    "scarce": progress.Part(("GANG-002", "GANG-003"), 30.0),
    "lost": progress.Part(("LIFE-001", "LIFE-002", "LIFE-003", "LIFE-004", "LIFE-005"), 400.0),
}


def board(scenario="scarce", what="waits until all members are bound", limit=120.0, since=90.0, began=80.0):
    """Return the board of a process that does something."""
    made = progress.Board(PARTS)
    made.step = progress.Step(scenario, what, limit, since, began)
    return made


def test_a_line_says_what_is_done_since_when_for_how_long_and_what_is_left():
    """Scenario with its rows, what is waited for, rows decided of all, time left."""
    assert progress.line([board()], frozenset({"LIFE-001"}), 102.0) == (
        "1 of 7 rows decided, about 7 min left; scarce (GANG-002, GANG-003): waits until all members are bound, "
        "12 s of at most 120 s"
    )


OF_LOST = PARTS["lost"].rows
BOUND = "waits until all members are bound"


@pytest.mark.parametrize(
    ("boards", "decided", "told"),
    [
        ([], (), ""),
        ([progress.Board(PARTS)], (), ""),
        ([board("", "the cluster starts", None)], (), "0 of 7 rows decided, about 7 min left; the cluster starts, 12"),
        ([board("lost"), board()], (), f"; lost (LIFE-001, LIFE-002, LIFE-003 and 2 more): {BOUND}, 12 s of at most"),
        ([board("lost"), board()], (), "of at most 120 s; 1 more at work"),
        ([board("lost"), board()], (), "about 3 min left"),
        ([board(), board(since=95.0)], OF_LOST, "5 of 7 rows decided, about 4 s left"),
        ([board("own-stage", since=101.7)], (), f"; own-stage: {BOUND}, under 1 s of at most 120 s"),
    ],
)  # fmt: skip
def test_lines_of_other_moments(boards, decided, told):
    """Before the first step, between scenarios, with several workers, for a scenario that is no row's."""
    line = progress.line(boards, frozenset(decided), 102.0)
    assert told in line if told else line == ""


def test_a_slower_cluster_is_known_by_what_is_over():
    """Scenarios declare what they take on the embedded cluster: 30 s here took 90."""
    told = progress.line(
        [board("lost", since=101.0, began=100.0)], frozenset(PARTS["scarce"].rows), 102.0, 10.0
    )
    assert told.startswith("2 of 7 rows decided, about 20 min left; lost ")


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        ((), "0 of 7 rows decided, at least 7 min left;"),
        (OF_LOST, "5 of 7 rows decided, longer than expected;"),
    ],
)
def test_of_a_scenario_that_takes_longer_nobody_knows_when_it_ends(decided, told):
    """What is left of it is not said to be a second for as long as it takes."""
    assert progress.line([board(began=40.0)], frozenset(decided), 102.0).startswith(told)


def test_what_a_worker_does_is_read_by_another_process_and_goes_with_it(tmp_path):
    """A file that is cut is left out, and so is what another program left."""
    made = progress.Board(PARTS)
    made.share(tmp_path, "gw0")
    made.tell("scarce", "begins")
    began = made.step.began
    made.tell("scarce", "waits", 3.0)
    (tmp_path / "progress-gw1.json").write_text('{"parts": {')
    (tmp_path / "progress-gw2.json").write_text("[1]")
    (found,) = progress.read(tmp_path)
    assert (found.parts, found.step) == (PARTS, made.step)
    assert found.step.began == began
    made.clear()
    assert progress.read(tmp_path) == []
    assert not (tmp_path / "progress-gw0.json").exists()
    made.tell("scarce", "is over")
    assert progress.read(tmp_path) == []


SLOW = """
import time
import doubles
from pytest_gpucluster.hooks import progress_line

progress_line._Output.pause = 0.3
progress_line._Line.pause = 0.1
quick = doubles.Fake.evidence

def slow(self, scenario):
    self.run.board.tell(scenario.name, "waits until all members are bound", 120.0)
    time.sleep(1.0)
    return quick(self, scenario)

doubles.Fake.evidence = slow
doubles.install()
"""
ROWS = ("GANG-001 calm passes", "GANG-002 greedy passes", "LIFE-001 cut passes")
LEFT = r"(?:(?:about|at least) \d+ s left|longer than expected)"
LINE = rf"gpucluster: \d of 3 rows decided, {LEFT}; \w+ \([A-Z0-9-]+\): waits until all members are bound, "

BEGINNING = rf"gpucluster: 0 of 3 rows decided, {LEFT}; the cluster is being started or reached, "
"""What is told meanwhile, which is long enough for a line if the machine is busy."""


@pytest.fixture
def slow(project):
    """A project whose scenarios take a second each."""
    (project.pytester.path / "conftest.py").write_text(SLOW, encoding="utf-8")
    project.rows(*ROWS)
    return project


def at_a_terminal(project, *args, term="xterm", columns=150):
    """Run the project at a terminal and return all that was written to it."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    command = [sys.executable, "-m", "pytest", *PLUGIN, *QUIET, *args]
    environment = {**os.environ, "TERM": term}
    with subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, cwd=project.pytester.path, env=environment
    ) as run:
        os.close(its)
        written = b""
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:
                break  # the other end is closed
            written += some
        run.wait(timeout=60)
    os.close(ours)
    return written.decode()


def screen(written, columns):
    """Return the lines that a terminal shows in the end, drawn by a small VT100."""
    rows, row, column, saved = [""], 0, 0, (0, 0)
    for text in re.findall(r"\x1b\[\??[\d;]*[A-Za-z]|\x1b[78D]|[\r\n]|[^\x1b\r\n]+", written):
        while row >= len(rows):
            rows.append("")
        if text == "\r":
            column = 0
        elif text in {"\n", "\x1bD"}:
            row += 1
        elif text == "\x1b[A":
            row -= 1
        elif text == "\x1b7":
            saved = (row, column)
        elif text == "\x1b8":
            row, column = saved
        elif text == "\x1b[2K":
            rows[row] = ""
        elif not text.startswith("\x1b"):
            assert "rows decided" not in text or column + len(text) < columns, f"would wrap: {text!r}"
            rows[row] = rows[row].ljust(column)[:column] + text + rows[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in rows]


@pytest.mark.slow
def test_at_a_terminal_one_line_changes_and_is_gone_in_the_end(slow):
    """It is never wider than the terminal, and what pytest writes is whole."""
    written = at_a_terminal(slow, columns=120)
    assert len(re.findall(LINE, written)) >= 6
    shown = screen(written, 120)
    assert not [line for line in shown if "rows decided" in line]
    assert [
        line for line in shown if re.match(r"test_rows.py \.\.i|test_rows.py \.i\.|test_rows.py i\.\.", line)
    ]
    assert [line for line in shown if line.startswith("answer ")]


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), ("-v",), ("-n2",)])
def test_in_a_log_plain_lines_stand_alone(slow, args):
    """Each begins its line, nothing of a terminal is in it, and pytest's own words are whole."""
    result = slow.run_apart(*args)
    lines = [line for line in result.stdout.lines if "rows decided" in line]
    assert len([line for line in lines if re.match(LINE, line)]) >= 2
    assert all(re.match(rf"{LINE}|{BEGINNING}", line) for line in lines)
    assert "\x1b" not in result.stdout.str()
    assert result.stdout.lines[-1].count("2 passed")
    assert not list(slow.latest.glob("progress-*"))


@pytest.mark.slow
def test_a_terminal_that_can_do_nothing_gets_plain_lines(slow):
    """TERM=dumb, such as that of an editor."""
    written = at_a_terminal(slow, term="dumb")
    assert re.search(rf"^{LINE}", written, re.MULTILINE)
    assert "\x1b7" not in written


@pytest.mark.slow
def test_a_debugger_has_the_terminal_for_itself(slow):
    """From its first prompt on nothing is drawn."""
    slow.write(test_zz_own="def test_own():\n    import time\n    breakpoint()\n    time.sleep(0.5)\n")
    (slow.pytester.path / ".pdbrc").write_text(
        "import time; time.sleep(0.5); print('at the prompt')\ncontinue\n"
    )
    written = at_a_terminal(slow, "--gpucluster-cluster=embedded", "-p", "no:xdist")
    before, prompt, after = written.partition("at the prompt")
    assert prompt
    assert "rows decided" in before
    assert "rows decided" not in after


@pytest.mark.slow
@pytest.mark.parametrize("args", [("-q",), ("--gpucluster-plan",), ("--collect-only",)])
def test_nothing_is_shown_to_whom_it_would_disturb(slow, args):
    """-q is quiet; a plan runs nothing."""
    written = at_a_terminal(slow, *args)
    assert "rows decided" not in written
    assert "\x1b7" not in written
