"""Faults that are planted in a cluster that is up: each returns what shows that it happened, or raises `NotPlanted`."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.kind import gpu_plugin, waiting

from . import addons, burner, declared, machine, members, places, processes
from .failure import Failed
from .processes import Process
from .settings import Settings

END = 10.0
"""Seconds within which a process that was killed has to be gone."""
AGAIN = 60.0
"""Seconds within which a node offers what its plugin tells."""
KILLED = 137
"""The code with which a container ends whose first process was killed."""
ALL_DEVICES = f"{declared.NAME}-all-devices"
"""The profile whose pods get all device files of their node."""
AWAY = "node-role.kubernetes.io/control-plane"
"""A label of nodes on which the fake device plugin does not run."""

Obj = dict[str, Any]


class NotPlanted(Failed):
    """A fault that did not happen: what a row says beside it shows nothing."""


def node_of(settings: Settings, name: str) -> places.Node:
    """Return a node by its name.

    Raises:
        NotPlanted: there is none of that name.
    """
    for node in settings.nodes:
        if node.name == name:
            return node
    raise NotPlanted(f"no node {name!r}: there are {', '.join(node.name for node in settings.nodes)}")


def plugin_restarted(settings: Settings, node: places.Node, beside: Obj | None = None) -> str:
    """Kill the device plugin of a node, and wait until another one offers all of its GPUs.

    Args:
        settings: of the cluster.
        node: whose plugin.
        beside: a pod that must run when the plugin is gone.
    """
    before = _plugin(settings, node)
    _killed(before, f"the device plugin of {node.name}")
    there = "" if beside is None else _still(settings, beside)
    after = _another(settings, node, before)
    _offers(node, _count(settings, node))
    return (
        f"the device plugin of {node.name}, process {before.pid}, was killed{there}; process {after.pid} took its "
        f"place, and the node offers {_count(settings, node)} again"
    )


def plugin_away(settings: Settings, node: places.Node) -> str:
    """Kill the device plugin of a node, and keep it away until `plugin_back`."""
    before = _plugin(settings, node)
    if settings.devices == "fake":
        _label(node, "")
    else:
        _file(node, "hold").touch()
        _killed(before, f"the device plugin of {node.name}")
    _offers(node, 0)
    if before.lives():
        raise NotPlanted(f"the device plugin of {node.name}, process {before.pid}, runs on")
    return (
        f"the device plugin of {node.name}, process {before.pid}, is gone and stays away; the node offers 0"
    )


def plugin_back(settings: Settings, node: places.Node) -> str:
    """Let the device plugin of a node come back."""
    if settings.devices == "fake":
        _label(node, None)
    else:
        _file(node, "hold").unlink(missing_ok=True)
    _offers(node, _count(settings, node))
    return f"{node.name} offers {_count(settings, node)} again"


def gpu_left_out(settings: Settings, node: places.Node, gpu: int) -> str:
    """Let the device plugin of a node leave one of its GPUs out, until `gpu_back`."""
    if settings.devices == "nvidia" and gpu not in node.gpus:
        raise NotPlanted(f"{node.name} has the GPUs {', '.join(map(str, node.gpus))}, not {gpu}")
    # Of the fake ones, which are all alike, the last one goes.
    _file(node, "sees").write_text(" ".join(str(each) for each in node.gpus if each != gpu))
    _told_anew(settings, node, _count(settings, node) - 1)
    return f"{node.name} offers {_count(settings, node) - 1} of its {_count(settings, node)} GPUs"


def gpu_back(settings: Settings, node: places.Node) -> str:
    """Let the device plugin of a node tell all of its GPUs again."""
    _file(node, "sees").unlink(missing_ok=True)
    _told_anew(settings, node, _count(settings, node))
    return f"{node.name} offers all of its {_count(settings, node)} GPUs"


def member_killed(settings: Settings, pod: Obj) -> str:
    """Kill the first process of a pod, and with it all others of its container; wait until its kubelet tells of it."""
    metadata = pod["metadata"]
    where = f"Pod/{metadata['name']} on {pod['spec']['nodeName']}"
    id_ = members.container(pod)
    found = processes.of_container(str(metadata["uid"]), id_, settings.control_groups)
    if not found:
        raise NotPlanted(f"{where}: no process of it was found below the control group of its pod")
    first, *others = found
    if first.inner != 1:
        raise NotPlanted(f"{where}: process {first.pid} is not the first one of its container")
    _killed(first, f"the first process of {where}")
    left = [each.pid for each in others if not each.ends(END)]
    if left:
        raise NotPlanted(f"{where}: the processes {left} still run after the first one was killed")
    try:
        code = members.exit_code(pod, END * 3)
    except Failed as error:
        raise NotPlanted(f"{where}: {error}") from None
    if code != KILLED:
        raise NotPlanted(f"{where}: its container ended with {code}; one that was killed ends with {KILLED}")
    return f"{where}: process {first.pid} and {len(others)} more were killed, and it ended with {KILLED}"


@contextlib.contextmanager
def gpu_burned(settings: Settings, gpu: int) -> Iterator[Callable[[], str]]:
    """Let a second process multiply on one GPU for as long as this lasts; yield what tells how much it did.

    It changes no clock, no limit and no mode of the GPU.
    """
    if settings.devices == "fake":
        raise NotPlanted("the GPUs of this cluster are not there: none can be kept busy")
    uuid = machine.uuids(settings.libraries).get(gpu)
    if uuid is None:
        raise NotPlanted(f"NVML knows no GPU {gpu}")
    process = burner.start(uuid, settings.search)
    burning = burner.Reader(process)

    def report() -> str:
        products, seconds = burning.done()
        if products == 0:
            raise NotPlanted(f"GPU {gpu}: process {process.pid} does not compute any more")
        return f"GPU {gpu} ({uuid}): process {process.pid} made {products} products in {seconds:.0f} s, and goes on"

    try:
        if not burning.begun():
            raise NotPlanted(f"GPU {gpu}: process {process.pid} does not begin to compute")
        yield report
    finally:
        process.kill()
        process.wait()


def all_devices(settings: Settings) -> str:
    """Write a profile like that of the cluster, whose pods get all device files by a hostPath volume."""
    profile = declared.read()
    source = target = "/dev"
    if settings.devices == "fake":
        # Files that the payload takes for devices of a cluster that only plays them.
        folder = places.STATE / "devices"
        folder.mkdir(exist_ok=True)
        for number in range(settings.fake_gpus):
            (folder / f"gpu{number}").touch()
        source, target = str(folder), "/dev/gpucluster"
    spec = profile["overlay"]["spec"]
    spec["volumes"].append({"name": "all-devices", "hostPath": {"path": source}})
    container = spec["containers"][0]
    container["volumeMounts"].append({"name": "all-devices", "mountPath": target})
    # The control group of devices is closed for all others.
    container["securityContext"] = {"privileged": True}
    text = yaml.safe_dump(profile, sort_keys=False)
    declared.file().with_name(f"{ALL_DEVICES}.yaml").write_text(text, encoding="utf-8")
    return f"the profile {ALL_DEVICES}: every container mounts {source} at {target} and is privileged"


def _plugin(settings: Settings, node: places.Node) -> Process:
    """Return the process of a node's device plugin.

    Raises:
        NotPlanted: it does not run.
    """
    process = None
    if settings.devices == "fake":
        for pod in addons.api().list(objects.POD, gpu_plugin.NAMESPACE):
            if pod["spec"].get("nodeName") == node.name and members.runs(pod):
                uid, id_ = str(pod["metadata"]["uid"]), members.container(pod)
                process = next(iter(processes.of_container(uid, id_, settings.control_groups)), None)
    else:
        inner = int(_file(node, "pid").read_text())
        first = int((places.STATE / "cluster.pid").read_text().split()[0])
        process = processes.of_cluster(inner, first)
        # Until it becomes the plugin it is the program that starts it.
        if process is not None and not process.command().startswith("nvidia-device"):
            process = None
    if process is None:
        raise NotPlanted(f"{node.name}: its device plugin does not run")
    return process


def _another(settings: Settings, node: places.Node, before: Process) -> Process:
    """Return the plugin's process that took the place of one that was killed."""
    end = time.monotonic() + AGAIN
    while time.monotonic() < end:
        with contextlib.suppress(NotPlanted, errors.GpuClusterError):
            after = _plugin(settings, node)
            if (after.pid, after.born) != (before.pid, before.born):
                return after
        time.sleep(members.STEP)
    raise NotPlanted(f"{node.name}: no device plugin took the place of process {before.pid}")


def _told_anew(settings: Settings, node: places.Node, count: int) -> None:
    """Let the plugin of a node tell so many GPUs: those that it sees from its next start on."""
    if settings.devices == "fake":
        devices = gpu_plugin.Devices.dealt(count, addons.NUMA_NODES)
        change = {"data": {node.name: json.dumps({addons.RESOURCE: devices.document()})}}
        api = addons.api()
        api.patch(api.info("v1", "ConfigMap"), gpu_plugin.SETTINGS, change, gpu_plugin.NAMESPACE)
    else:
        before = _plugin(settings, node)
        _killed(before, f"the device plugin of {node.name}")
        _another(settings, node, before)
    _offers(node, count)


def _still(settings: Settings, pod: Obj) -> str:
    """Return that a pod runs while the plugin is gone."""
    name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
    if not processes.of_container(uid, members.container(pod), settings.control_groups):
        raise NotPlanted(f"Pod/{name} had ended when the device plugin was killed")
    return f" while Pod/{name} ran"


def _killed(process: Process, what: str) -> None:
    if not process.kill(END):
        raise NotPlanted(f"{what}: process {process.pid} still runs {END:.0f} s after it was killed")


def _count(settings: Settings, node: places.Node) -> int:
    return settings.fake_gpus if settings.devices == "fake" else len(node.gpus)


def _file(node: places.Node, suffix: str) -> Any:
    return places.STATE / f"{node.name}-device-plugin.{suffix}"


def _label(node: places.Node, value: str | None) -> None:
    addons.api().patch(objects.NODE, node.name, {"metadata": {"labels": {AWAY: value}}})


def _offers(node: places.Node, count: int) -> None:
    try:
        waiting.offers(addons.api(), [node.name], addons.RESOURCE, count, AGAIN)
    except (ProviderError, errors.GpuClusterError) as error:
        raise NotPlanted(str(error)) from None
