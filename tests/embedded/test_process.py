"""The process: its protocol, and that it ends with its parent."""

import json
import signal
import subprocess
import sys

import pytest

from tests.embedded.support import PATIENCE, Api

COMMAND = [sys.executable, "-m", "pytest_gpucluster.embedded"]


def start(config):
    """Start a control plane; return its process and ready line."""
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(config) + "\n")
    process.stdin.flush()
    return process, json.loads(process.stdout.readline())


def finish(process):
    """Return the exit status of a process that is ending."""
    try:
        return process.wait(PATIENCE)
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout):
            stream.close()


@pytest.mark.parametrize("how", ["input", "terminate", "interrupt"])
def test_process_ends_when_told(how):
    """End of input, SIGTERM and SIGINT each end the process with status 0, even with a watch open."""
    process, ready = start({"volcano": False})
    watch = Api(ready["url"]).watch("/api/v1/namespaces?watch=1")
    next(watch)
    if how == "input":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM if how == "terminate" else signal.SIGINT)
    assert finish(process) == 0
    watch.close()


def test_process_ends_with_its_owner():
    """When the owner process named in the configuration ends, so does the control plane."""
    owner = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    process, _ = start({"volcano": False, "owner_pid": owner.pid})
    assert process.poll() is None
    owner.kill()
    owner.wait(PATIENCE)
    owner.stdin.close()
    assert finish(process) == 0


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("not json", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"prot": 1}', "unknown configuration keys: prot"),
        ('{"defects": ["none.such"]}', "unknown defects: none.such"),
        ('{"faults": {"none": 1}, "volcano": false}', "unknown faults: none"),
        ('{"host": "192.0.2.1", "volcano": false}', "cannot listen"),
    ],
)
def test_unusable_configuration_is_one_clear_line(line, text):
    """What cannot be used is answered with one error line and exit status 2."""
    done = subprocess.run(
        COMMAND, input=line + "\n", capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2, done.stderr
    assert text in json.loads(done.stdout)["error"]
