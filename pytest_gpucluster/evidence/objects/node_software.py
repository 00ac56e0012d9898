"""Versions of what runs under containers on GPU nodes: driver, container toolkit, runc, firmware of adapters."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import component_versions, node_status
from pytest_gpucluster.evidence.objects.component_versions import Seen
from pytest_gpucluster.plain import versions

DAEMON_SETS = "read:daemonsets"
"""Case under which a scenario records the DaemonSets of a namespace; a colon and the namespace follow."""
_TOOLKIT = re.compile(r"(?:^|/)container-toolkit(?:$|[:@])")
OF_AMD = "amd.com/gpu.driver-version"


def seen(evidence: Evidence, gpu_resource: str, labels: Mapping[str, Any]) -> tuple[Seen, ...]:
    """Return every version that the evidence shows.

    Args:
        evidence: the evidence.
        gpu_resource: the GPU resource, by which GPU nodes are known.
        labels: component -> node label that has its version, as the profile declares it.
    """
    return (*_toolkit(evidence), *_nodes(evidence, gpu_resource, labels))


def _toolkit(evidence: Evidence) -> Iterator[Seen]:
    for answer in api_answers.read(evidence, DAEMON_SETS):
        for item in answer.items:
            name = fields.text(item, "metadata", "name")
            for container in fields.items(item, "spec", "template", "spec", "containers"):
                image = fields.text(container, "image")
                if _TOOLKIT.search(image):
                    version = versions.of_image(image)
                    yield Seen("toolkit", f"DaemonSet/{name}", image, version, answer.line.key)


def _nodes(evidence: Evidence, gpu_resource: str, labels: Mapping[str, Any]) -> Iterator[Seen]:
    for machine in node_status.gpu_nodes(evidence, gpu_resource):
        told = {component: str(machine.labels.get(str(key)) or "") for component, key in labels.items()}
        # The driver of another vendor has other numbers: no floor of NVIDIA's is one of it.
        if OF_AMD not in machine.labels:
            told["driver"] = told.get("driver") or component_versions.driver_of(machine.labels)
        for component, text in told.items():
            if text:
                where = f"Node/{machine.name}"
                yield Seen(component, where, text, versions.parse(text), machine.line.key)
