"""What is wrong with nodes: their kubelets, their devices, their wires."""

import contextlib
from collections.abc import Callable, Iterator

from pytest_gpucluster.provider.kind import gpu_plugin
from tests.kind.lab import Lab, until

KUBELET = "/var/lib/kubelet/config.yaml"


@contextlib.contextmanager
def kubelet_policy(lab: Lab, policy: str) -> Iterator[None]:
    """Give all workers another Topology Manager policy than the profile declares."""
    change = f"sed -i 's/^topologyManagerPolicy:.*/topologyManagerPolicy: {policy}/' {KUBELET}"
    try:
        for node in lab.workers:
            lab.inside(node, f"cp {KUBELET} /root/kubelet.kept; {change}; systemctl restart kubelet")
        _serve(lab)
        yield
    finally:
        for node in lab.workers:
            lab.inside(node, f"mv /root/kubelet.kept {KUBELET}; systemctl restart kubelet")
        _serve(lab)


def _serve(lab: Lab, gpus: int = 8) -> None:
    """Wait until all workers are Ready and offer their GPUs again: a kubelet forgets its plugins when it starts."""
    resource = str(lab.profile["gpu_resource"])

    def ready() -> bool:
        nodes = {node["metadata"]["name"]: node["status"] for node in lab.list("Node")}
        return all(
            nodes[name]["allocatable"].get(resource) == str(gpus)
            and any(c["type"] == "Ready" and c["status"] == "True" for c in nodes[name]["conditions"])
            for name in lab.workers
        )

    until("the workers serve", ready)


@contextlib.contextmanager
def frozen_node(lab: Lab) -> Iterator[None]:
    """Cut a worker off: nothing of it answers, as with a cut cable or a hung machine."""
    name = lab.workers[-1]

    def ready(status: str) -> bool:
        found = lab.get("Node", name)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == status for c in found)

    lab.ask_engine("pause", name)
    try:
        until(f"{name} is missed", lambda: ready("Unknown"), 180)
        yield
    finally:
        lab.ask_engine("unpause", name)
        until(f"{name} is back", lambda: ready("True"))


@contextlib.contextmanager
def devices(
    lab: Lab, settings: Callable[[Lab], gpu_plugin.Settings], settled: Callable[[Lab], None]
) -> Iterator[None]:
    """Let the device plugin say something else of its devices."""
    _tell(lab, settings(lab))
    try:
        settled(lab)
        yield
    finally:
        _tell(lab, {gpu_plugin.DEFAULT: {_gpu(lab): gpu_plugin.Devices.dealt(8)}})
        _serve(lab)


def _tell(lab: Lab, settings: gpu_plugin.Settings) -> None:
    """Give the plugin settings in place of those that it has."""
    new = gpu_plugin.settings_map(settings)
    about, path = new["metadata"], "/data"
    change = [{"op": "replace", "path": path, "value": new["data"]}]
    lab.patch("ConfigMap", about["name"], change, about["namespace"], how="json")


def _gpu(lab: Lab) -> str:
    return str(lab.profile["gpu_resource"])


def without_numa(lab: Lab) -> contextlib.AbstractContextManager[None]:
    """Let no device say on which NUMA node it is."""
    return devices(lab, lambda lab: {gpu_plugin.DEFAULT: {_gpu(lab): gpu_plugin.Devices(8)}}, lambda _: None)


def one_short(lab: Lab) -> contextlib.AbstractContextManager[None]:
    """Let one worker have one GPU less."""
    last = lab.workers[-1]

    def fewer(lab: Lab) -> gpu_plugin.Settings:
        whole, short = gpu_plugin.Devices.dealt(8), gpu_plugin.Devices.dealt(7)
        return {gpu_plugin.DEFAULT: {_gpu(lab): whole}, last: {_gpu(lab): short}}

    def settled(lab: Lab) -> None:
        # Each plugin registers anew when it is told something else: until then its node offers nothing.
        def offered() -> bool:
            nodes = {node["metadata"]["name"]: node["status"] for node in lab.list("Node")}
            return all(
                nodes[name]["allocatable"].get(_gpu(lab)) == ("7" if name == last else "8")
                for name in lab.workers
            )

        until(f"{last} offers 7, and the others 8", offered)

    return devices(lab, fewer, settled)


def last_worker(lab: Lab) -> str:
    """Return the name of the worker that a fault is in."""
    return lab.workers[-1]
