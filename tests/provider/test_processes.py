"""Processes by their protocol: started, heard, ended, whoever started them."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from pytest_gpucluster.provider import ProviderError, processes
from pytest_gpucluster.provider.protocol import Running

POLITE = """
import json, sys
config = json.loads(sys.stdin.readline())
print(json.dumps({"ready": True, "heard": config, "pid": __import__("os").getpid()}), flush=True)
sys.stdin.read()
"""

STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdin.readline()
print('{"ready": true}', flush=True)
signal.pause()
"""


@pytest.fixture
def launch(tmp_path):
    """Launch a program given as text; what still runs is ended with the test."""
    launched = []

    def start(text, *, held=True, limit=20.0, config=None):
        found = processes.launch(
            "helper",
            (sys.executable, "-c", text),
            config or {},
            tmp_path / "logs" / "helper.log",
            limit=limit,
            held=held,
        )
        launched.append(found)
        return found

    yield start
    for found in launched:
        processes.end_now(found.pipe)


def _runs(running: Running) -> bool:
    return processes.born(running.pid) == running.born


def test_a_process_hears_its_configuration_and_is_heard(launch):
    """The configuration line arrives, the ready line comes back."""
    found = launch(POLITE, config={"owner_pid": 7})
    assert found.ready["heard"] == {"owner_pid": 7}
    assert found.ready["pid"] == found.running.pid
    assert _runs(found.running)


def test_closing_the_input_ends_a_held_process(launch):
    """A held process ends when this process lets go of its input, and is reaped."""
    found = launch(POLITE)
    found.pipe.close()
    assert not Path(f"/proc/{found.running.pid}").exists()
    found.pipe.close()


def test_a_process_that_is_not_held_outlives_the_pipe_and_ends_on_sigterm(launch):
    """A process left to its owner keeps running when its starter lets go, and ends by pid."""
    found = launch(POLITE, held=False)
    found.pipe.close()
    assert _runs(found.running)
    processes.end(found.running)
    assert not Path(f"/proc/{found.running.pid}").exists()


def test_a_process_that_ignores_sigterm_is_killed(launch, monkeypatch):
    """SIGKILL follows when the grace is over."""
    monkeypatch.setattr(processes, "END_GRACE", 0.2)
    found = launch(STUBBORN)
    processes.end(found.running)
    assert not Path(f"/proc/{found.running.pid}").exists()


def test_a_pid_that_was_used_again_is_left_alone():
    """A process with the pid but another start time is not the one that was started."""
    other = Running("helper", os.getpid(), 1, "")
    processes.end(other)
    assert processes.born(os.getpid()) is not None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys; sys.exit('no bridge: denied')", "ended before it was ready*no bridge: denied"),
        ('print(\'{"error": "port 80 is taken"}\')', "the helper did not start: port 80 is taken"),
        ("print('hello')", "did not answer with JSON: b'hello*its log*is empty"),
        ("import sys; sys.stdin.read()", "was not ready within 0 s*is empty"),
    ],
)
def test_a_process_that_does_not_get_ready_is_told_in_one_line(launch, text, told):
    """What it said, or the end of its log, stands in the error."""
    limit = 0.3 if "not ready within" in told else 20.0
    with pytest.raises(ProviderError) as caught:
        launch(text, limit=limit)
    for part in told.split("*"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_that_does_not_exist_is_told(tmp_path):
    """A program that cannot be started is an error, not a traceback of the operating system."""
    with pytest.raises(ProviderError, match=r"the helper did not start: .*No such file"):
        processes.launch("helper", ("/no/such",), {}, tmp_path / "log", limit=1.0, held=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("held", [True, False])
def test_an_interrupt_while_a_process_is_started_leaves_none(launch, monkeypatch, number, held):
    """A signal that comes between the system call and the note of the process still ends it, and is not lost."""
    pids = []
    spawn = os.posix_spawn

    def interrupted(*args, **options):
        pids.append(spawn(*args, **options))
        signal.raise_signal(number)
        return pids[-1]

    monkeypatch.setattr(os, "posix_spawn", interrupted)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch(POLITE, held=held)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    (pid,) = pids
    assert processes.born(pid) is None


def _open_descriptors():
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one with which the folder itself is read
            found.add((entry.name, str(entry.readlink())))
    return found


def test_no_descriptor_is_left_open(launch):
    """Starting, failing and ending leave no open descriptor behind."""
    before = _open_descriptors()
    launch(POLITE).pipe.close()
    processes.end(launch(POLITE, held=False).running)
    with pytest.raises(ProviderError):
        launch("print(1)")
    # What other tests left to the garbage collector may be closed meanwhile.
    assert _open_descriptors() - before == set()


def test_running_is_plain_data(launch):
    """What another process needs to end it is JSON."""
    found = launch(POLITE)
    data = json.loads(json.dumps(vars(found.running)))
    assert Running(**data) == found.running
