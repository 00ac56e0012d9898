"""Nodes of an API server on the network, which the sandbox itself cannot reach."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpucluster.node.port_relay import Upstream
from tests.node.fake_api import FakeApi
from tests.node.harness import PODS


def test_nodes_join_an_api_server_by_url(sandboxes: None, short_folder: Path) -> None:
    """With api_url the nodes register and run pods through TCP."""
    with FakeApi(short_folder / "api.sock") as api:
        line = {"api_url": api.url, "state_dir": str(short_folder), "nodes": [{"name": "gpu-0"}]}
        nodes = subprocess.Popen(
            [sys.executable, "-m", "pytest_gpucluster.node"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        nodes.stdin.write(json.dumps(line).encode() + b"\n")
        nodes.stdin.flush()
        assert json.loads(nodes.stdout.readline())["ready"]
        container = {"name": "c", "image": "x", "command": ["true"]}
        spec = {"nodeName": "gpu-0", "restartPolicy": "Never", "containers": [container]}
        api.create(PODS, {"kind": "Pod", "metadata": {"name": "far"}, "spec": spec})
        api.wait(lambda: api.get(f"{PODS}/far")["status"]["phase"] == "Succeeded")
        nodes.communicate()
        assert nodes.returncode == 0


def test_server_that_is_not_there(sandboxes: None, short_folder: Path) -> None:
    """A URL where nobody listens is told in one line."""
    line = {"api_url": "http://127.0.0.1:9", "state_dir": str(short_folder), "nodes": [{"name": "gpu-0"}]}
    nodes = subprocess.Popen(
        [sys.executable, "-m", "pytest_gpucluster.node"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    nodes.stdin.write(json.dumps(line).encode() + b"\n")
    nodes.stdin.flush()
    assert "the API server at 127.0.0.1:9 cannot be reached" in json.loads(nodes.stdout.readline())["error"]
    assert nodes.wait(10) == 2
    nodes.communicate()


@pytest.mark.parametrize("url", ["ftp://x", "https://", "kubernetes"])
def test_wrong_urls(url: str) -> None:
    """A URL that is none is refused by name."""
    with pytest.raises(ValueError, match="api_url must be"):
        Upstream.from_config({"api_url": url})


def test_url_is_read() -> None:
    """Port and path have their defaults, and TLS goes with https."""
    plain = Upstream.from_config({"api_url": "http://a/prefix/"})
    assert (plain.host, plain.port, plain.path, plain.tls) == ("a", 80, "/prefix", None)
    secure = Upstream.from_config({"api_url": "https://a:6443", "api_insecure": True})
    assert (secure.port, secure.tls is not None) == (6443, True)
    with pytest.raises(ValueError, match="cannot be used"):
        Upstream.from_config({"api_url": "https://a", "api_ca": "/nosuch"})
