"""The sandbox: where it is refused, and that nothing of it is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpucluster.node import sandbox
from tests.node.fake_api import FakeApi
from tests.node.harness import Nodes, sandbox_processes, started


def fake_unshare(folder: Path, script: str) -> str:
    """Write a program that stands for unshare."""
    program = folder / "unshare"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_probe_names_the_refusal(tmp_path: Path) -> None:
    """A machine that refuses user namespaces is told in one line, with the words of unshare."""
    refusing = fake_unshare(tmp_path, "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    assert sandbox.probe(refusing) == (
        "user namespaces are refused on this machine (unshare: Operation not permitted); "
        "rows that need running pods cannot be decided"
    )


def test_probe_tells_mounts_from_namespaces(tmp_path: Path) -> None:
    """A machine that allows namespaces but no mounts in them is told as such."""
    refusing = fake_unshare(tmp_path, "echo 'mount: /proc: permission denied.' >&2; exit 32")
    line = sandbox.probe(refusing)
    assert line is not None
    assert line.startswith("mounts in a user namespace are refused on this machine (mount: /proc")


def test_probe_without_the_program(tmp_path: Path) -> None:
    """A machine without util-linux is told what to install."""
    line = sandbox.probe(str(tmp_path / "nosuch"))
    assert line is not None
    assert "is not installed" in line


def test_refusal_is_the_answer_of_the_process(tmp_path: Path) -> None:
    """Where namespaces are refused the process answers an error line and ends with code 2."""
    fake_unshare(tmp_path, "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    line = {"api_socket": "/nosuch", "state_dir": str(tmp_path), "nodes": [{"name": "n"}]}
    done = subprocess.run(
        [sys.executable, "-m", "pytest_gpucluster.node"], input=json.dumps(line) + "\n", text=True,
        capture_output=True, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"].startswith("user namespaces are refused")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("nonsense", "no JSON"),
        ({"nodes": [{"name": "n"}]}, "api_socket"),
        ({"nodes": [{"name": "n", "gpu": 1}]}, "did you mean 'gpus'"),
        ({"defects": ["network.dns-silence"]}, "did you mean 'network.dns-silent'"),
        ({"nodes": [{"name": "n", "topology_policy": "strict"}]}, "unknown topology policy"),
    ],
)
def test_wrong_configuration_is_told_in_one_line(line: object, part: str, tmp_path: Path) -> None:
    """A configuration that cannot be used ends the process with one clear line and code 2."""
    if isinstance(line, dict):
        base = {} if part == "api_socket" else {"api_socket": "/nosuch"}
        line = json.dumps({**base, "state_dir": str(tmp_path), "nodes": [{"name": "n"}], **line})
    done = subprocess.run(
        [sys.executable, "-m", "pytest_gpucluster.node"],
        input=f"{line}\n",
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert part in json.loads(done.stdout)["error"]


def test_api_server_that_cannot_be_reached(sandboxes: None, short_folder: Path) -> None:
    """Without an API server the nodes do not start, and say why."""
    line = {
        "api_socket": str(short_folder / "nosuch"),
        "state_dir": str(short_folder),
        "nodes": [{"name": "n"}],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_gpucluster.node"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(json.dumps(line) + "\n")
    process.stdin.flush()
    assert "the API server does not take the nodes" in json.loads(process.stdout.readline())["error"]
    assert process.wait(10) == 2
    process.communicate()


def busy(nodes: Nodes) -> None:
    """Have a pod with a process that ignores TERM, and one with children of its own."""
    nodes.run("stubborn", "trap '' TERM INT; sleep 3600 & sleep 3600 & echo up; wait; wait; wait")
    nodes.wait_phase("stubborn", "Running")
    assert len(nodes.running_processes()) >= 4


def assert_gone(folder: Path) -> None:
    """Wait until no process of the sandbox is left, then look for mounts and devices on the host."""
    deadline = time.monotonic() + 5
    while sandbox_processes(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sandbox_processes(folder) == []
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert not Path("/sys/class/net/pods0").exists()


ENDS: dict[str, Callable[[Nodes], None]] = {
    "input ends": lambda nodes: nodes.process.stdin.close(),
    "SIGTERM": lambda nodes: nodes.process.send_signal(signal.SIGTERM),
    "Ctrl-C": lambda nodes: nodes.process.send_signal(signal.SIGINT),
    "supervisor killed": lambda nodes: nodes.process.kill(),
    "agent killed": lambda nodes: os.kill(agent_pid(nodes), signal.SIGKILL),
    "unshare killed": lambda nodes: os.kill(parent_of(agent_pid(nodes)), signal.SIGKILL),
}


def agent_pid(nodes: Nodes) -> int:
    """Return the agent's process id on the host: the eldest process of the sandbox."""
    found = [p for p in nodes.running_processes() if b"--inside" in Path(f"/proc/{p}/cmdline").read_bytes()]
    return max(found)


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_behind(how: str, sandboxes: None, short_folder: Path) -> None:
    """However the nodes end, no process, mount or network device of theirs stays."""
    with started(short_folder / "s") as nodes:
        busy(nodes)
        ENDS[how](nodes)
        nodes.process.wait(10)
        assert_gone(short_folder)


def test_killed_owner_takes_the_sandbox_along(sandboxes: None, short_folder: Path) -> None:
    """When the process that started the nodes is killed, they end, with all pods."""
    with FakeApi(short_folder / "api.sock") as api:
        line = {"api_socket": api.socket, "state_dir": str(short_folder), "nodes": [{"name": "gpu-0"}]}
        code = (
            "import subprocess, sys\n"
            "p = subprocess.Popen([sys.executable, '-m', 'pytest_gpucluster.node'], stdin=subprocess.PIPE)\n"
            "p.stdin.write(sys.argv[1].encode() + b'\\n'); p.stdin.flush(); p.wait()\n"
        )
        owner = subprocess.Popen([sys.executable, "-c", code, json.dumps(line)], stdout=subprocess.PIPE)
        assert json.loads(owner.stdout.readline())["ready"]
        assert sandbox_processes(short_folder)
        owner.kill()
        owner.wait()
        owner.stdout.close()
        assert_gone(short_folder)


def test_owner_pid_is_watched(sandboxes: None, short_folder: Path) -> None:
    """The nodes end with the process named as owner, though their input stays open."""
    owner = subprocess.Popen(["sleep", "3600"])
    with started(short_folder / "s", owner_pid=owner.pid) as nodes:
        owner.kill()
        owner.wait()
        assert nodes.process.wait(10) == 0
        assert_gone(short_folder)


def python_for_others() -> tuple[str, ...] | None:
    """Return a command that runs Python with what the nodes need as the user nobody."""
    path = "PYTHONPATH=" + ":".join(sys.path)
    for program in (sys.executable, "/usr/bin/python3"):
        # `env` stands between, since setpriv itself still has the powers of root when it starts a program.
        python = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", path, program)
        trial = subprocess.run(
            [*python, "-c", "import pytest_gpucluster.node.agent"], capture_output=True, check=False
        )
        if trial.returncode == 0:
            return python
    return None


@pytest.mark.skipif(
    os.getuid() != 0, reason="needs root to become somebody else; all tests run as one otherwise"
)
def test_works_as_an_ordinary_user(sandboxes: None, short_folder: Path) -> None:
    """An ordinary user can run nodes and pods; volumes in /etc and /root find their places."""
    short_folder.chmod(0o777)
    (short_folder / "s").mkdir()
    (short_folder / "s").chmod(0o777)
    python = python_for_others()
    if python is None:
        pytest.skip("no Python with the needed packages is readable for others")
    with started(short_folder / "s", python, open_socket=True) as nodes:
        mounts = [{"name": "v", "mountPath": "/etc/volcano"}, {"name": "v", "mountPath": "/root/.ssh"}]
        said = nodes.output(
            "plain-user", "id -u; echo x > /etc/volcano/f; cat /root/.ssh/f; touch /etc/new /tmp/new && hostname",
            container={"volumeMounts": mounts}, volumes=[{"name": "v", "emptyDir": {}}],
        )  # fmt: skip
        assert said == "0\nx\nplain-user\n"
