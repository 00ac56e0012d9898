"""The embedded cluster: a control plane and a sandbox with nodes, each a process of its own."""

import importlib.util
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
from pytest_gpucluster.provider import processes, sockets
from pytest_gpucluster.provider.protocol import PODS_RUN, Cluster, ProviderError, Running, Started

CONTROL_PLANE = ("-m", "pytest_gpucluster.embedded")
NODES = ("-m", "pytest_gpucluster.node")

NODE_COUNT = 3
NUMA_PER_NODE = 2
CONTEXT = "embedded"
VERSION = "v1.37.0"
SUBNET = "10.88.0.0/16"

READY_LIMIT = 30.0
"""Seconds for each process to be ready, and for the nodes to report Ready."""


class EmbeddedProvider:
    """Starts both processes and waits until the nodes are Ready."""

    def verify(self, loaded: LoadedProfile) -> None:
        """Nothing outside this package is needed."""
        del loaded

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
        self.pipes: list[processes.Pipe] = []
        self.running: list[Running] = []

    def run(self) -> Started:
        kubeconfig = self.run_folder / "kubeconfig"
        control = self._launch(
            "control plane",
            CONTROL_PLANE,
            control_plane_config(self.loaded, self.folder, self.planted["control plane"], self.owner_pid),
        )
        url = str(control.ready["url"])
        write_kubeconfig(kubeconfig, url)
        facts: dict[str, Any] = {
            "url": url,
            "versions": {"kubernetes": VERSION, **control.ready.get("versions", {})},
            "nodes": [],
        }
        problem = sandbox_problem(self.loaded)
        if problem is None:
            facts["nodes"] = self._start_nodes(url)
        else:
            facts["pods_run_problem"] = problem
        images = image_table(self.loaded)
        if "torch" not in images:
            facts["torch_problem"] = (
                "torch is not installed in this interpreter: pip install pytest-gpucluster[torch]"
            )
        cluster = Cluster(
            name=self.loaded.profile.name,
            provider="embedded",
            kubeconfig=str(kubeconfig),
            context=CONTEXT,
            features=frozenset({PODS_RUN} if problem is None else ()),
            facts=facts,
            images=images,
        )
        return Started(cluster, tuple(self.running), str(self.folder))

    def _start_nodes(self, url: str) -> list[dict[str, Any]]:
        state = self.folder / "nodes"
        state.mkdir()
        config = node_config(self.loaded, self.folder, state, self.planted["nodes"], self.owner_pid)
        self._launch("nodes", NODES, config)
        wanted = [str(node["name"]) for node in config["nodes"]]
        wait_for_nodes(url, wanted, READY_LIMIT, self._log("nodes"))
        return [{"name": name, "gpus": self.loaded.profile.gpus_per_node} for name in wanted]

    def _launch(self, role: str, module: Sequence[str], config: Mapping[str, Any]) -> processes.Launched:
        launched = processes.launch(
            role,
            (sys.executable, *module),
            config,
            self._log(role),
            limit=READY_LIMIT,
            held=self.owner_pid == os.getpid(),
        )
        self.pipes.append(launched.pipe)
        self.running.append(launched.running)
        return launched

    def _log(self, role: str) -> Path:
        return self.run_folder / "logs" / f"{role.replace(' ', '-')}.log"


def control_plane_config(
    loaded: LoadedProfile, folder: Path, defects: Sequence[str], owner_pid: int
) -> dict[str, Any]:
    """Return the configuration line of the control plane."""
    return {
        "host": "127.0.0.1",
        "port": 0,
        "socket": str(folder / "api.sock"),
        "defects": list(defects),
        "scheduler_period": loaded.profile.scheduler_period,
        "version": VERSION,
        "owner_pid": owner_pid,
        "volcano": True,
    }


def node_config(
    loaded: LoadedProfile, folder: Path, state: Path, defects: Sequence[str], owner_pid: int
) -> dict[str, Any]:
    """Return the configuration line of the nodes: three, each with two NUMA halves."""
    profile = loaded.profile
    return {
        "api_socket": str(folder / "api.sock"),
        "nodes": [
            {
                "name": f"gpu-{index}",
                "gpus": profile.gpus_per_node,
                "numa": NUMA_PER_NODE,
                "cpus": 96,
                "memory": "512Gi",
                "labels": {},
            }
            for index in range(NODE_COUNT)
        ],
        "state_dir": str(state),
        "subnet": SUBNET,
        "dns_domain": "cluster.local",
        "gpu_resource": profile.gpu_resource,
        "images": {image: [sys.executable] for image in image_table(loaded).values()},
        "defects": list(defects),
        "owner_pid": owner_pid,
    }


def image_table(loaded: LoadedProfile) -> dict[str, str]:
    """Return role -> image name for the roles that this host can play.

    Both are the running interpreter. Whether torch is there is found without importing it.
    """
    roles = ["python"] if importlib.util.find_spec("torch") is None else ["python", "torch"]
    return {role: loaded.profile.images.get(role, role) for role in roles}


def sandbox_problem(loaded: LoadedProfile) -> str | None:
    """Return why pods cannot run on this host in one line, None when they can."""
    if loaded.profile.nodes == "simulated":
        return "the profile says nodes: simulated"
    from pytest_gpucluster.node import sandbox

    return sandbox.probe()


def write_kubeconfig(path: Path, url: str) -> None:
    """Write the kubeconfig of the embedded cluster, readable by its owner only."""
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": url}}],
        "users": [{"name": CONTEXT, "user": {}}],
        "contexts": [
            {"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}
        ],
        "current-context": CONTEXT,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(data), encoding="utf-8")


def wait_for_nodes(url: str, wanted: Sequence[str], limit: float, log: Path) -> None:
    """Wait on a watch until the nodes are Ready.

    Raises:
        ProviderError: when they are not in time; names those that are missing.
    """
    missing = dict.fromkeys(wanted, "did not register")
    deadline = time.monotonic() + limit
    why = f"within {limit:.0f} s"
    try:
        address = f"{url}/api/v1/nodes?watch=true&timeoutSeconds={int(limit)}"
        with urllib.request.urlopen(address, timeout=limit) as stream:  # noqa: S310 - our own loopback URL
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
