"""Departures of nodes, queue, versions, configuration and defaults: what the inventory scenario reads."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import EVERY_KIND, Evidence, Line
from pytest_gpucluster.evidence.objects import gpu_names, node_status
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]


def _gpu_node(evidence: Evidence) -> str:
    """Return the name of the last GPU node, "" without one."""
    return max((m.name for m in node_status.machines(evidence) if m.gpu_label), default="")


def _on_last_node(change: Change) -> base.Mutant:
    def mutant(evidence: Evidence) -> Evidence:
        name = _gpu_node(evidence)
        return base.each(evidence, lambda line: line.kind == "Node" and line.name == name, change)

    return mutant


def _on_nodes(change: Change) -> base.Mutant:
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


def _on_queue(change: Change) -> base.Mutant:
    def mutant(evidence: Evidence) -> Evidence:
        name = _queue(evidence)
        return base.each(evidence, lambda line: line.kind == "Queue" and line.name == name, change)

    return mutant


def queue_gone(evidence: Evidence) -> Evidence:
    """Take away the queue that the profile names."""
    name = _queue(evidence)
    return base.without(evidence, lambda line: line.kind == "Queue" and line.name == name)


def _case(prefix: str, change: Change) -> base.Mutant:
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


MUTANTS: base.Table = {
    "inventory.plugin-gone": ("one node lost its device plugin", _on_last_node(_plugin_gone)),
    "inventory.gpus-shared": ("every GPU is offered four times, as .shared", _on_nodes(_shared)),
    "inventory.counted-twice": ("labels say half the number of GPUs", _on_nodes(_counted_twice)),
    "inventory.offered-twice": ("slices are offered in addition to all GPUs", _on_nodes(_offered_twice)),
    "inventory.never-reported": ("one node never reported its resources", _on_last_node(_never_reported)),
    "inventory.node-not-ready": ("one node is not Ready", _on_last_node(_not_ready)),
    "inventory.nodes-not-watched": ("the watch of nodes was never in sync", nodes_not_watched),
    "inventory.odd-kernel": ("one node has another kernel", _on_last_node(_other_kernel)),
    "inventory.one-node": ("there is only one GPU node", one_node),
    "inventory.queue-closed": ("the queue is closed",
                               _on_queue(lambda obj: obj["status"].update(state="Closed"))),
    "inventory.queue-gone": ("the queue does not exist", queue_gone),
    "inventory.quota-too-large": ("the queue promises a thousand GPUs",
                                  _on_queue(lambda obj: obj["spec"].update(capability={"nvidia.com/gpu": "1k"}))),
    "inventory.version-outside": ("Volcano has a version outside the matrix",
                                  _case("read:deployments", _image_tag("v0.1.0"))),
    "inventory.version-untold": ("Volcano's images are tagged latest", _case("read:deployments", _image_tag("latest"))),
    "inventory.deployments-denied": ("Deployments may not be listed", _case("read:deployments", _denied)),
    "inventory.no-gang-plugin": ("the scheduler is configured without the gang plugin",
                                 _case("read:scheduler-config", _conf("name: gang", "name: sla"))),
    "inventory.gang-off": ("the gang plugin is switched off",
                           _case("read:scheduler-config",
                                 _conf("name: gang", "name: gang\n    enableJobReady: false"))),
    "inventory.no-allocate": ("the scheduler is configured without the action allocate",
                              _case("read:scheduler-config", _conf("allocate", "shuffle"))),
    "inventory.config-denied": ("the scheduler's ConfigMap may not be read",
                                _case("read:scheduler-config", _denied)),
    "inventory.config-gone": ("the scheduler's ConfigMap does not exist", _case("read:scheduler-config", _missing)),
    "inventory.config-broken": ("the scheduler's configuration is not valid YAML",
                                _case("read:scheduler-config", _conf("tiers:", "tiers: ["))),
    "inventory.no-task-names": ("tasks come back without names", _case("defaults", _no_task_names)),
    "inventory.other-retry": ("maxRetry defaults to 5", _case("defaults", _job_spec(maxRetry=5))),
    "inventory.dry-run-denied": ("Jobs may not be created", _case("defaults", _denied)),
}  # fmt: skip
