"""The embedded cluster: a control plane and a sandbox with nodes, each a process of its own."""

import base64
import dataclasses
import json
import os
import shutil
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider import defects as planting
from pytest_gpucluster.provider import embedded_config, power, processes, sockets
from pytest_gpucluster.provider.protocol import (
    PODS_RUN,
    REBOOT,
    Cluster,
    EndsWithRun,
    ProviderError,
    Running,
    Started,
)

CONTROL_PLANE = ("-m", "pytest_gpucluster.embedded")
NODES = ("-m", "pytest_gpucluster.node")

MOST_NODES = 64
"""Nodes that one agent plays on a small machine and is still Ready within the limit below."""
KUBELET_SOCKET = "kubelet.sock"
"""Name of the socket below the nodes' folder at which they are asked as kubelets, and as machines."""
CONTEXT = "embedded"
READY_LIMIT = 30.0
"""Seconds for each process to be ready, and for the nodes to report Ready."""


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Nodes that somebody has made.

    Attributes:
        entries: as their agent is told them.
        images: image -> what it stands for.
        features: what the cluster can do besides, because of them.
    """

    entries: tuple[Mapping[str, Any], ...]
    images: Mapping[str, Any]
    features: frozenset[str] = frozenset()


class EmbeddedProvider(EndsWithRun):
    """Starts both processes and waits until the nodes are Ready."""

    def __init__(
        self,
        nodes: int = embedded_config.NODE_COUNT,
        tokens: Sequence[Mapping[str, Any]] = (),
        *,
        cpu_nodes: int = embedded_config.CPU_NODES,
        tls: bool = False,
        made: Nodes | None = None,
        facts: Mapping[str, Any] | None = None,
        switchable: bool = False,
    ) -> None:
        """Take what differs from the cluster of a run.

        Args:
            nodes: how many nodes with GPUs there are.
            tokens: `{token, user, groups}` of users beside the administrator.
            cpu_nodes: how many nodes without GPUs there are.
            tls: whether the kubeconfig leads to a TLS listener: kubectl sends no token over plain HTTP.
            made: nodes in place of played ones.
            facts: what else is known of the cluster.
            switchable: whether defects may be switched while it runs (`provider.switching`); for tests only.
        """
        self._switchable = switchable
        self._made = made
        self._facts = dict(facts or {})
        self._nodes = (nodes, cpu_nodes)
        self._tokens = tuple(tokens)
        self._tls = tls

    def verify(self, loaded: LoadedProfile) -> None:
        """Nothing outside this package is needed."""
        del loaded

    def completed(self, loaded: LoadedProfile) -> LoadedProfile:
        """Return it as it is: all is known."""
        return loaded

    def start(
        self, loaded: LoadedProfile, run_folder: Path, *, defects: Sequence[str], owner_pid: int
    ) -> tuple[Started, Sequence[processes.Pipe]]:
        """Start the cluster.

        Where the host refuses namespaces the control plane runs alone: the cluster then lacks the feature
        `pods-run` and its facts say why.

        Raises:
            ProviderError: a process does not start or the nodes do not become Ready.
        """
        folder = sockets.new_folder(owner_pid)
        begun = _Start(loaded, run_folder.absolute(), folder, planting.split(defects), owner_pid)
        begun.nodes, begun.tokens, begun.tls = (
            self._nodes,
            embedded_config.new_tokens(self._tokens),
            self._tls,
        )
        begun.made, begun.facts, begun.switchable = self._made, self._facts, self._switchable
        try:
            started = begun.run()
        except BaseException:
            for pipe in reversed(begun.pipes):
                processes.end_now(pipe)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return started, begun.pipes


class _Start:
    """One start: what was begun so far is in `pipes` and `running`."""

    def __init__(
        self,
        loaded: LoadedProfile,
        run_folder: Path,
        folder: Path,
        planted: Mapping[str, Sequence[str]],
        owner_pid: int,
    ) -> None:
        self.loaded = loaded
        self.run_folder = run_folder
        self.folder = folder
        self.planted = planted
        self.owner_pid = owner_pid
        self.nodes = (embedded_config.NODE_COUNT, embedded_config.CPU_NODES)
        self.tls = False
        self.made: Nodes | None = None
        self.facts: Mapping[str, Any] = {}
        self.switchable = False
        self.tokens = embedded_config.new_tokens()
        self.pipes: list[processes.Pipe] = []
        self.running: list[Running] = []

    def run(self) -> Started:
        kubeconfig = self.run_folder / "kubeconfig"
        config = embedded_config.control_plane_config(
            self.loaded, self.folder, self.planted["control plane"], self.owner_pid, self.tokens
        )
        # In the run's folder, which is on a disk more often than a folder for temporary files.
        config["volumes"] = str(self.run_folder / "volumes")
        further = {"tls": self.tls, "switchable": self.switchable}
        control = self._launch(
            "control plane", CONTROL_PLANE, config | {k: v for k, v in further.items() if v}
        )
        url = str(control.ready["url"])
        secure = control.ready.get("tls") or {}
        write_kubeconfig(
            kubeconfig,
            secure.get("url", url),
            self.tokens.admin,
            ca=secure.get("ca"),
            users=self.tokens.further,
        )
        facts: dict[str, Any] = {
            "url": url,
            "versions": {"kubernetes": embedded_config.VERSION, **control.ready.get("versions", {})},
            "nodes": [],
            **planting.fact(name for names in self.planted.values() for name in names),
            **self.facts,
        }
        problem = sandbox_problem(self.loaded)
        if problem is None:
            facts["nodes"] = self._start_nodes(url)
            facts |= power.by_socket(str(self.folder / "nodes" / KUBELET_SOCKET))
        else:
            facts["pods_run_problem"] = problem
        images = embedded_config.image_table(self.loaded)
        if "torch" not in images:
            facts["torch_problem"] = "torch is not installed in this interpreter: pip install torch numpy"
        if "etcd" not in images:
            extra = "pip install 'pytest-gpucluster[etcd]'"
            facts["etcd_problem"] = f"etcd is not installed beside this interpreter: {extra}"
        if "mpi" not in images:
            extra = "pip install 'pytest-gpucluster[mpi]'"
            facts["mpi_problem"] = (
                f"Open MPI, mpi4py and asyncssh are not installed beside this interpreter: {extra}"
            )
        cluster = Cluster(
            name=self.loaded.profile.name,
            provider=self.loaded.profile.provider,
            kubeconfig=str(kubeconfig),
            context=CONTEXT,
            features=frozenset({PODS_RUN, REBOOT} if problem is None else ())
            | (self.made.features if self.made else frozenset()),
            facts=facts,
            images=images,
        )
        return Started(cluster, tuple(self.running), str(self.folder))

    def _start_nodes(self, url: str) -> list[dict[str, Any]]:
        state = self.folder / "nodes"
        state.mkdir()
        config = embedded_config.node_config(
            self.loaded,
            self.folder,
            state,
            self.planted["nodes"],
            self.owner_pid,
            count=self.nodes[0],
            cpu_count=self.nodes[1],
        )
        config["api_token"] = self.tokens.nodes
        if self.switchable:
            config["switchable"] = True
        if self.made is not None:
            config["nodes"] = [dict(entry) for entry in self.made.entries]
            config["images"] = {**config["images"], **self.made.images}
        self._launch("nodes", NODES, config)
        wanted = [str(node["name"]) for node in config["nodes"]]
        wait_for_nodes(url, wanted, READY_LIMIT, self._log("nodes"), self.tokens.admin)
        return [{"name": str(node["name"]), "gpus": int(node.get("gpus") or 0)} for node in config["nodes"]]

    def _launch(self, role: str, module: Sequence[str], config: Mapping[str, Any]) -> processes.Launched:
        launched = processes.launch(
            role,
            (sys.executable, *module),
            config,
            self._log(role),
            limit=READY_LIMIT,
            held=self.owner_pid == os.getpid(),
            begun=self.pipes,
        )
        self.running.append(launched.running)
        return launched

    def _log(self, role: str) -> Path:
        return self.run_folder / "logs" / f"{role.replace(' ', '-')}.log"


def sandbox_problem(loaded: LoadedProfile) -> str | None:
    """Return why pods cannot run on this host in one line, None when they can."""
    if loaded.profile.nodes == "simulated":
        return "the profile sets nodes: simulated"
    from pytest_gpucluster.node import sandbox

    return sandbox.probe()


def write_kubeconfig(
    path: Path,
    url: str,
    token: str,
    *,
    ca: str | None = None,
    users: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the kubeconfig of the embedded cluster, readable by its owner only.

    Args:
        path: the file.
        url: where the API server listens.
        token: the administrator's.
        ca: PEM of the certificate that a TLS listener shows.
        users: `{token, user, ...}` of others, each with a context of its name.
    """
    cluster = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    tokens = {CONTEXT: token} | {str(user["user"]): str(user["token"]) for user in users}
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": each}} for name, each in tokens.items()],
        "contexts": [
            {"name": name, "context": {"cluster": CONTEXT, "user": name, "namespace": "default"}}
            for name in tokens
        ],
        "current-context": CONTEXT,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(data), encoding="utf-8")


def wait_for_nodes(url: str, wanted: Sequence[str], limit: float, log: Path, token: str = "") -> None:
    """Wait on a watch until the nodes are Ready.

    Raises:
        ProviderError: when they are not in time; names those that are missing.
    """
    missing = dict.fromkeys(wanted, "did not register")
    deadline = time.monotonic() + limit
    why = f"within {limit:.0f} s"
    try:
        address = f"{url}/api/v1/nodes?watch=true&timeoutSeconds={int(limit)}"
        ask = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310 - our own loopback URL
        with urllib.request.urlopen(ask, timeout=limit) as stream:  # noqa: S310
            while missing and time.monotonic() < deadline:
                line = stream.readline()
                if not line:
                    break
                node = json.loads(line).get("object", {})
                name = node.get("metadata", {}).get("name")
                if name in missing:
                    state = _readiness(node)
                    missing[name] = state
                    if state == "Ready":
                        del missing[name]
    except TimeoutError:
        # Nothing changed for so long: the limit is over.
        pass
    except OSError as error:
        why = f"since the watch of nodes broke: {error}"
    if missing:
        listed = ", ".join(f"{name} ({state})" for name, state in missing.items())
        raise ProviderError(f"nodes were not Ready {why}: {listed}{processes.tail(log)}")


def _readiness(node: Mapping[str, Any]) -> str:
    for condition in node.get("status", {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            if condition.get("status") == "True":
                return "Ready"
            return str(condition.get("message") or condition.get("reason") or "not Ready")
    return "no Ready condition"
