"""What a request asks for, as RBAC sees it: verb, resource, name; or a path that is no resource."""

from collections.abc import Mapping
from dataclasses import dataclass

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Attributes:
    """What a request asks for.

    Attributes:
        verb: get, list, watch, create, update, patch, delete or deletecollection; the lower-case method for a path.
        path: The path, for what is no resource.
        group: API group, "" for the core group.
        resource: Plural, "" when the request is for a path.
        subresource: Such as `status`, "" for the object itself.
        namespace: "" for cluster-scoped objects and for all namespaces.
        name: "" where none is named, as on create and list.
    """

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def of_resource(self) -> bool:
        """Report whether a resource is asked for, not a path."""
        return bool(self.resource)

    @property
    def full_resource(self) -> str:
        """Return `nodes/status`, the form that rules and messages have."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Return what a request asks for; the path decides, whether or not the resource is served."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes({"HEAD": "get"}.get(method, method.lower()), path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        # The object of a namespace counts as lying in it: a Role in it can grant `get namespaces`.
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    verb = _VERBS.get(method, "get")
    if not name and verb in ("get", "delete"):
        name = _name_selected(query.get("fieldSelector", ""))
        watching = query.get("watch") in ("1", "true")
        verb = {"delete": "deletecollection", "get": "watch" if watching else "list"}[verb]
    return Attributes(verb, path, group, rest[0], subresource, namespace, name)


def _name_selected(selector: str) -> str:
    """Return the one name that a field selector leaves, "" when it leaves more."""
    for part in selector.split(","):
        field, equals, value = part.replace("==", "=").partition("=")
        if equals and field == "metadata.name":
            return value
    return ""
