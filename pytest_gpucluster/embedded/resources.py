"""The table of resource types that the embedded API serves."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.kinds.jobs import default_job, validate_job
from pytest_gpucluster.embedded.kinds.known import prune_job, prune_pod
from pytest_gpucluster.embedded.kinds.others import (
    default_namespace,
    default_node,
    default_secret,
    default_service,
    validate_service,
)
from pytest_gpucluster.embedded.kinds.pod_rules import validate_pod
from pytest_gpucluster.embedded.kinds.pods import default_pod
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.names import kind_key

VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip


def nothing(obj: Obj) -> None:
    """Leave an object as it is: the default of a type without defaults."""


def no_causes(obj: Obj, old: Obj | None) -> list[Cause]:  # noqa: ARG001
    """Accept an object: the validation of a type without rules."""
    return []


def keep_all(obj: Obj) -> list[str]:  # noqa: ARG001
    """Keep every field: the pruning of a type whose fields are not known."""
    return []


@dataclass(frozen=True)
class ResourceType:
    """One served resource.

    Attributes:
        group: API group, empty for the core group.
        version: API version, such as `v1`.
        plural: Resource name in paths.
        kind: Kind of its objects.
        namespaced: Whether objects live in a namespace.
        short_names: Names that kubectl accepts besides the plural.
        subresources: Served sub-resources (`status`, `binding`, ...).
        categories: Groups of kubectl such as `all`.
        generation: Whether `metadata.generation` is kept.
        custom: Whether the type comes from a CustomResourceDefinition.
        default: Fills in defaults, in place.
        validate: Returns the causes for which an object (and, on update, the old one) is refused.
        keeps_status: Whether a status that is given on creation is kept (Nodes only).
        prune: Removes fields that the type does not have, in place, and returns their paths.
        fields: Field selectors accepted beside metadata.name and metadata.namespace.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    categories: tuple[str, ...] = ()
    generation: bool = False
    custom: bool = False
    default: Callable[[Obj], None] = nothing
    validate: Callable[[Obj, Obj | None], list[Cause]] = no_causes
    keeps_status: bool = False
    prune: Callable[[Obj], list[str]] = keep_all
    fields: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """The kind key under which it is stored."""
        return kind_key(self.api_version, self.kind)

    @property
    def has_status(self) -> bool:
        """Whether status is written through a sub-resource only."""
        return "status" in self.subresources

    @property
    def singular(self) -> str:
        """The lower-case kind, which kubectl accepts."""
        return self.kind.lower()


class ResourceTable:
    """The served types, found by kind key or by group, version and plural."""

    def __init__(self, rows: Iterable[ResourceType]) -> None:
        """Make a table of rows."""
        self._by_key: dict[str, ResourceType] = {}
        self._by_path: dict[tuple[str, str, str], ResourceType] = {}
        for row in rows:
            self.add(row)

    def add(self, row: ResourceType) -> None:
        """Add a row, or replace the one of the same kind key."""
        old = self._by_key.get(row.key)
        if old is not None:
            del self._by_path[old.group, old.version, old.plural]
        self._by_key[row.key] = row
        self._by_path[row.group, row.version, row.plural] = row

    def hook(
        self,
        key: str,
        *,
        default: Callable[[Obj], None] | None = None,
        validate: Callable[[Obj, Obj | None], list[Cause]] | None = None,
        prune: Callable[[Obj], list[str]] | None = None,
    ) -> None:
        """Give a type its schema: what fills in defaults, and what refuses."""
        row = self[key]
        self.add(
            dataclasses.replace(
                row,
                default=default or row.default,
                validate=validate or row.validate,
                prune=prune or row.prune,
            )
        )

    def __getitem__(self, key: str) -> ResourceType:
        """Return the row of a kind key; KeyError when it is not served."""
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        """Report whether a kind key is served."""
        return key in self._by_key

    def __iter__(self) -> Iterator[ResourceType]:
        """Iterate over all rows."""
        return iter(self._by_key.values())

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the row of a path, or None."""
        return self._by_path.get((group, version, plural))

    def groups(self) -> dict[str, dict[str, list[ResourceType]]]:
        """Return the rows by group and version, in the order in which they were added."""
        out: dict[str, dict[str, list[ResourceType]]] = {}
        for row in self:
            out.setdefault(row.group, {}).setdefault(row.version, []).append(row)
        return out


def _row(group_version: str, plural: str, kind: str, *short: str, **more: object) -> ResourceType:
    group, _, version = group_version.rpartition("/")
    return ResourceType(group=group, version=version, plural=plural, kind=kind, short_names=short, **more)  # type: ignore[arg-type]


_STATUS = frozenset({"status"})
_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.name", "involvedObject.namespace",
    "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
    "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
)  # fmt: skip
_POD_FIELDS = (
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
    "status.phase", "status.podIP", "status.nominatedNodeName",
)  # fmt: skip


def core_rows() -> list[ResourceType]:
    """Return the types of Kubernetes itself that the driver, the nodes and kubectl use."""
    return [
        _row("v1", "namespaces", "Namespace", "ns", namespaced=False,
             subresources=frozenset({"status", "finalize"}), fields=("status.phase",),
             default=default_namespace),
        _row("v1", "pods", "Pod", "po", generation=True, categories=("all",), fields=_POD_FIELDS,
             subresources=frozenset({"status", "binding", "eviction", "log"}),
             default=default_pod, validate=validate_pod, prune=prune_pod),
        _row("v1", "nodes", "Node", "no", namespaced=False, subresources=frozenset({"status", "proxy"}),
             fields=("spec.unschedulable",), keeps_status=True, default=default_node),
        _row("v1", "events", "Event", "ev", fields=_EVENT_FIELDS),
        _row("v1", "services", "Service", "svc", subresources=_STATUS, categories=("all",),
             default=default_service, validate=validate_service),
        _row("v1", "endpoints", "Endpoints", "ep"),
        _row("v1", "configmaps", "ConfigMap", "cm"),
        _row("v1", "secrets", "Secret", fields=("type",), default=default_secret),
        _row("v1", "serviceaccounts", "ServiceAccount", "sa",
             subresources=frozenset({"token"})),
        _row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS),
        _row("v1", "persistentvolumes", "PersistentVolume", "pv", namespaced=False, subresources=_STATUS),
        _row("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", namespaced=False),
        _row("v1", "resourcequotas", "ResourceQuota", "quota", subresources=_STATUS),
        _row("v1", "limitranges", "LimitRange", "limits"),
        _row("batch/v1", "jobs", "Job", generation=True, categories=("all",), subresources=_STATUS,
             fields=("status.successful",), default=default_job, validate=validate_job,
             prune=prune_job),
        _row("apps/v1", "deployments", "Deployment", "deploy", generation=True, categories=("all",),
             subresources=_STATUS),
        _row("apps/v1", "daemonsets", "DaemonSet", "ds", generation=True, categories=("all",),
             subresources=_STATUS),
        _row("coordination.k8s.io/v1", "leases", "Lease"),
        _row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", generation=True),
        _row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", namespaced=False,
             generation=True),
        _row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol",
             generation=True),
        _row("rbac.authorization.k8s.io/v1", "roles", "Role"),
        _row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
        _row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False),
        _row("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding",
             namespaced=False),
    ]  # fmt: skip


def volcano_rows() -> list[ResourceType]:
    """Return the custom types that an installed Volcano adds.

    PodGroups have no status sub-resource, as in the CustomResourceDefinitions of Volcano v1.14.4.
    """
    return [
        _row("batch.volcano.sh/v1alpha1", "jobs", "Job", "vcjob", "vj", custom=True,
             generation=True, subresources=_STATUS),
        _row("bus.volcano.sh/v1alpha1", "commands", "Command", custom=True, generation=True),
        _row("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup", "pg", "podgroup-v1beta1",
             custom=True, generation=True),
        _row("scheduling.volcano.sh/v1beta1", "queues", "Queue", "q", "queue-v1beta1",
             namespaced=False, custom=True, generation=True, subresources=_STATUS),
    ]  # fmt: skip


def kueue_rows() -> list[ResourceType]:
    """Return the custom types that an installed Kueue adds, as far as they are played."""
    group = "kueue.x-k8s.io/v1beta2"
    return [
        _row(group, "resourceflavors", "ResourceFlavor", "flavor", "flavors", "rf", namespaced=False,
             custom=True, generation=True),
        _row(group, "topologies", "Topology", namespaced=False, custom=True, generation=True),
        _row(group, "admissionchecks", "AdmissionCheck", namespaced=False, custom=True, generation=True,
             subresources=_STATUS),
        _row(group, "clusterqueues", "ClusterQueue", "cq", namespaced=False, custom=True, generation=True,
             subresources=_STATUS),
        _row(group, "localqueues", "LocalQueue", "queue", "queues", "lq", custom=True, generation=True,
             subresources=_STATUS),
        _row(group, "workloads", "Workload", "kwl", "kueueworkload", "kueueworkloads", custom=True,
             generation=True, subresources=_STATUS),
        _row(group, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False, custom=True,
             generation=True),
    ]  # fmt: skip


def jobset_rows() -> list[ResourceType]:
    """Return the custom type that an installed JobSet adds."""
    return [
        _row(
            "jobset.x-k8s.io/v1alpha2",
            "jobsets",
            "JobSet",
            custom=True,
            generation=True,
            subresources=_STATUS,
        )
    ]


def native_rows() -> list[ResourceType]:
    """Return the types of gangs of Kubernetes itself, which are served where their gate is on."""
    return [
        _row("scheduling.k8s.io/v1beta1", "workloads", "Workload"),
        _row("scheduling.k8s.io/v1beta1", "podgroups", "PodGroup", subresources=_STATUS),
    ]


def network_rows() -> list[ResourceType]:
    """Return the custom type that describes further networks of pods."""
    return [
        _row("k8s.cni.cncf.io/v1", "network-attachment-definitions", "NetworkAttachmentDefinition",
             "net-attach-def", custom=True, generation=True),
    ]  # fmt: skip


def build_table(
    *, volcano: bool = True, kueue: bool = False, native: bool = False, jobset: bool = False
) -> ResourceTable:
    """Return the table of a cluster with or without Volcano, Kueue, native gangs and JobSet."""
    rows = core_rows() + network_rows()
    for there, more in (
        (native, native_rows),
        (volcano, volcano_rows),
        (kueue, kueue_rows),
        (jobset, jobset_rows),
    ):
        rows += more() if there else []
    return ResourceTable(rows)
