"""Where objects of a kind live in the API: a table, so that knowing them costs no request."""

import dataclasses
from collections.abc import Iterable
from urllib.parse import quote

from pytest_gpucluster.plain import names

FOREGROUND = frozenset({names.NATIVE_POD_GROUP})
"""Kinds that are deleted after what they own: a PodGroup stays while unfinished pods name it, and its pods while it
is there."""


@dataclasses.dataclass(frozen=True)
class KindInfo:
    """One kind as the API serves it.

    Attributes:
        api_version: `v1` or `group/version`.
        kind: the kind.
        plural: resource name in paths and permissions.
        namespaced: whether objects live in a namespace.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def key(self) -> str:
        """Return the kind key under which objects are recorded."""
        return names.kind_key(self.api_version, self.kind)

    @property
    def group(self) -> str:
        """Return the API group, "" for the core group."""
        return self.api_version.partition("/")[0] if "/" in self.api_version else ""

    @property
    def root(self) -> str:
        """Return the path of the group and version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Return the path of the collection, an object or a sub-resource of it."""
        parts = [self.root]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _rows(api_version: str, rows: str) -> Iterable[KindInfo]:
    for row in rows.split():
        kind, plural = row.rstrip("!").split(":")
        yield KindInfo(api_version, kind, plural, namespaced=not row.endswith("!"))


TABLE: tuple[KindInfo, ...] = (
    *_rows(
        "v1", "Namespace:namespaces! Pod:pods Node:nodes! Event:events Service:services Endpoints:endpoints"
    ),
    *_rows("v1", "ConfigMap:configmaps Secret:secrets ServiceAccount:serviceaccounts"),
    *_rows("v1", "PersistentVolumeClaim:persistentvolumeclaims ResourceQuota:resourcequotas"),
    *_rows("v1", "PersistentVolume:persistentvolumes!"),
    *_rows("storage.k8s.io/v1", "StorageClass:storageclasses!"),
    *_rows("apps/v1", "Deployment:deployments DaemonSet:daemonsets"),
    *_rows("batch/v1", "Job:jobs"),
    *_rows("coordination.k8s.io/v1", "Lease:leases"),
    *_rows("scheduling.k8s.io/v1", "PriorityClass:priorityclasses!"),
    *_rows(
        "rbac.authorization.k8s.io/v1", "ClusterRole:clusterroles! ClusterRoleBinding:clusterrolebindings!"
    ),
    *_rows("networking.k8s.io/v1", "NetworkPolicy:networkpolicies"),
    *_rows("batch.volcano.sh/v1alpha1", "Job:jobs"),
    *_rows("bus.volcano.sh/v1alpha1", "Command:commands"),
    *_rows("scheduling.volcano.sh/v1beta1", "PodGroup:podgroups Queue:queues!"),
    *_rows("kueue.x-k8s.io/v1beta2", "ClusterQueue:clusterqueues! LocalQueue:localqueues Workload:workloads"),
    *_rows("kueue.x-k8s.io/v1beta2", "ResourceFlavor:resourceflavors! AdmissionCheck:admissionchecks!"),
    *_rows("kueue.x-k8s.io/v1beta2", "Topology:topologies!"),
    *_rows("scheduling.k8s.io/v1beta1", "PodGroup:podgroups Workload:workloads"),
    *_rows("jobset.x-k8s.io/v1alpha2", "JobSet:jobsets"),
    *_rows("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet:leaderworkersets"),
    *_rows("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition:network-attachment-definitions"),
    *_rows("topology.node.k8s.io/v1alpha2", "NodeResourceTopology:noderesourcetopologies!"),
)
"""Kinds known beforehand; `!` marks cluster-scoped ones. No two rows have the same kind key."""

_BY_VERSION = {(info.api_version, info.kind): info for info in TABLE}
_BY_KEY = {info.key: info for info in TABLE}


def known(api_version: str, kind: str) -> KindInfo | None:
    """Return the row of a kind in a group and version, None when the table has none."""
    return _BY_VERSION.get((api_version, kind))


def by_key(key: str) -> KindInfo | None:
    """Return the row of a kind key, None when the table has none."""
    return _BY_KEY.get(key)
