"""What containers can reach of GPUs, beside what their pods asked for."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.hardware import numa_trials
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory, pods

EVENT = "access"
NO_DEVICE = 100
"""What drivers return where there is no GPU."""
MIG = "MIG-"
REPLICA = "::"
"""Between a GPU and the number of its replica, where a plugin offers each GPU several times."""


@dataclasses.dataclass(frozen=True)
class View:
    """One container: what it asked for, what it was told, what it can reach.

    Attributes:
        pod: its pod.
        container: its name.
        asked: GPUs that it asked for.
        said: whether it told anything.
        told: ids that its device plugin told it.
        files: device files that open, one a GPU.
        closed: device files that are there and do not open.
        listed: GPUs that the driver lists, by whatever name; None where no driver answered.
        count: how many these are.
        why: why no driver answered, "" where one did.
        error: what the driver returned where it answered with an error.
        key: of the line of evidence.
    """

    pod: PodStory
    container: str
    asked: int
    said: bool = False
    told: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None
    count: int = 0
    why: str = ""
    error: int | None = None
    key: str = ""

    @property
    def where(self) -> str:
        """Return `Pod/access-0 container one on gpu-0`."""
        node = f" on {self.pod.node}" if self.pod.node else ""
        return f"Pod/{self.pod.name} container {self.container}{node}"

    @property
    def sliced(self) -> bool:
        """Report whether it was given slices of GPUs: several share one device file, and a driver lists one."""
        return any(name.startswith(MIG) for name in self.told)

    @property
    def shared(self) -> bool:
        """Report whether it was given replicas of GPUs that others are given too."""
        return any(REPLICA in name for name in self.told)

    @property
    def granted(self) -> int:
        """Return how many GPUs it was given: what it asked for, or the GPUs behind its replicas."""
        return len({name.partition(REPLICA)[0] for name in self.told}) if self.shared else self.asked

    @property
    def reach(self) -> int | None:
        """Return how many GPUs it can reach; None where it was told some, and nothing is there to ask about them."""
        if self.listed is not None:
            return self.count if self.sliced else max(self.count, len(self.files))
        if self.sliced or (self.told and not self.files and not self.closed):
            return None
        return len(self.files)


def views(evidence: Evidence, given: Mapping[str, Any]) -> tuple[View, ...]:
    """Return the containers of the pods that tell what they can reach, in order of first appearance."""
    newest: dict[tuple[str, str], payload_lines.Word] = {}
    for word in payload_lines.words(evidence).of(EVENT):
        newest[word.uid, word.container] = word
    resource = numa_trials.resource_of(given)
    tellers = {uid for uid, _ in newest} | _cast(given)
    return tuple(
        _view(pod, container, resource, newest.get((pod.uid, str(container.get("name") or ""))))
        for pod in pods(evidence)
        if pod.uid in tellers
        for container in _telling(pod, {name for uid, name in newest if uid == pod.uid}, resource)
    )


def opened_by_pod(view: View) -> bool:
    """Report whether a pod itself opens devices to a container: privileged, or with a folder of the node below /dev."""
    one = next((each for each in fields.containers(view.pod.last) if each.get("name") == view.container), {})
    if fields.sub(one, "securityContext").get("privileged") is True:
        return True
    hosts = {
        str(volume.get("name"))
        for volume in fields.items(fields.sub(view.pod.last, "spec"), "volumes")
        if volume.get("hostPath") is not None
    }
    return any(
        str(mount.get("name")) in hosts and f"{mount.get('mountPath')}/".startswith("/dev/")
        for mount in fields.items(one, "volumeMounts")
    )


def _telling(pod: PodStory, told: set[str], resource: str) -> list[fields.Object]:
    """Return the containers of a pod that are to tell: what admission put beside them, without a GPU, is not asked."""
    own = containers.own_names(pod.last)
    return [
        one
        for one in fields.containers(pod.last)
        if str(one.get("name")) in own | told or numa_trials.asked_by(one, resource) > 0
    ]


def _cast(given: Mapping[str, Any]) -> set[str]:
    """Return the uids of the pods that were made to tell."""
    members = fields.items(fields.sub(given, "roles"), EVENT)
    return {str(member.get("uid")) for member in members}


def _view(pod: PodStory, container: fields.Object, resource: str, word: payload_lines.Word | None) -> View:
    name = str(container.get("name") or "")
    asked = numa_trials.asked_by(container, resource)
    if word is None:
        return View(pod, name, asked)
    files = fields.items(word.data, "files")
    driver = fields.sub(word.data, "driver")
    listed, why = _listed(driver)
    counted = driver.get("count")
    return View(
        pod,
        name,
        asked,
        said=True,
        told=tuple(map(str, _texts(word.data.get("told")))),
        files=tuple(str(one.get("path")) for one in files if one.get("opens") is True),
        closed=tuple(str(one.get("path")) for one in files if one.get("opens") is not True),
        listed=listed,
        count=counted if isinstance(counted, int) else len(listed or ()),
        why=why,
        error=_error(driver.get("result")),
        key=word.key,
    )


def _listed(driver: fields.Object) -> tuple[tuple[str, ...] | None, str]:
    """Return what a driver lists, and why it did not answer."""
    result = driver.get("result")
    if result == NO_DEVICE:
        return (), ""
    if result == 0:
        devices = fields.items(driver, "devices")
        return tuple(str(one.get("uuid") or one.get("pci") or "?") for one in devices), ""
    why = str(driver.get("why") or "")
    return None, why or f"{driver.get('library') or 'the driver'} returned {result}"


def _error(result: object) -> int | None:
    known = isinstance(result, int) and not isinstance(result, bool) and result not in (0, NO_DEVICE)
    return int(str(result)) if known else None


def _texts(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def bare(name: str) -> str:
    """Return a UUID without its kind, so that a driver's and a plugin's can be compared; else the name as it is."""
    found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name.lower())
    return found[0] if found else name
