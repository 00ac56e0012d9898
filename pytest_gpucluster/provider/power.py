"""Restart a node's machine: a capability of clusters whose provider has the machines in its hand.

How it is done is plain data in the facts of the cluster, since every process of a run must be able to: `reboot` has
either `socket`, at which the nodes of the embedded cluster take the request, or `argv`, a command in which `{node}`
stands for the node, with `environment` beside ours.
"""

import http.client
import socket
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.provider import commands
from pytest_gpucluster.provider.protocol import REBOOT, ProviderError

LIMIT = 120.0
"""Seconds for a command to return."""


def by_socket(path: str) -> dict[str, Any]:
    """Return the fact of a cluster whose nodes take the request at a Unix socket."""
    return {REBOOT: {"socket": path}}


def by_command(*argv: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the fact of a cluster whose nodes are restarted by a command; `{node}` stands for the node."""
    return {REBOOT: {"argv": list(argv), "environment": dict(environment or {})}}


def reboot(facts: Mapping[str, Any], node: str) -> None:
    """Restart a node; returns when it was taken, not when the node is back.

    Raises:
        ProviderError: the cluster cannot restart nodes, or the request failed; one line.
    """
    how = facts.get(REBOOT)
    if not isinstance(how, Mapping):
        raise ProviderError("this cluster has no way to restart its nodes")
    if how.get("socket"):
        _ask(str(how["socket"]), node)
        return
    argv = [str(word).replace("{node}", node) for word in how.get("argv") or ()]
    if not argv:
        raise ProviderError("this cluster has no way to restart its nodes")
    commands.run(argv, limit=LIMIT, environment=how.get("environment") or {})


def _ask(path: str, node: str) -> None:
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(10.0)
            opened.connect(path)
            connection = http.client.HTTPConnection(node)
            connection.sock = opened
            connection.request("POST", "/reboot")
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise ProviderError(f"node {node} cannot be restarted: {error}") from None
    if answer.status != 202:
        raise ProviderError(f"node {node} cannot be restarted: {text or answer.status}")
