"""Which cluster this is: the uid that lives as long as it does, and what tells its machines and versions apart."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.kube.permissions import Permission, on
from pytest_gpucluster.plain import components

LASTS = "kube-system"
"""The namespace that is made with a cluster and that nobody can remove: its uid is the cluster's."""

WISH = Permission("", "namespaces", "get", namespace=LASTS, name=LASTS)
"""What reading it takes: a Role in that very namespace grants it, as for an object inside. Nobody must grant it:
without it a cluster is known by its nodes."""

_HIDDEN = (401, 403, 404)


@dataclasses.dataclass(frozen=True)
class Survey:
    """What was read of a cluster to tell it from others.

    Attributes:
        uid: uid of the cluster, "" if it may not be read.
        nodes: Node objects.
        version: what the API server says of its version.
        deployments: Deployments in the namespaces of known components, of those that may be read.
    """

    uid: str
    nodes: tuple[Mapping[str, Any], ...]
    version: Mapping[str, Any]
    deployments: tuple[Mapping[str, Any], ...]


def uid(api: objects.Objects) -> str:
    """Return the uid of the cluster, "" if it may not be read; one request.

    Raises:
        EnvironmentProblem: the API server does not answer.
    """
    try:
        found = api.get(objects.NAMESPACE, LASTS)
    except errors.ApiError as error:
        if error.code in _HIDDEN:
            return ""
        raise errors.EnvironmentProblem(str(error)) from error
    return str((found.get("metadata") or {}).get("uid") or "")


def declared(profile: Any) -> set[str]:
    """Return the components that a profile (`profile.Profile`) declares."""
    return {profile.scheduler, *profile.versions, *(["kueue"] if profile.kueue is not None else [])}


def wanted(namespaces: Mapping[str, str], components_: Iterable[str]) -> set[Permission]:
    """Return what a survey takes; the versions of a component that may not be listed are not compared.

    Args:
        namespaces: component -> namespace, for those that are somewhere else than documented.
        components_: components that the profile declares.
    """
    found = {WISH, *on(objects.NODE, "list")}
    for component in set(components_) & set(components.NAMESPACES):
        found |= on(_DEPLOYMENT, "list", namespace=components.namespace(component, namespaces))
    return found


def survey(api: objects.Objects, namespaces: Mapping[str, str], components_: Iterable[str]) -> Survey:
    """Read what identifies a cluster; three requests, and one per component.

    Args:
        api: the verbs.
        namespaces: component -> namespace, for those that are somewhere else than documented.
        components_: components that the profile declares.

    Raises:
        EnvironmentProblem: nodes may not be read, or the API server does not answer.
    """
    try:
        nodes = tuple(api.list(objects.NODE))
        version = api.connection.call(
            connections.Ask("get", "version", "GET", "/version", "get the server's version")
        )
    except errors.ApiError as error:
        raise errors.EnvironmentProblem(str(error)) from error
    found: list[Mapping[str, Any]] = []
    for component in sorted(set(components_) & set(components.NAMESPACES)):
        try:
            found += api.list(_DEPLOYMENT, components.namespace(component, namespaces))
        except errors.ApiError as error:
            if error.code not in _HIDDEN:
                raise errors.EnvironmentProblem(str(error)) from error
    return Survey(uid(api), nodes, version, tuple(found))


_DEPLOYMENT = objects.table_row("Deployment")
