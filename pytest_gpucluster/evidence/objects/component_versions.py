"""Versions of what runs in the cluster, as the API shows them: the server, images of Deployments, nodes, labels."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.plain import versions

SERVER = "read:version"
DEPLOYMENTS = "read:deployments"
CONFIG = "read:scheduler-config"
"""Cases under which a scenario records what it read; a colon and the namespace follow the second."""

SCHEDULER_CONFIG = "volcano-scheduler-configmap"
"""Name of the ConfigMap with the configuration of Volcano's scheduler, where its Deployment cannot be read."""

IMAGES: Mapping[str, re.Pattern[str]] = {
    "volcano": re.compile(r"^vc-(?:scheduler|controller-manager|webhook-manager)$"),
    "kueue": re.compile(r"^kueue$"),
    "gpu-operator": re.compile(r"^gpu-operator$"),
    "network-operator": re.compile(r"^network-operator$"),
    "trainer": re.compile(r"^(?:kubeflow-)?trainer(?:-controller-manager)?$"),
}
"""Component -> last part of the names of its images."""

MANAGERS: Mapping[str, str] = {"kueue-controller-manager": "kueue"}
"""Deployment -> component, for images that a mirror has renamed."""

_DRIVER_LABELS = ("nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version")
_OLD_DRIVER = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")


@dataclasses.dataclass(frozen=True)
class Seen:
    """A version that was seen somewhere.

    Attributes:
        component: its name, one of `plain.components.NAMES`.
        where: who has it.
        text: as it stands there.
        version: the version, None where the text tells none.
        key: of the line of evidence.
    """

    component: str
    where: str
    text: str
    version: versions.Version | None
    key: str


def seen(evidence: Evidence, gpu_resource: str) -> tuple[Seen, ...]:
    """Return every version that the evidence shows."""
    return (*_server(evidence), *_deployments(evidence), *_nodes(evidence, gpu_resource))


def _server(evidence: Evidence) -> Iterator[Seen]:
    answer = api_answers.one(evidence, SERVER)
    if answer is not None and answer.ok:
        text = fields.text(answer.object, "gitVersion")
        yield Seen("kubernetes", "API server", text, versions.parse(text), answer.line.key)


def _deployments(evidence: Evidence) -> Iterator[Seen]:
    for answer in api_answers.read(evidence, DEPLOYMENTS):
        for item in answer.items:
            for component, where, image, version in of_deployment(item):
                yield Seen(component, where, image, version, answer.line.key)


def of_deployment(item: Mapping[str, Any]) -> Iterator[tuple[str, str, str, versions.Version | None]]:
    """Yield (component, Deployment, image, version) for each container of a known component.

    An image that is pinned by digest alone tells none; then the label `app.kubernetes.io/version` does.
    """
    name = fields.text(item, "metadata", "name")
    label = fields.text(item, "metadata", "labels", "app.kubernetes.io/version")
    for container in fields.items(item, "spec", "template", "spec", "containers"):
        image = fields.text(container, "image")
        last = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        known = {component for component, pattern in IMAGES.items() if pattern.match(last)}
        if not known and name in MANAGERS and fields.text(container, "name") == "manager":
            known = {MANAGERS[name]}
        for component in sorted(known):
            version = versions.of_image(image) or (versions.parse(label) if label else None)
            yield component, f"Deployment/{name}", image, version


def _nodes(evidence: Evidence, gpu_resource: str) -> Iterator[Seen]:
    for machine in node_status.machines(evidence):
        kubelet = fields.text(machine.info, "kubeletVersion")
        if kubelet:
            yield Seen(
                "kubernetes", f"kubelet of {machine.name}", kubelet, versions.parse(kubelet), machine.line.key
            )
        if machine.has_gpus(gpu_resource):
            driver = driver_of(machine.labels)
            if driver:
                version = versions.parse(driver)
                yield Seen("driver", f"Node/{machine.name}", driver, version, machine.line.key)


def driver_of(labels: Mapping[str, Any]) -> str:
    """Return the version of a node's GPU driver as feature discovery labels it, "" without a label."""
    for key in _DRIVER_LABELS:
        if labels.get(key):
            return str(labels[key])
    parts = [str(labels[key]) for key in _OLD_DRIVER if labels.get(key)]
    return ".".join(parts) if len(parts) > 1 else ""


def scheduler_config(deployments: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the name of the ConfigMap that the Volcano scheduler's Deployment mounts, None where it mounts none."""
    for item in deployments:
        if not any("vc-scheduler" in image for _, _, image, _ in of_deployment(item)):
            continue
        for volume in fields.items(item, "spec", "template", "spec", "volumes"):
            name = fields.text(volume, "configMap", "name")
            if name:
                return name
    return None
