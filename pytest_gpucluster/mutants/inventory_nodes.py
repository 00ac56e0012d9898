"""Departures of nodes, queue, versions, configuration and defaults: what the inventory scenario reads."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import EVERY_KIND, Evidence, Line
from pytest_gpucluster.evidence.objects import gpu_names, node_status
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]


def _gpu_node(evidence: Evidence) -> str:
    """Return the name of the last GPU node, "" without one."""
    return max((m.name for m in node_status.machines(evidence) if m.gpu_label), default="")


def _on_last_node(change: Change) -> base.Act:
    def mutant(evidence: Evidence) -> Evidence:
        name = _gpu_node(evidence)
        return base.each(evidence, lambda line: line.kind == "Node" and line.name == name, change)

    return mutant


def _on_nodes(change: Change) -> base.Act:
    return lambda evidence: base.each(evidence, lambda line: line.kind == "Node", change)


def _plugin_gone(node: dict[str, Any]) -> None:
    for part in ("capacity", "allocatable"):
        amounts = fields.sub(node, "status", part)
        if isinstance(amounts, dict):
            amounts.update({name: "0" for name in amounts if gpu_names.GPU_RESOURCE.match(name)})


def _shared(node: dict[str, Any]) -> None:
    for part in ("capacity", "allocatable"):
        amounts = fields.sub(node, "status", part)
        for name in [name for name in amounts if gpu_names.GPU_RESOURCE.match(name)]:
            if isinstance(amounts, dict):
                amounts[f"{name}.shared"] = str(4 * int(amounts.pop(name)))


def _counted_twice(node: dict[str, Any]) -> None:
    labels = fields.sub(node, "metadata", "labels")
    if isinstance(labels, dict) and "nvidia.com/gpu.count" in labels:
        labels["nvidia.com/gpu.count"] = str(int(labels["nvidia.com/gpu.count"]) // 2)


def _offered_twice(node: dict[str, Any]) -> None:
    for part in ("capacity", "allocatable"):
        amounts = fields.sub(node, "status", part)
        if isinstance(amounts, dict) and any(gpu_names.GPU_RESOURCE.match(name) for name in amounts):
            amounts["nvidia.com/mig-1g.10gb"] = "7"


def _other_kernel(node: dict[str, Any]) -> None:
    node["status"]["nodeInfo"] = {**fields.sub(node, "status", "nodeInfo"), "kernelVersion": "5.4.0-odd"}


def _never_reported(node: dict[str, Any]) -> None:
    node.pop("status", None)


def _not_ready(node: dict[str, Any]) -> None:
    for condition in fields.items(node, "status", "conditions"):
        if condition.get("type") == "Ready" and isinstance(condition, dict):
            condition.update(status="Unknown", reason="NodeStatusUnknown")


def one_node(evidence: Evidence) -> Evidence:
    """Keep one GPU node of all."""
    name = _gpu_node(evidence)
    return base.without(evidence, lambda line: line.kind == "Node" and line.name != name)


def nodes_not_watched(evidence: Evidence) -> Evidence:
    """Let the watch of nodes never have been in sync."""
    spans = [span for span in evidence.spans if span.kind not in ("Node", EVERY_KIND)]
    return base.with_lines(evidence, evidence.lines, spans=spans)


def _queue(evidence: Evidence) -> str:
    return str(evidence.given.get("queue") or "default")


def _on_queue(change: Change) -> base.Act:
    def mutant(evidence: Evidence) -> Evidence:
        name = _queue(evidence)
        return base.each(evidence, lambda line: line.kind == "Queue" and line.name == name, change)

    return mutant


def queue_gone(evidence: Evidence) -> Evidence:
    """Take away the queue that the profile names."""
    name = _queue(evidence)
    return base.without(evidence, lambda line: line.kind == "Queue" and line.name == name)


def _case(prefix: str, change: Change) -> base.Act:
    def chosen(line: Line) -> bool:
        case = str(line.data.get("case") or "")
        return case == prefix or case.startswith(f"{prefix}:")

    return lambda evidence: base.responses(evidence, chosen, change)


def _denied(data: dict[str, Any]) -> None:
    data.pop("object", None)
    data.pop("items", None)
    status = {"code": 403, "reason": "Forbidden", "message": f"{data.get('request')} is forbidden"}
    data.update(code=403, status=status)


def _missing(data: dict[str, Any]) -> None:
    data.pop("object", None)
    data.update(code=404, status={"code": 404, "reason": "NotFound", "message": "not found"})


def _image_tag(tag: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        for item in fields.items(data, "items"):
            for container in fields.items(item, "spec", "template", "spec", "containers"):
                if isinstance(container, dict):
                    name = str(container.get("image")).rpartition(":")[0]
                    container["image"] = f"{name}:{tag}"

    return change


def _conf(before: str, after: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        files = fields.sub(data, "object", "data")
        if isinstance(files, dict):
            files.update({key: str(text).replace(before, after) for key, text in files.items()})

    return change


def _job_spec(**values: Any) -> Change:
    def change(data: dict[str, Any]) -> None:
        spec = fields.sub(data, "object", "spec")
        if isinstance(spec, dict):
            spec.update(values)

    return change


def _no_task_names(data: dict[str, Any]) -> None:
    for task in fields.items(data, "object", "spec", "tasks"):
        if isinstance(task, dict):
            task.pop("name", None)


_NOT_FREE: Mapping[str, str] = dict.fromkeys(("NUMA-002", "NUMA-005", "NUMA-007"), "inconclusive")
"""A node offers no devices, so that a pod may have been rejected for want of them."""


_NO_SUCH_SLOTS = base.all_to("inconclusive", "GANG-002 GANG-012 KUE-007 TRN-003")
"""The nodes do not show the slots that the driver put there or left free."""

MUTANTS: base.Table = {
    "inventory.plugin-gone": base.Mutant(
        "one node lost its device plugin",
        _on_last_node(_plugin_gone),
        {"INV-002": "fail", "INV-008": "fail", **_NOT_FREE},
    ),
    "inventory.gpus-shared": base.Mutant(
        "every GPU is offered four times, as .shared", _on_nodes(_shared), {"INV-002": "fail", **_NOT_FREE}
    ),
    "inventory.counted-twice": base.Mutant(
        "labels say half the number of GPUs",
        _on_nodes(_counted_twice),
        {"INV-002": "fail", "HLT-003": "inconclusive"},
    ),
    "inventory.offered-twice": base.Mutant(
        "slices are offered in addition to all GPUs", _on_nodes(_offered_twice), {"INV-002": "fail"}
    ),
    "inventory.never-reported": base.Mutant(
        "one node never reported its resources",
        _on_last_node(_never_reported),
        {
            "INV-002": "inconclusive",
            "INV-003": "inconclusive",
            "INV-008": "inconclusive",
            **_NOT_FREE,
            **_NO_SUCH_SLOTS,
        },
    ),
    "inventory.node-not-ready": base.Mutant(
        "one node is not Ready",
        _on_last_node(_not_ready),
        {"INV-002": "environment", "INV-003": "environment", **_NO_SUCH_SLOTS},
    ),
    "inventory.nodes-not-watched": base.Mutant(
        "the watch of nodes was never in sync",
        nodes_not_watched,
        base.all_to(
            "inconclusive",
            "INV-002 INV-003 INV-004 INV-005 INV-006 INV-008 INV-011 HLT-002 HLT-003 HLT-005 GANG-009 GANG-010 "
            "LIFE-011 RDZV-007 KUE-001 NUMA-001 NUMA-002 NUMA-003 NUMA-004 NUMA-005 NUMA-006 NUMA-007 NUMA-008",
        ),
    ),
    "inventory.odd-kernel": base.Mutant(
        "one node has another kernel", _on_last_node(_other_kernel), {"INV-008": "fail"}
    ),
    "inventory.one-node": base.Mutant(
        "there is only one GPU node",
        one_node,
        {
            "INV-008": "environment",
            "RDZV-007": "inconclusive",
            "ELA-005": "inconclusive",
            **_NO_SUCH_SLOTS,
        },
    ),
    "inventory.queue-closed": base.Mutant(
        "the queue is closed",
        _on_queue(lambda obj: obj["status"].update(state="Closed")),
        {"INV-005": "fail"},
    ),
    "inventory.queue-gone": base.Mutant(
        "the queue does not exist", queue_gone, {"INV-005": "fail", "REF-001": "inconclusive"}
    ),
    "inventory.quota-too-large": base.Mutant(
        "the queue promises a thousand GPUs",
        _on_queue(lambda obj: obj["spec"].update(capability={"nvidia.com/gpu": "1k"})),
        {"INV-005": "fail"},
    ),
    "inventory.version-outside": base.Mutant(
        "Volcano has a version outside the matrix",
        _case("read:deployments", _image_tag("v0.1.0")),
        {"INV-006": "fail"},
    ),
    "inventory.version-untold": base.Mutant(
        "Volcano's images are tagged latest",
        _case("read:deployments", _image_tag("latest")),
        {"INV-006": "inconclusive"},
    ),
    "inventory.deployments-denied": base.Mutant(
        "Deployments may not be listed", _case("read:deployments", _denied), {"INV-006": "environment"}
    ),
    "inventory.no-gang-plugin": base.Mutant(
        "the scheduler is configured without the gang plugin",
        _case("read:scheduler-config", _conf("name: gang", "name: sla")),
        {"INV-009": "fail"},
    ),
    "inventory.gang-off": base.Mutant(
        "the gang plugin is switched off",
        _case("read:scheduler-config", _conf("name: gang", "name: gang\n    enableJobReady: false")),
        {"INV-009": "fail"},
    ),
    "inventory.no-allocate": base.Mutant(
        "the scheduler is configured without the action allocate",
        _case("read:scheduler-config", _conf("allocate", "shuffle")),
        {"INV-009": "fail"},
    ),
    "inventory.config-denied": base.Mutant(
        "the scheduler's ConfigMap may not be read",
        _case("read:scheduler-config", _denied),
        {"INV-009": "environment"},
    ),
    "inventory.config-gone": base.Mutant(
        "the scheduler's ConfigMap does not exist",
        _case("read:scheduler-config", _missing),
        {"INV-009": "inconclusive"},
    ),
    "inventory.config-broken": base.Mutant(
        "the scheduler's configuration is not valid YAML",
        _case("read:scheduler-config", _conf("tiers:", "tiers: [")),
        {"INV-009": "inconclusive"},
    ),
    "inventory.no-task-names": base.Mutant(
        "tasks come back without names", _case("defaults", _no_task_names), {"INV-010": "fail"}
    ),
    "inventory.other-retry": base.Mutant(
        "maxRetry defaults to 5", _case("defaults", _job_spec(maxRetry=5)), {"INV-010": "fail"}
    ),
    "inventory.dry-run-denied": base.Mutant(
        "Jobs may not be created", _case("defaults", _denied), {"INV-010": "environment"}
    ),
}
