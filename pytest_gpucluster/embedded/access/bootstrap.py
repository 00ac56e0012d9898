"""The roles and bindings that every cluster has from the start, as far as somebody here uses them."""

from pytest_gpucluster.embedded.access.users import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.store import Store

GROUP = "rbac.authorization.k8s.io"
NODES = "system:nodes"
"""Group of the node agents."""


def _rule(verbs: str, group: str, resources: str) -> Obj:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}


def _paths(*paths: str) -> Obj:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")

# One agent plays every node here, so that what NodeRestriction limits to "its own" node is any node.
_NODE_RULES: list[Obj] = [
    _rule("create get list watch update patch delete", "", "nodes"),
    _rule("update patch", "", "nodes/status"),
    _rule("get list watch create delete", "", "pods"),
    _rule("update patch", "", "pods/status"),
    # What Multus does with an account of its own: it tells on the pod which networks it attached.
    _rule("patch", "", "pods"),
    _rule("create patch update", "", "events"),
    _rule("get list watch", "", "configmaps secrets services endpoints serviceaccounts namespaces"),
    _rule("get list watch", "", "persistentvolumeclaims persistentvolumes"),
    _rule("create", "", "serviceaccounts/token"),
    _rule("create delete get patch update list watch", "coordination.k8s.io", "leases"),
    _rule("get list watch", "discovery.k8s.io", "endpointslices"),
]

CLUSTER_ROLES: dict[str, tuple[list[Obj], str]] = {
    "cluster-admin": (
        [_rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
        MASTERS,
    ),
    "system:basic-user": (
        [_rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews")],
        AUTHENTICATED,
    ),
    "system:discovery": (
        [_paths("/", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC)],
        AUTHENTICATED,
    ),
    "system:public-info-viewer": ([_paths(*_PUBLIC)], UNAUTHENTICATED),
    "system:node": (_NODE_RULES, NODES),
}
"""ClusterRole -> its rules and the group that a ClusterRoleBinding of the same name gives it to."""


def create_first_roles(store: Store) -> None:
    """Create the roles and their bindings."""
    for name, (rules, group) in CLUSTER_ROLES.items():
        meta = {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
        store.create("ClusterRole", {"metadata": dict(meta), "rules": rules})
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": GROUP, "kind": "Group", "name": group}
        binding = {"metadata": dict(meta), "roleRef": reference, "subjects": [subject]}
        store.create("ClusterRoleBinding", binding)
