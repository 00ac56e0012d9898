"""What `gpucluster discover` learns about a cluster: a few lists, each of which may be refused."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.evidence import EVERY_KIND, Evidence, Span
from pytest_gpucluster.evidence.log import fields, ingest
from pytest_gpucluster.evidence.objects import component_versions, gpu_names, node_status
from pytest_gpucluster.evidence.objects.component_versions import Seen
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, kinds, objects
from pytest_gpucluster.plain import components as known
from pytest_gpucluster.plain import texts

if TYPE_CHECKING:
    from pytest_gpucluster.kube.kinds import KindInfo

Obj = Mapping[str, Any]

QUEUE = kinds.KindInfo("scheduling.volcano.sh/v1beta1", "Queue", "queues", namespaced=False)
CLUSTER_QUEUE = kinds.KindInfo("kueue.x-k8s.io/v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
DEPLOYMENT = kinds.KindInfo("apps/v1", "Deployment", "deployments")


@dataclasses.dataclass(frozen=True)
class Survey:
    """What was learnt.

    Attributes:
        machines: all nodes.
        queues: Volcano's queues; None where its API is not served.
        cluster_queues: Kueue's; None where its API is not served.
        versions: versions of components.
        refused: what may not be read, one line each.
    """

    machines: tuple[Machine, ...]
    queues: tuple[Obj, ...] | None
    cluster_queues: tuple[Obj, ...] | None
    versions: tuple[Seen, ...]
    refused: tuple[str, ...]

    @property
    def gpu_resources(self) -> Mapping[str, Mapping[int, Sequence[str]]]:
        """Return GPU resource -> how many a node has -> the nodes with so many."""
        found: dict[str, dict[int, list[str]]] = {}
        for machine in self.machines:
            for resource, count in machine.capacity.items():
                if count > 0 and gpu_names.is_gpu(resource):
                    found.setdefault(resource, {}).setdefault(count, []).append(machine.name)
        return found

    @property
    def gpu_machines(self) -> tuple[Machine, ...]:
        """Return the nodes with GPUs."""
        return tuple(m for m in self.machines if m.has_gpus(""))

    def common(self, key: str) -> str:
        """Return the values of a label on GPU nodes, most frequent first, with how often; "" without any."""
        counts = Counter(str(m.labels[key]) for m in self.gpu_machines if m.labels.get(key))
        return ", ".join(f"{value} ({count})" for value, count in counts.most_common(4))


class Surveyor:
    """Asks a cluster; what is refused is noted and the rest is asked all the same."""

    def __init__(self, connection: connections.Connection) -> None:
        """Ask over a connection."""
        self._api = objects.Objects(connection)
        self._refused: list[str] = []

    def survey(self) -> Survey:
        """Return what there is.

        Raises:
            EnvironmentProblem: no answer.
            ApiError: an answer that says neither what there is nor that it may not be read.
        """
        lines: list[dict[str, Any]] = []
        nodes = self._list(objects.NODE) or ()
        lines += [{"t": 0.0, "type": "ADDED", "kind": "Node", "object": node} for node in nodes]
        version = self._api.connection.call(
            connections.Ask("get", "version", "GET", "/version", "get the server's version")
        )
        lines.append(
            {"t": 0.0, "type": "RESPONSE", "case": component_versions.SERVER, "code": 200, "object": version}
        )
        for namespace in dict.fromkeys(known.NAMESPACES.values()):
            items = self._list(DEPLOYMENT, namespace) or ()
            case = f"{component_versions.DEPLOYMENTS}:{namespace}"
            lines.append({"t": 0.0, "type": "RESPONSE", "case": case, "code": 200, "items": list(items)})
        made = [ingest.make_line(0.0, line["type"], line, n) for n, line in enumerate(lines)]
        evidence = Evidence(made, spans=(Span(EVERY_KIND, 0.0, 0.0, "list"),))
        found = node_status.machines(evidence)
        return Survey(
            machines=found,
            queues=self._list(QUEUE),
            cluster_queues=self._list(CLUSTER_QUEUE),
            versions=component_versions.seen(evidence, _resource(found)),
            refused=tuple(self._refused),
        )

    def _list(self, info: "KindInfo", namespace: str | None = None) -> tuple[Obj, ...] | None:
        """Return all objects of a kind; None where it is not served or may not be read."""
        try:
            pages = self._api.pages(info, namespace)
            return tuple(
                _lean(objects.whole(item, info)) for page in pages for item in page.get("items") or []
            )
        except errors.ApiError as error:
            if error.code == 403:
                place = f" in {namespace}" if namespace else ""
                self._refused.append(f"list {info.plural}{place}: {' '.join(error.message.split())}")
                return None
            if error.code == 404:
                return None
            raise


def _lean(obj: Obj) -> Obj:
    """Return an object without field owners and image lists, of which a large cluster has megabytes."""
    metadata = {
        k: v for k, v in fields.sub(obj, "metadata").items() if k not in ("managedFields", "annotations")
    }
    status = {k: v for k, v in fields.sub(obj, "status").items() if k != "images"}
    if isinstance(metadata.get("labels"), dict):
        metadata["labels"] = texts.shared(metadata["labels"])
    return {**obj, "metadata": metadata, "status": status}


def _resource(found: Sequence[Machine]) -> str:
    counts = Counter(
        name for m in found for name, n in m.capacity.items() if n > 0 and gpu_names.is_gpu(name)
    )
    return counts.most_common(1)[0][0] if counts else ""
