"""Switch planted defects in an embedded cluster that runs: so tests need no cluster per defect.

Only a cluster that was started as switchable takes it, and only from its administrator and from who may open its
nodes' socket; no run starts one.
"""

import dataclasses
import http.client
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from pytest_gpucluster.provider import defects as planting
from pytest_gpucluster.provider.protocol import REBOOT, Cluster, ProviderError

LIMIT = 30.0
"""Seconds for each half to answer: the nodes wait for pods that are ending."""


def switch(cluster: Cluster, defects: Sequence[str]) -> Cluster:
    """Put exactly these defects in force; return the cluster as it then is: its facts name them.

    Where one half refuses, the other may have switched: such a cluster is not to be used any more.

    Raises:
        ProviderError: an unknown defect, one that only a start can plant, a cluster that was not started as
            switchable, or pods on its nodes; one line.
    """
    planting.check_defects(defects, cluster.provider)
    for name in defects:
        if name in planting.at_start():
            raise ProviderError(f"defect {name!r} changes the start of the cluster: it needs its own cluster")
    wanted = planting.split(defects)
    in_force = [
        *_control_plane(cluster, wanted["control plane"]),
        *_nodes(cluster, wanted["nodes"]),
        *wanted["profile"],
    ]
    facts = {key: value for key, value in cluster.facts.items() if key != planting.FACT}
    return dataclasses.replace(cluster, facts={**facts, **planting.fact(in_force)})


def _control_plane(cluster: Cluster, defects: Sequence[str]) -> list[str]:
    where = urlsplit(str(cluster.facts["url"]))
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=LIMIT)
    headers = {"Authorization": f"Bearer {_token(cluster)}", "Content-Type": "application/json"}
    answer = _put(connection, "control plane", "/debug/defects", {"defects": list(defects)}, headers)
    return [str(name) for name in answer["defects"]]


def _nodes(cluster: Cluster, defects: Sequence[str]) -> list[str]:
    path = cluster.facts.get(REBOOT, {}).get("socket")
    if path is None:
        if defects:
            raise ProviderError(f"defect {defects[0]!r} is a defect of nodes, but this cluster runs none")
        return []
    connection = http.client.HTTPConnection("nodes")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(LIMIT)
    try:
        connection.sock.connect(str(path))
    except OSError as error:
        connection.close()
        raise ProviderError(f"defects of the nodes cannot be switched: {error}") from None
    return [str(name) for name in _put(connection, "nodes", "/defects", list(defects), {})]


def _token(cluster: Cluster) -> str:
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    return str(config["users"][0]["user"]["token"])


def _put(
    connection: http.client.HTTPConnection, who: str, path: str, body: Any, headers: Mapping[str, str]
) -> Any:
    try:
        connection.request("PUT", path, json.dumps(body), dict(headers))
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise ProviderError(f"defects of the {who} cannot be switched: {error}") from None
    finally:
        connection.close()
    if answer.status == http.client.NOT_FOUND:
        raise ProviderError(f"defects of the {who} cannot be switched: this cluster was not started for this")
    if answer.status != http.client.OK:
        raise ProviderError(f"defects of the {who} cannot be switched: {_reason(text)}")
    return json.loads(text)


def _reason(text: str) -> str:
    """Return what an answer says: the message of a Status, or the text itself."""
    try:
        status = json.loads(text)
    except ValueError:
        return text
    return str(status.get("message", text)) if isinstance(status, dict) else text
