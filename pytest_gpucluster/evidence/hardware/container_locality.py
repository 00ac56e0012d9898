"""Where the parts of a container lie: CPUs, memory, GPUs, network functions, each by what the machine itself says."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.hardware import pod_devices
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods

ROLE = "aligned"
"""Role of the pods that tell."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of one container; a set of NUMA nodes is None where nobody tells it.

    Attributes:
        pod: its pod.
        container: its name.
        cpus: CPUs that it may use, such as `0-3`.
        cpu_nodes: NUMA nodes of these.
        memory_nodes: NUMA nodes of the memory that it had and wrote to.
        allowed: memory nodes that it may use, such as `0-1`.
        gpus: id of a GPU -> its NUMA node by the machine's bus, else by the device plugin; None where neither tells.
        told: id of a GPU -> what the plugin told where the bus says otherwise.
        functions: name of a network function -> its NUMA node, None where the machine tells none.
        machine: NUMA nodes that the machine has.
        key: of the line of evidence.
    """

    pod: PodStory
    container: str
    cpus: str
    cpu_nodes: frozenset[int] | None
    memory_nodes: frozenset[int] | None
    allowed: str
    gpus: Mapping[str, int | None]
    told: Mapping[str, int]
    functions: Mapping[str, int | None]
    machine: int
    key: str

    @property
    def gpu_nodes(self) -> frozenset[int] | None:
        """Return the NUMA nodes of its GPUs; None where one is not known."""
        return _all(self.gpus)

    @property
    def function_nodes(self) -> frozenset[int] | None:
        """Return the NUMA nodes of its network functions; None where one is not known."""
        return _all(self.functions)

    @property
    def nodes(self) -> dict[str, frozenset[int] | None]:
        """Return the parts by name, with their NUMA nodes; network functions only where it has some."""
        found = {"GPUs": self.gpu_nodes, "CPUs": self.cpu_nodes, "memory": self.memory_nodes}
        return found | ({"network functions": self.function_nodes} if self.functions else {})


def _all(places: Mapping[str, int | None]) -> frozenset[int] | None:
    known = [node for node in places.values() if node is not None]
    return frozenset(known) if places and len(known) == len(places) else None


def parts(evidence: Evidence) -> tuple[Parts, ...]:
    """Return the containers that tell where memory of theirs lies, the last word of each."""
    newest: dict[tuple[str, str], payload_lines.Word] = {}
    for word in payload_lines.words(evidence).of(pod_devices.EVENT):
        if "memory" in word.data:
            newest[word.uid, word.container] = word
    stories = {pod.uid: pod for pod in pods(evidence)}
    return tuple(_parts(stories[uid], word) for (uid, _), word in newest.items() if uid in stories)


def _parts(pod: PodStory, word: payload_lines.Word) -> Parts:
    devices = {
        str(one.get("id")): (_number(one, "numa"), _number(one, "bus"))
        for one in fields.items(word.data, "devices")
    }
    pages = fields.sub(word.data, "memory", "pages")
    functions = fields.items(word.data, "functions")
    return Parts(
        pod,
        word.container,
        str(word.data.get("cpus") or ""),
        _numbers(word.data.get("cpu_nodes")),
        _numbers([int(node) for node, count in pages.items() if str(node).isdigit() and count]),
        str(word.data.get("mems") or ""),
        {name: plugin if bus is None else bus for name, (plugin, bus) in devices.items()},
        {
            name: plugin
            for name, (plugin, bus) in devices.items()
            if plugin is not None and bus not in (None, plugin)
        },
        {str(one.get("name")): _number(one, "numa") for one in functions if _counts(one)},
        pod_devices.width(str(word.data.get("nodes") or "")),
        word.key,
    )


def _counts(function: Mapping[str, Any]) -> bool:
    """Report whether something is a function that was handed out: the pod's own link is no device of the machine."""
    return function.get("kind") == "verbs" or _number(function, "numa") is not None


def _number(data: Mapping[str, Any], key: str) -> int | None:
    """Return a NUMA node, None for none: below zero means none."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _numbers(value: object) -> frozenset[int] | None:
    listed = value if isinstance(value, list) else []
    found = frozenset(one for one in listed if isinstance(one, int) and not isinstance(one, bool))
    return found or None
