"""The device plugin as Kubernetes objects."""

import json

from payloads import device_plugin
from pytest_gpucluster.provider.kind import gpu_plugin
from pytest_gpucluster.provider.kind.gpu_plugin import Devices

GPU = "nvidia.com/gpu"
SETTINGS = {"default": {GPU: Devices.dealt(8)}, "lab-worker2": {GPU: Devices.dealt(7, unhealthy=(6,))}}


def kinds() -> dict[str, gpu_plugin.Obj]:
    """Return the objects by kind and name."""
    return {f"{o['kind']}/{o['metadata']['name']}": o for o in gpu_plugin.objects("image", SETTINGS)}


def test_the_plugin_reads_what_is_written() -> None:
    """Writer and reader of the settings agree, for a node with settings of its own and for the others."""
    written = gpu_plugin.settings_map(SETTINGS)["data"]
    first = device_plugin.read_settings(written, "lab-worker")[GPU]
    second = device_plugin.read_settings(written, "lab-worker2")[GPU]
    assert [d["topology"]["nodes"][0]["ID"] for d in first] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [d["health"] for d in second] == ["Healthy"] * 6 + ["Unhealthy"]


def test_devices_that_tell_no_topology() -> None:
    """A plugin without NUMA ids, which the inventory must notice."""
    written = gpu_plugin.settings_map({"default": {GPU: Devices(2)}})["data"]
    assert [d["topology"] for d in device_plugin.read_settings(written, "n")[GPU]] == [None, None]


def test_everything_that_the_pod_names_is_applied_before_it() -> None:
    """Account, role, program and settings come first, all in one namespace."""
    objects = gpu_plugin.objects("image", SETTINGS)
    assert objects[0]["kind"] == "Namespace"
    assert objects[-1]["kind"] == "DaemonSet"
    assert {o["metadata"]["namespace"] for o in objects[1:]} == {gpu_plugin.NAMESPACE}
    found = kinds()
    pod = found["DaemonSet/fake-gpus"]["spec"]["template"]["spec"]
    assert f"ServiceAccount/{pod['serviceAccountName']}" in found
    program = next(v["configMap"]["name"] for v in pod["volumes"] if v["name"] == "program")
    assert "v1beta1" in found[f"ConfigMap/{program}"]["data"]["device_plugin.py"]
    argument = next(a for a in pod["containers"][0]["command"] if a.startswith("--config-map="))
    assert f"ConfigMap/{argument.rpartition('/')[2]}" in found


def test_the_account_may_read_its_settings_and_nothing_else() -> None:
    """Least privilege."""
    (rule,) = kinds()["Role/fake-gpus"]["rules"]
    assert rule["resourceNames"] == [gpu_plugin.SETTINGS]
    assert set(rule["verbs"]) == {"get", "list", "watch"}


def test_it_runs_on_every_node_but_those_of_the_control_plane() -> None:
    """Tainted nodes have GPUs too."""
    pod = kinds()["DaemonSet/fake-gpus"]["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "control-plane" in json.dumps(pod["affinity"])


def test_an_overlay_adds_what_an_image_lacks() -> None:
    """Packages that lie on the node, without losing the program's own volumes."""
    overlay = {
        "volumes": [{"name": "venv", "hostPath": {"path": "/venv"}}],
        "volumeMounts": [{"name": "venv", "mountPath": "/venv"}],
        "env": [{"name": "PYTHONPATH", "value": "/venv/lib"}],
        "priorityClassName": "",
    }
    pod = gpu_plugin.daemon_set("image", "ns", overlay)["spec"]["template"]["spec"]
    assert [v["name"] for v in pod["volumes"]] == ["program", "kubelet", "venv"]
    assert [v["name"] for v in pod["containers"][0]["volumeMounts"]] == ["program", "kubelet", "venv"]
    assert [v["name"] for v in pod["containers"][0]["env"]] == ["NODE_NAME", "PYTHONPATH"]
    assert pod["priorityClassName"] == ""
