"""Ctrl-C and SIGTERM: cleanup happens and the record says so."""

import os
import signal
import subprocess
import sys
import threading
import traceback
import types

import pytest

from pytest_gpucluster.hooks import interrupted
from tests.inner import ALONE
from tests.interrupting import LISTENS_TO_CTRL_C
from tests.plugin.conftest import PLUGIN

pytest_plugins = ["pytester"]

PATIENCE = 60.0


def _interrupt(project, number, *args):
    """Start a run whose scenario hangs, send a signal when it does, return the exit code."""
    project.rows("GANG-001 calm passes", "GANG-002 hangs passes", "GANG-003 greedy passes")
    fifo = project.pytester.path / "fake-cluster.log"
    os.mkfifo(fifo)
    command = [*LISTENS_TO_CTRL_C, sys.executable, "-m", "pytest", *PLUGIN, *ALONE, *args]
    with subprocess.Popen(command, cwd=project.pytester.path, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        hanging = threading.Event()

        def read():
            # Both ends: the pipe must not end between two writers.
            with os.fdopen(os.open(fifo, os.O_RDWR), encoding="utf-8") as pipe:
                for line in pipe:
                    lines.append(line.strip())
                    if line.strip() == "hanging":
                        hanging.set()
                    if line.strip() == "enough":
                        return

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert hanging.wait(PATIENCE), lines
            process.send_signal(number)
            out, _ = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                process.kill()
            with fifo.open("w", encoding="utf-8") as pipe:
                pipe.write("enough\n")
            reader.join(PATIENCE)
    return process.returncode, lines, out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_cleans_up_and_keeps_its_record(project, number):
    """After Ctrl-C and after SIGTERM the cluster is cleaned up and the record ends as interrupted."""
    code, lines, _ = _interrupt(project, number)
    assert code == pytest.ExitCode.INTERRUPTED
    assert lines[-2:] == ["close main", "enough"]
    report = project.report()
    assert report["run"]["interrupted"]
    assert not report["run"]["killed"]
    assert report["cleanup"]["done"]
    assert {row["id"]: row["verdict"] for row in report["requirements"]} == {"GANG-001": "pass"}
    assert {row["id"]: row["why"] for row in report["not_run"]} == {
        "GANG-002": "the run was interrupted before it",
        "GANG-003": "the run was interrupted before it",
    }


def test_sigterm_at_the_controller_reaches_the_workers(project):
    """SIGTERM to the controller of a run with workers lets each clean up, and ends the record."""
    pytest.importorskip("xdist")
    code, lines, _ = _interrupt(project, signal.SIGTERM, "-n1")
    assert code == pytest.ExitCode.INTERRUPTED
    assert "close gw0" in lines
    report = project.report()
    assert report["run"]["interrupted"]
    assert not report["run"]["killed"]


SWALLOWED = """
import os, signal

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(10**6):  # the handler runs between two of these, and what it raises is only printed
            pass

def test_before():
    last = Last()
    del last

def test_after():
    raise AssertionError("the run went on")
"""


def test_a_sigterm_that_python_swallowed_ends_the_run_before_the_next_test(project):
    """What is raised while an object is finalised is printed and forgotten; the run ends all the same."""
    project.rows("GANG-001 calm passes")
    project.pytester.makepyfile(test_z=SWALLOWED)
    result = project.run_apart("-p", "no:unraisableexception")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.no_fnmatch_line("*the run went on*")
    assert project.report()["run"]["interrupted"]


def _raise():
    raise KeyboardInterrupt


def _without_lines(function):
    """Give a function instructions that belong to no line, as CPython 3.11 makes some: eight at most an entry."""
    code = function.__code__
    full, rest = divmod(len(code.co_code) // 2, 8)
    table = bytes([0xFF] * full + ([0xF8 | (rest - 1)] if rest else []))
    return types.FunctionType(code.replace(co_linetable=table), function.__globals__)


def test_an_interrupt_between_two_lines_can_be_shown():
    """Places without a line are left out of the traceback, and pytest can show the rest."""

    def calls():
        _without_lines(_raise)()

    with pytest.raises(KeyboardInterrupt) as caught:
        calls()
    *_, last = traceback.walk_tb(caught.tb)
    assert last[1] is None
    interrupted.pytest_keyboard_interrupt(caught)
    assert caught.getrepr(funcargs=True).reprcrash.path == __file__
    assert all(line is not None for _, line in traceback.walk_tb(caught.tb))
