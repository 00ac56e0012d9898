"""Restarting a node: by a command, or at the socket of nodes that are played."""

import http.server
import socketserver
import threading

import pytest

from pytest_gpucluster.provider import ProviderError, power


def test_a_command_gets_the_node_and_its_environment(tmp_path):
    """`{node}` stands for the node; no shell is in between."""
    script = tmp_path / "restart"
    script.write_text('#!/bin/sh\nprintf "%s %s" "$1" "$ENGINE" > "$2"\n')
    script.chmod(0o755)
    facts = power.by_command(
        str(script), "{node}", str(tmp_path / "said"), environment={"ENGINE": "unix://x"}
    )
    power.reboot(facts, "w 1; true")
    assert (tmp_path / "said").read_text() == "w 1; true unix://x"


def test_a_command_that_fails_is_one_line():
    """What it said is in the error."""
    with pytest.raises(ProviderError, match="exit status 3"):
        power.reboot(power.by_command("sh", "-c", "exit 3"), "n")


@pytest.mark.parametrize("facts", [{}, {"reboot": {}}, {"reboot": {"argv": []}}, {"reboot": "yes"}])
def test_facts_that_do_not_say_how(facts):
    """A cluster that says nothing cannot be asked."""
    with pytest.raises(ProviderError, match="has no way to restart its nodes"):
        power.reboot(facts, "n")


class _Machine(http.server.BaseHTTPRequestHandler):
    """Takes one request."""

    def do_POST(self):
        """Know one node."""
        known = self.headers["Host"] == "n1" and self.path == "/reboot"
        self.send_response(202 if known else 404)
        self.end_headers()
        self.wfile.write(b"" if known else b"no such node")

    def log_message(self, *args):
        """Say nothing."""

    def address_string(self):
        return "unix"


def test_played_nodes_take_the_request_at_their_socket(tmp_path):
    """The Host of the request names the node; what they refuse is told."""
    path = str(tmp_path / "k.sock")
    with socketserver.ThreadingUnixStreamServer(path, _Machine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            power.reboot(power.by_socket(path), "n1")
            with pytest.raises(ProviderError, match="node n2 cannot be restarted: no such node"):
                power.reboot(power.by_socket(path), "n2")
        finally:
            server.shutdown()
            thread.join()
    with pytest.raises(ProviderError, match="cannot be restarted"):
        power.reboot(power.by_socket(str(tmp_path / "gone.sock")), "n1")
