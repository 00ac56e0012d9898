"""The payload of a gang: nobody is ended by the end of the master before it has said that all met."""

import json
import pathlib
import socket
import subprocess
import sys

import pytest

from payloads import gang

PROGRAM = pathlib.Path(gang.__file__)
ADDRESS = "127.0.0.1"


def _port() -> int:
    with socket.create_server((ADDRESS, 0)) as server:
        return int(server.getsockname()[1])


def _events(output: str) -> list[dict]:
    return [json.loads(line.partition(" ")[2]) for line in output.splitlines()]


@pytest.fixture
def master():
    """Start a master of two; return its process, and its port on which it listens."""
    started = []

    def start(within: float) -> tuple[subprocess.Popen[str], int]:
        port = _port()
        # The name of a host leads to it without a dot; one that is an address needs no resolver.
        words = [f"--master={ADDRESS}", f"--port={port}", "--members=2", f"--within={within}"]
        code = (
            f"import runpy, socket, sys; sys.argv = ['gang.py', 'meet', *{words!r}]; "
            f"sys.path.insert(0, {str(PROGRAM.parent)!r}); "
            f"socket.gethostname = lambda: {ADDRESS.partition('.')[0]!r}; "
            f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process, port

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _until(process: subprocess.Popen[str], event: str) -> dict:
    for line in process.stdout:
        told = json.loads(line.partition(" ")[2])
        if told["event"] == event:
            return told
    raise AssertionError(f"the master ended without {event}")


def _join(port: int) -> socket.socket:
    member = socket.create_connection((ADDRESS, port), timeout=20)
    member.sendall(b"worker-0\n")
    assert sorted(json.loads(member.makefile().readline())) == ["127", "worker-0"]
    return member


def test_the_master_ends_after_the_members_have_said_that_they_met(master) -> None:
    """A job that its master completes ends the others: they close their connection when they have said it."""
    process, port = master(60.0)
    _until(process, "listening")
    with _join(port):
        assert _until(process, "barrier")["ok"] is True
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    assert process.wait(20) == 0


def test_the_master_waits_for_a_member_that_hangs_as_long_as_for_any_step(master) -> None:
    """Who never closes its connection keeps the master for `--within` seconds."""
    process, port = master(0.5)
    _until(process, "listening")
    with _join(port):
        assert process.wait(20) == 0


def test_a_master_that_waits_ends_when_it_is_told_to(master) -> None:
    """SIGTERM is not kept waiting for a member that hangs: a kubelet would kill the master."""
    process, port = master(60.0)
    _until(process, "listening")
    with _join(port):
        _until(process, "barrier")
        process.terminate()
        assert process.wait(20) == 0


def test_master_and_member_meet(master) -> None:
    """The member says the barrier, and stays until it is ended."""
    process, port = master(20.0)
    words = [sys.executable, str(PROGRAM), "join", f"--master={ADDRESS}", f"--port={port}", "--members=2"]
    _until(process, "listening")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as member:
        told = _until(member, "barrier")
        assert process.wait(20) == 0
        assert member.poll() is None
        member.terminate()
        assert member.wait(20) == 0
    assert told["ok"] is True
    assert len(told["members"]) == 2
