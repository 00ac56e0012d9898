"""Which devices a pod holds, and on which NUMA node each lies, by whoever says so.

A container tells what its device plugin told it (the payload `numa.py`, or `NVIDIA_VISIBLE_DEVICES` in its log); the
kubelet tells the ids in the pod's status (`allocatedResourcesStatus`, on by default since Kubernetes 1.36).
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods

EVENT = "devices"
BY_PLUGIN = "GPUCLUSTER_DEVICES"
"""Who tells the ids of a container's devices where it is a plugin that tells NUMA nodes with them."""

_LOGGED = re.compile(r"^log of (?P<pod>\S+): 200 (?P<text>.*)", re.DOTALL)
_LISTED = re.compile(
    r"^\s*(?:devices\s+|(?:NVIDIA_VISIBLE_DEVICES|GPUCLUSTER_DEVICES)=)(?P<list>\S+)\s*$", re.MULTILINE
)


@dataclasses.dataclass(frozen=True)
class Held:
    """What one container of a pod holds, as it or its kubelet says.

    Attributes:
        uid: the pod.
        pod: its name.
        container: the container, "" where only the pod is known.
        devices: id -> NUMA node, by the machine's bus where it tells, else by the plugin; None where nobody says.
        plugin: id -> NUMA node that the plugin reports, None where it reports none; empty where it was not heard.
        told: somebody who knows NUMA nodes spoke: a device without one was reported without one.
        cpus: CPUs that the container may use, such as `0-3`; "" where it does not say.
        mems: memory nodes that it may use.
        quota: CPUs that its cgroup allows at most, None where there is no limit or none is told.
        key: of the line of evidence.
    """

    uid: str
    pod: str
    container: str
    devices: Mapping[str, int | None]
    told: bool
    cpus: str
    mems: str
    key: str
    quota: float | None = None
    plugin: Mapping[str, int | None] = dataclasses.field(default_factory=dict)

    @property
    def lies(self) -> dict[str, tuple[int, int]]:
        """Return the devices of which plugin and machine tell different NUMA nodes: id -> (plugin's, machine's)."""
        return {
            name: (reported, at)
            for name, reported in self.plugin.items()
            if reported is not None and (at := self.devices.get(name)) is not None and at != reported
        }

    @property
    def nodes(self) -> frozenset[int]:
        """Return the NUMA nodes on which its devices are known to lie."""
        return frozenset(numa for numa in self.devices.values() if numa is not None)

    @property
    def whole(self) -> bool:
        """Report whether the NUMA node of every device is known."""
        return bool(self.devices) and all(numa is not None for numa in self.devices.values())


def held(evidence: Evidence, layout: Mapping[str, int] | None = None) -> dict[str, tuple[Held, ...]]:
    """Return pod uid -> what its containers hold.

    Args:
        evidence: the evidence.
        layout: device id -> NUMA node, for recordings in which nobody says it.
    """
    found: dict[str, list[Held]] = {}
    for each in _by_payload(evidence):
        found.setdefault(each.uid, []).append(each)
    for source in (_by_note, _by_status):
        known = set(found)
        for each in source(evidence):
            if each.uid not in known:
                found.setdefault(each.uid, []).append(each)
    return {uid: tuple(_laid(each, layout or {}) for each in several) for uid, several in found.items()}


def _laid(each: Held, layout: Mapping[str, int]) -> Held:
    if not layout or each.told:
        return each
    devices = {name: layout.get(name) if numa is None else numa for name, numa in each.devices.items()}
    return dataclasses.replace(each, devices=devices)


def _by_payload(evidence: Evidence) -> Iterator[Held]:
    newest: dict[tuple[str, str], payload_lines.Word] = {}
    for word in payload_lines.words(evidence).of(EVENT):
        newest[word.uid, word.container] = word
    for (uid, container), word in newest.items():
        listed = fields.items(word.data, "devices")
        heard = word.data.get("by") == BY_PLUGIN or any(_numa(one, "numa") is not None for one in listed)
        yield Held(
            uid,
            word.pod,
            container,
            {str(one.get("id")): _numa(one) for one in listed},
            any(_numa(one) is not None for one in listed) or word.data.get("by") == BY_PLUGIN,
            str(word.data.get("cpus") or ""),
            str(word.data.get("mems") or ""),
            word.key,
            _number(word.data.get("quota")),
            {str(one.get("id")): _numa(one, "numa") for one in listed} if heard else {},
        )


def _numa(device: Mapping[str, Any], *keys: str) -> int | None:
    """Return the NUMA node of the machine's bus, else the one that the plugin told; below zero means none."""
    values = (device.get(key) for key in keys or ("bus", "numa"))
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0), None)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _by_note(evidence: Evidence) -> Iterator[Held]:
    """Read the notes in which the driver of a recording kept what pods had written."""
    newest = {pod.name: pod for pod in pods(evidence)}
    for note in evidence.notes():
        logged = _LOGGED.match(str(note.data.get("text") or ""))
        listed = _LISTED.search(logged["text"]) if logged else None
        pod = newest.get(logged["pod"]) if logged else None
        if logged is None or listed is None or pod is None:
            continue
        parted = (word.partition("@") for word in listed["list"].split(","))
        placed = {name: int(numa) if numa.isdecimal() else None for name, _, numa in parted if name}
        allowed = dict(re.findall(r"^(\w+_allowed_list):\s*(\S+)", logged["text"], re.MULTILINE))
        yield Held(
            pod.uid,
            pod.name,
            "",
            placed,
            any(numa is not None for numa in placed.values()),
            allowed.get("Cpus_allowed_list", ""),
            allowed.get("Mems_allowed_list", ""),
            note.key,
            plugin=placed if any(numa is not None for numa in placed.values()) else {},
        )


def _by_status(evidence: Evidence) -> Iterator[Held]:
    for pod in pods(evidence):
        for line in reversed(evidence.history(pod.uid)):
            ids = _allocated(line.object)
            if ids:
                yield Held(
                    pod.uid, pod.name, "", dict.fromkeys(ids), told=False, cpus="", mems="", key=line.key
                )
                break


def _allocated(pod: Mapping[str, Any]) -> list[str]:
    return [
        str(device.get("resourceID"))
        for status in fields.items(pod, "status", "containerStatuses")
        for resource in fields.items(status, "allocatedResourcesStatus")
        for device in fields.items(resource, "resources")
        if device.get("resourceID")
    ]


def unhealthy(pod: PodStory) -> tuple[str, ...]:
    """Return the devices that the kubelet calls unhealthy in the status of a pod that holds them."""
    return tuple(
        str(device.get("resourceID"))
        for status in fields.items(pod.last, "status", "containerStatuses")
        for resource in fields.items(status, "allocatedResourcesStatus")
        for device in fields.items(resource, "resources")
        if str(device.get("health") or "Healthy") == "Unhealthy"
    )


def width(listed: str) -> int:
    """Return how many a list such as `0-3,8` names, 0 for what is none."""
    count = 0
    for part in listed.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            return 0
        count += int(match[2] or match[1]) - int(match[1]) + 1
    return max(count, 0)
