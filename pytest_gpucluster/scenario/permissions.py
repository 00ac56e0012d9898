"""Which permissions a run takes, from what its scenarios declare, and the roles that grant exactly these."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.kube import kinds, objects
from pytest_gpucluster.kube import permissions as kube
from pytest_gpucluster.kube.permissions import Permission
from pytest_gpucluster.plain import components
from pytest_gpucluster.scenario import cluster_identity, cluster_lease, proofs, spec
from pytest_gpucluster.scenario.submit import INERT

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

RBAC = "rbac.authorization.k8s.io"
GPU_OPERATOR = "gpu-operator"
"""Component in whose namespace the exporters of GPU metrics are."""


def of_session(namespace: str | None) -> set[Permission]:
    """Return what a session itself takes: its namespace, made, removed and watched until it is gone.

    Args:
        namespace: the namespace that the operator lends, None where the session makes one.
    """
    return set() if namespace else kube.on(objects.NAMESPACE, "create", "delete", "watch")


def of_scenario(scenario: spec.Scenario, profile: "Profile", *, namespace: str | None) -> set[Permission]:
    """Return what a scenario takes: its kinds watched, its gang, its slots, and what else it declares.

    Raises:
        MalformedPermission: `Needs.permissions` has a text of another shape.
    """
    from pytest_gpucluster.workload import dialect  # noqa: PLC0415 (half of it is templates that nobody here needs)

    if scenario.undeclared(profile):
        return set()  # it does not apply, and asks for nothing
    found: set[Permission] = set()
    for key in scenario.watched(profile):
        found |= _on_key(key, "list", "watch")
    needs = scenario.needs
    main = (spec.Way(profile.scheduler, profile.workload.kind),) if needs.gang else ()
    for way in main + (spec.tried(profile) if needs.further else ()):
        speaks = dialect.dialect_for(way.scheduler, profile.queue, way.workload)
        for kind in (speaks.kind, *speaks.companions, *(speaks.mixed if needs.mixed else ())):
            found |= _on_key(kind, "create", "delete", "list", "watch")
        if needs.named and not speaks.names_members:
            found |= _on_key("Service", "create", "delete")
        for kind in speaks.own_queues:
            found |= _on_key(kind, "create", *(() if kind in INERT else ("delete",)))
    if needs.slot_nodes:
        found.add(Permission("", "nodes/status", "patch"))
    for text in needs.permissions:
        found |= {placed for each in kube.parse(text) for placed in _placed(each, profile)}
    if namespace:
        # In our own namespace these go with it, without a request each.
        inert = {(info.group, info.plural) for info in kinds.TABLE if info.key in INERT}
        found |= {
            Permission(each.group, each.resource, "delete")
            for each in found
            if each.verb == "create" and (each.group, each.resource) in inert
        }
    return found


def writes_gangs(profile: "Profile") -> bool:
    """Report whether a gang can be written for the declared scheduler."""
    from pytest_gpucluster.workload import dialect  # noqa: PLC0415

    return profile.scheduler in dialect.DIALECTS


NETWORKS = "networks"
"""What stands in braces for the namespaces of the networks that bring RDMA devices."""


def _placed(permission: Permission, profile: "Profile") -> set[Permission]:
    """Return a permission in the namespaces that its braces stand for; none where the profile declares no such part."""
    component = permission.component
    if not component:
        return {permission}
    if component == NETWORKS:
        every = () if profile.rdma is None else profile.rdma.networks
        return {dataclasses.replace(permission, namespace=full.partition("/")[0]) for full in every}
    served = profile.metrics is not None and profile.metrics.service is not None
    declared = {*profile.versions, profile.scheduler, *([GPU_OPERATOR] if served else ())}
    if component not in declared:
        return set()
    return {dataclasses.replace(permission, namespace=components.namespace(component, profile.namespaces))}


def _on_key(key: str, *verbs: str) -> set[Permission]:
    info = kinds.by_key(key)
    return set() if info is None else kube.on(info, *verbs)


def of_run(
    scenarios: Iterable[spec.Scenario], profile: "Profile", *, namespace: str | None
) -> set[Permission]:
    """Return what a run of scenarios takes, its sessions included."""
    found = of_session(namespace)
    for scenario in scenarios:
        found |= of_scenario(scenario, profile, namespace=namespace)
        if cluster_lease.disturbs(scenario):
            found |= cluster_lease.permissions(profile.lease_namespace)
    return found


def of_proofs(
    scenarios: Iterable[spec.Scenario], profile: "Profile", *, namespace: str | None
) -> set[Permission]:
    """Return what the watches of scenarios take to show that they are current by a write of ours that comes back.

    Nobody must grant it: where it is missing a second watch shows it, which takes seconds instead of milliseconds.
    """
    found: set[Permission] = set()
    for scenario in scenarios:
        if scenario.undeclared(profile):
            continue
        for key in scenario.relied(profile):
            info = kinds.by_key(key)
            if info is not None and info.namespaced:
                made = ("create", *(("delete",) if namespace else ())) if key in proofs.MARKERS else ()
                found |= kube.on(info, "patch", *made)
    return found


def wished(
    scenarios: Iterable[spec.Scenario], profile: "Profile", *, namespace: str | None
) -> set[Permission]:
    """Return what a run uses if it is granted and does without if it is not: proofs of watches, the cluster's uid."""
    return of_proofs(scenarios, profile, namespace=namespace) | {cluster_identity.WISH}


# -- roles -----------------------------------------------------------------------------------------------------------


def roles(wanted: Iterable[Permission], name: str, *, namespace: str | None) -> list[dict[str, Any]]:
    """Return the Roles and the ClusterRole that grant exactly these, the ClusterRole first.

    What lies in the lent namespace becomes a Role there. Without one the namespace's name is not known beforehand,
    so what lies in it goes into the ClusterRole too. What is for a fixed namespace becomes a Role in that.
    """
    by_place: dict[str, list[Permission]] = {}
    for each in wanted:
        inside = each.namespace or (namespace if namespace and each.namespaced else "")
        by_place.setdefault(inside or "", []).append(each)
    made: list[dict[str, Any]] = []
    for place, permissions in sorted(by_place.items()):
        metadata = {"name": name, **({"namespace": place} if place else {})}
        kind = "Role" if place else "ClusterRole"
        made.append(
            {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": kube.rules(permissions)}
        )
    return made


def bindings(granted: Iterable[dict[str, Any]], account: str, account_namespace: str) -> list[dict[str, Any]]:
    """Return a ServiceAccount and what binds each role to it."""
    made: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": account_namespace},
        }
    ]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": account_namespace}
    made += [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{role['kind']}Binding",
            "metadata": dict(role["metadata"]),
            "roleRef": {"apiGroup": RBAC, "kind": role["kind"], "name": role["metadata"]["name"]},
            "subjects": [subject],
        }
        for role in granted
    ]
    return made
