"""What a request path means."""

from dataclasses import dataclass

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.resources import ResourceTable, ResourceType


@dataclass(frozen=True)
class Target:
    """What a request is about.

    Attributes:
        row: The resource type.
        namespace: Its namespace; None for a cluster-scoped type or all namespaces.
        name: Name of one object, None for the collection.
        subresource: Such as `status`, None for the object itself.
        rest: What follows the sub-resource `proxy`.
    """

    row: ResourceType
    namespace: str | None
    name: str | None
    subresource: str | None
    rest: str = ""


def no_such_path() -> ApiError:
    """Return the 404 of a path or resource that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def parse_path(table: ResourceTable, path: str) -> Target:
    """Return what a path below /api or /apis is about.

    Raises:
        ApiError: 404 when nothing is served there.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and table.find(group, version, rest[2]):
        namespace, rest = rest[1], rest[2:]
    row = table.find(group, version, rest[0])
    proxied = rest[2:3] == ["proxy"]
    if row is None or (len(rest) > 3 and not proxied):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else None
    subresource = rest[2] if len(rest) > 2 else None
    scoped_wrongly = row.namespaced == (namespace is None) and (name is not None or not row.namespaced)
    if scoped_wrongly or (subresource is not None and subresource not in row.subresources):
        raise no_such_path()
    return Target(row, namespace, name, subresource, "/".join(rest[3:]))


def template_of(target: Target, path: str) -> str:
    """Return a path with its namespace and name replaced by what they are."""
    prefix = "/".join(path.split("/")[: 3 if not target.row.group else 4])
    out = prefix + ("/namespaces/{namespace}" if target.namespace else "") + f"/{target.row.plural}"
    if target.name:
        out += "/{name}"
    return out + (f"/{target.subresource}" if target.subresource else "")
