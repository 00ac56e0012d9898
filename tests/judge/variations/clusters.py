"""What differs between clusters: names, addresses, makers of GPUs, further nodes, versions."""

import re
from typing import Any

from pytest_gpucluster.evidence import Evidence
from tests.judge.variations.base import Variation, copied, first, more, objects, renamed, watch_line

ADDRESS = re.compile(r"\b10\.88\.(\d+)\.(\d+)\b")


def dual_stack(obj: dict[str, Any]) -> None:
    """Pods, nodes and Services have an IPv6 address beside the other."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if status.get(one):
            status[many] = [{"ip": status[one]}, {"ip": "fd00:10:88::" + status[one].rpartition(".")[2]}]
    if obj.get("kind") == "Service":
        spec.update(ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="PreferDualStack")
        if spec.get("clusterIPs"):
            spec["clusterIPs"] = [
                *spec["clusterIPs"][:1],
                "None" if spec["clusterIPs"][0] == "None" else "fd00::1",
            ]
    if obj.get("kind") == "Node" and status.get("addresses"):
        status["addresses"].append({"type": "InternalIP", "address": "fd00:10:88::ffff"})


RESOLVED = re.compile(r'\\"addresses\\": ?\[\\"(10\.88\.\d+\.(\d+))\\"\]')


def dual_stack_names(evidence: Evidence) -> Evidence:
    """Names of pods have an address of either kind."""
    both = renamed(
        evidence, RESOLVED, lambda found: rf"\"addresses\":[\"{found[1]}\",\"fd00:10:88::{found[2]}\"]"
    )
    return objects(dual_stack)(both)


def ipv6_first(evidence: Evidence) -> Evidence:
    """Pods have two addresses, and names give the one that their status tells second."""

    def change(obj: dict[str, Any]) -> None:
        dual_stack(obj)
        status = obj.get("status") or {}
        for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
            if status.get(one):
                status[many].reverse()
                status[one] = status[many][0]["ip"]

    return objects(change)(evidence)


def ipv6_alone(evidence: Evidence) -> Evidence:
    """There are no other addresses than IPv6."""
    to = re.compile(ADDRESS.pattern + r":(\d+)")
    with_port = renamed(evidence, to, lambda found: f"[fd00:10:88:{found[1]}::{found[2]}]:{found[3]}")
    return renamed(with_port, ADDRESS, lambda found: f"fd00:10:88:{found[1]}::{found[2]}")


NODE = re.compile(r"(?<![\w.-])(gpu|cpu|node)-(\d+)(?![\w-])")


def long_names(evidence: Evidence) -> Evidence:
    """Nodes are named as clouds name them."""
    pools = {"gpu": 1, "cpu": 2, "node": 3}
    return renamed(
        evidence, NODE, lambda found: f"ip-10-0-{pools[found[1]]}-1{found[2]}.eu-west-1.compute.internal"
    )


MAKER = re.compile(r"(?<![\w.-])nvidia\.com/")
NVIDIA = re.compile(r"(?<![\w.])nvidia\.com/gpu(?![\w.-])")


WORDS_OF_AMD = {
    "nvidia.com/cuda.driver-version.full": "amd.com/gpu.driver-version",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "gpu_energy_consumed",
    "DCGM_FI_DEV_GPU_TEMP": "gpu_junction_temperature",
    "DCGM_FI_DEV_POWER_USAGE": "gpu_power_usage",
    "DCGM_FI_DEV_FB_USED": "gpu_used_vram",
    "UUID=": "gpu_uuid=",
    "gpu=": "gpu_id=",
    "Hostname=": "hostname=",
}
"""What AMD's labeller and exporter say in place of NVIDIA's."""
OF_NVIDIA = re.compile(r"(?<![\w.-])(?:" + "|".join(map(re.escape, WORDS_OF_AMD)) + ")")


def other_maker(evidence: Evidence) -> Evidence:
    """GPUs are those of another maker: their resource, their labels, and what their exporter calls its metrics."""
    words = renamed(evidence, OF_NVIDIA, lambda found: WORDS_OF_AMD[found[0]])
    return renamed(words, MAKER, lambda _: "amd.com/")


def own_name(evidence: Evidence) -> Evidence:
    """The GPU resource has a name that the site gave it."""
    return renamed(evidence, NVIDIA, lambda _: "hardware.example/gpu-h100.80gb")


def _node(name: str, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name},
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": [ready],
                   "nodeInfo": {"kubeletVersion": "v1.37.0", "architecture": "arm64", "operatingSystem": "linux"}},
    }  # fmt: skip


def further_nodes(evidence: Evidence) -> Evidence:
    """There are nodes without GPUs: a control plane, a cordoned one, one that is not ready, a virtual one."""
    if not evidence.of_kind("Node"):
        return evidence
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    gone = _node("cpu-gone")
    gone["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    made = [
        _node("control-plane", taints=[taint]),
        _node("cpu-spare", unschedulable=True),
        gone,
        _node("virtual"),
    ]
    made[3]["metadata"]["labels"]["type"] = "virtual-kubelet"
    made[3]["status"]["nodeInfo"]["kubeletVersion"] = ""
    return more(evidence, [watch_line(first(evidence), "Node", node) for node in made])


def restarted_node(evidence: Evidence) -> Evidence:
    """One more node of the same kind is started again meanwhile: not ready, without its devices, then with them."""
    nodes = evidence.of_kind("Node")
    if not nodes:
        return evidence
    ready = copied(nodes[0].object)
    ready["metadata"].update(name="gpu-9", uid="node-gpu-9", resourceVersion="7")
    ready["metadata"]["labels"]["kubernetes.io/hostname"] = "gpu-9"
    down = copied(ready)
    down["status"]["allocatable"] = {**ready["status"]["allocatable"]}
    down["status"]["allocatable"].update(
        {name: "0" for name in ready["status"]["allocatable"] if "/" in name}
    )
    for condition in down["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition.update(status="False", reason="KubeletNotReady", message="container runtime is down")
    begin, span = first(evidence), evidence.end - first(evidence)
    told = [(0.0, ready, "ADDED"), (0.2, down, "MODIFIED"), (0.5, ready, "MODIFIED")]
    return more(evidence, [watch_line(begin + part * span, "Node", node, how) for part, node, how in told])


def watched_nodes(node: dict[str, Any]) -> None:
    """Agents on nodes report further conditions, labels and a taint that only asks."""
    status, labels = node.setdefault("status", {}), node["metadata"].setdefault("labels", {})
    gpus = any(name.startswith("nvidia.com/") for name in [*(status.get("capacity") or {}), *labels])
    labels[f"feature.node.kubernetes.io/pci-{'10de' if gpus else '8086'}.present"] = "true"
    status["conditions"] = [
        {"type": "KernelDeadlock", "status": "False", "reason": "KernelHasNoDeadlock"},
        {"type": "GpuHealthy", "status": "True", "reason": "GpuIsHealthy"},
        {"type": "FrequentContainerdRestart", "status": "Unknown", "reason": "NoFrequentContainerdRestart"},
        *(status.get("conditions") or []),
    ]
    soft = {"key": "example.com/reserved", "value": "training", "effect": "PreferNoSchedule"}
    node.setdefault("spec", {})["taints"] = [*(node["spec"].get("taints") or []), soft]
    status["images"] = [{"names": ["example.com/a@sha256:0", "example.com/a:1"], "sizeBytes": 10_000_000_000}]


def newer(node: dict[str, Any]) -> None:
    """Nodes run a later patch as a cloud built it, on another system and runtime."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    info.update(kubeletVersion="v1.37.9-gke.1047000", containerRuntimeVersion="containerd://2.4.0")
    info.update(osImage="Bottlerocket OS 1.60.0", swap={"capacity": 0})


_PARTS = {"k": 10**3, "M": 10**6, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


def _otherwise(value: Any) -> Any:
    """Return a quantity in another notation of the same amount."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and (found := re.fullmatch(r"(\d+)(k|M|Gi|Mi|Ki)", value)):
        return str(int(found[1]) * _PARTS[found[2]])
    if isinstance(value, str) and re.fullmatch(r"\d+m", value):
        return str(int(value[:-1]) / 1000)
    return value


AMOUNTS = {"requests", "limits", "capacity", "allocatable", "capability", "deserved", "guarantee", "minResources",
           "allocated"}  # fmt: skip


def _written(value: Any) -> None:
    if isinstance(value, list):
        for part in value:
            _written(part)
    if isinstance(value, dict):
        for key, part in value.items():
            if key in AMOUNTS and isinstance(part, dict):
                value[key] = {name: _otherwise(amount) for name, amount in part.items()}
            _written(value[key])


def other_notation(obj: dict[str, Any]) -> None:
    """Amounts are written otherwise: 16777216 for 16Mi, 0.01 for 10m."""
    _written(obj)


VARIATIONS: dict[str, Variation] = {
    "dual-stack": dual_stack_names,
    "ipv6-first": ipv6_first,
    "ipv6-alone": ipv6_alone,
    "long-names": long_names,
    "other-maker": other_maker,
    "own-resource-name": own_name,
    "further-nodes": further_nodes,
    "restarted-node": restarted_node,
    "watched-nodes": objects(watched_nodes, "Node"),
    "newer": objects(newer, "Node"),
    "other-notation": objects(other_notation),
}
"""Name -> variation."""
