"""The image of MPI jobs: logins by real keys between pods, as strict as OpenSSH's, and the host's own keys hidden."""

import base64
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.embedded.volcano.plugins.keys import new_key_pair
from pytest_gpucluster.node import images
from tests.node.harness import SECRETS, Nodes, started

pytest.importorskip("asyncssh")

SERVER = "/usr/sbin/sshd; "
ME = "127.0.0.1"


def secret(nodes: Nodes, name: str, **texts: str) -> None:
    """Create a Secret with files."""
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    nodes.api.create(SECRETS, {"kind": "Secret", "metadata": {"name": name}, "data": data})


@pytest.fixture(scope="module")
def nodes(sandboxes: None) -> Iterator[Nodes]:
    """Nodes with the image, a key pair that is authorized and one that is not; pods have names of their own."""
    folder = Path(tempfile.mkdtemp(prefix="gc-", dir="/tmp"))
    with started(folder, images={"mpi": images.mpi(str(Path(sys.executable).parent))}) as running:
        make_secrets(running)
        yield running
    shutil.rmtree(folder)


def make_secrets(running: Nodes) -> None:
    """Create the Secrets that pods mount."""
    ours, theirs = new_key_pair(), new_key_pair()
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nHost me\n  HostName 127.0.0.1\n"
    files = {"id_rsa": ours.private, "authorized_keys": ours.public}
    secret(running, "ours", **files, config=config)
    secret(running, "strict", **files, config="Host me\n  HostName 127.0.0.1\n")
    secret(running, "theirs", **{**files, "id_rsa": theirs.private}, config=config)


def keyed(name: str, mode: int = 0o600) -> dict[str, Any]:
    """Return the parts of a pod that mounts a Secret as the ssh plugin does."""
    return {
        "container": {"image": "mpi", "volumeMounts": [{"name": "keys", "mountPath": "/root/.ssh"}]},
        "volumes": [{"name": "keys", "secret": {"secretName": name, "defaultMode": mode}}],
    }


def said(nodes: Nodes, name: str, script: str, **spec: Any) -> str:
    """Return what a script printed, with its exit code at the end."""
    return nodes.output(name, f"{SERVER}({script}) 2>&1; echo ended with $?", **spec)


def test_a_login_brings_output_input_and_exit_code(nodes: Nodes) -> None:
    """By a name of the configuration, over port 22, also with data from standard input."""
    script = "echo data | ssh -x me 'cat; uname -n; echo other >&2; exit 7'"
    told = said(nodes, "logs-in", script, **keyed("ours"))
    assert sorted(told.split("\n")[:3]) == ["data", "logs-in", "other"]
    assert told.endswith("ended with 7\n")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")
def test_the_client_of_openssh_is_let_in_too(nodes: Nodes) -> None:
    """The server speaks to who wrote the protocol's other half."""
    client = str(shutil.which("ssh"))
    told = said(nodes, "real", f"{client} -q -o BatchMode=yes {ME} 'echo in; exit 3'", **keyed("ours"))
    assert told == "in\nended with 3\n"


@pytest.mark.parametrize(
    ("keys", "script", "text"),
    [
        (keyed("ours", 0o644), "ssh me true", "Permissions 0644 for '/root/.ssh/id_rsa' are too open."),
        (keyed("theirs"), "ssh me true", "Permission denied (publickey)."),
        (keyed("strict"), "ssh me true", "Host key verification failed."),
        (keyed("ours"), "ssh -p 23 me true", "port 23: Connection refused"),
        (keyed("ours"), "ssh nosuch.invalid true", "Could not resolve hostname nosuch.invalid"),
        (keyed("ours", 0o622), "ssh me true", "Bad owner or permissions on /root/.ssh/config"),
        (keyed("ours"), "ssh -o nobody@me", "usage: ssh"),
        ({"container": {"image": "mpi"}}, f"ssh -o StrictHostKeyChecking=no {ME} true", "Permission denied"),
    ],
    ids=["open-key", "other-key", "unknown-host", "no-server", "no-name", "open-config", "no-host", "no-key"],
)
def test_what_openssh_refuses_is_refused(
    nodes: Nodes, request: pytest.FixtureRequest, keys: dict[str, Any], script: str, text: str
) -> None:
    """In its words, with exit code 255."""
    told = said(nodes, f"refused-{request.node.callspec.id}", script, **keys)
    assert text in told
    assert told.endswith("ended with 255\n")


def test_a_server_takes_no_keys_from_a_file_that_others_may_write(nodes: Nodes) -> None:
    """As StrictModes has it; the client's own files are copied, so that they are not what is refused."""
    copied = "mkdir /tmp/k; cp /root/.ssh/id_rsa /tmp/k; chmod 600 /tmp/k/id_rsa; "
    script = f"{copied} ssh -F none -o StrictHostKeyChecking=no -i /tmp/k/id_rsa {ME} true"
    assert "Permission denied" in said(nodes, "loose", script, **keyed("ours", 0o622))
    assert "ended with 0" in said(nodes, "tight", script, **keyed("ours"))


def test_the_image_has_no_keys_of_the_machine(nodes: Nodes) -> None:
    """Its folder of keys is empty, whatever the machine's own account has there."""
    assert (
        nodes.output("bare", "ls -A /root/.ssh; stat -c %a /root/.ssh", container={"image": "mpi"}) == "700\n"
    )


def ready(pod: dict[str, Any]) -> bool:
    """Report whether a pod's container is ready."""
    return any(one["ready"] for one in pod.get("status", {}).get("containerStatuses") or [])


def test_a_server_in_the_foreground_ends_when_it_is_told_to(nodes: Nodes) -> None:
    """The first process of a worker: it ends within the grace period, with 0."""
    listens = {"tcpSocket": {"port": 22}, "periodSeconds": 1}
    nodes.run("worker", "exec /usr/sbin/sshd -D", container={"image": "mpi", "readinessProbe": listens})
    nodes.api.wait(lambda: ready(nodes.pod("worker")), 20, "the server listens")
    nodes.api.delete("/api/v1/namespaces/default/pods/worker", grace=10)
    nodes.api.wait(lambda: nodes.phase("worker") == "gone", 20, "the worker has ended")
    codes = {
        status["state"]["terminated"]["exitCode"]
        for _, obj in nodes.history("worker")
        for status in obj.get("status", {}).get("containerStatuses") or []
        if "terminated" in status["state"]
    }
    assert codes == {0}
