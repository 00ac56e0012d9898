"""Discovery: which groups, versions and resources there are, in the old form and the aggregated one."""

from typing import Any

from aiohttp import web

from pytest_gpucluster.embedded.api.bodies import answer
from pytest_gpucluster.embedded.api.paths import no_such_path
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.resources import VERBS, ResourceTable, ResourceType

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_SUB_KINDS = {
    "binding": ("Binding", "", "v1"),
    "eviction": ("Eviction", "policy", "v1"),
    "token": ("TokenRequest", "authentication.k8s.io", "v1"),
}


def version_info(git_version: str) -> dict[str, str]:
    """Return what /version answers for a version such as `v1.37.0`."""
    parts = git_version.lstrip("v").split(".")
    return {
        "major": parts[0],
        "minor": parts[1] if len(parts) > 1 else "0",
        "emulationMajor": parts[0],
        "emulationMinor": parts[1] if len(parts) > 1 else "0",
        "gitVersion": git_version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def _sub_verbs(name: str) -> list[str]:
    if name in ("binding", "eviction", "token"):
        return ["create"]
    return ["get"] if name == "log" else ["get", "patch", "update"]


def _resources(rows: list[ResourceType]) -> list[Obj]:
    out: list[Obj] = []
    for row in rows:
        entry: Obj = {
            "name": row.plural,
            "singularName": row.singular,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(VERBS),
            "storageVersionHash": row.kind,
        }
        if row.short_names:
            entry["shortNames"] = list(row.short_names)
        if row.categories:
            entry["categories"] = list(row.categories)
        out.append(entry)
        for name in sorted(row.subresources):
            kind, group, version = _SUB_KINDS.get(name, (row.kind, "", ""))
            sub: Obj = {
                "name": f"{row.plural}/{name}",
                "singularName": "",
                "namespaced": row.namespaced,
                "kind": kind,
                "verbs": _sub_verbs(name),
            }
            if name in _SUB_KINDS:
                sub |= {"group": group, "version": version}
            out.append(sub)
    return out


def resource_list(group: str, version: str, rows: list[ResourceType]) -> Obj:
    """Return the APIResourceList of one group and version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": _resources(rows),
    }


def _group(name: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _aggregated_resource(row: ResourceType) -> Obj:
    gvk = {"group": row.group, "version": row.version, "kind": row.kind}
    out: Obj = {
        "resource": row.plural,
        "responseKind": gvk,
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(VERBS),
    }
    if row.short_names:
        out["shortNames"] = list(row.short_names)
    if row.categories:
        out["categories"] = list(row.categories)
    if row.subresources:
        subs: list[Obj] = []
        for name in sorted(row.subresources):
            kind = gvk
            if name in _SUB_KINDS:
                kind = dict(zip(("kind", "group", "version"), _SUB_KINDS[name], strict=True))
            subs.append({"subresource": name, "responseKind": kind, "verbs": _sub_verbs(name)})
        out["subresources"] = subs
    return out


def aggregated(table: ResourceTable, *, core: bool) -> Obj:
    """Return the aggregated discovery document of /api or of /apis."""
    items: list[Obj] = []
    for group, versions in table.groups().items():
        if (group == "") != core:
            continue
        listed = [
            {
                "version": v,
                "resources": [_aggregated_resource(r) for r in rows],
                "freshness": "Current",
            }
            for v, rows in versions.items()
        ]
        meta: Obj = {"creationTimestamp": None}
        items.append({"metadata": meta | ({"name": group} if group else {}), "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def serve_discovery(table: ResourceTable, path: str, accept: str) -> web.Response:
    """Answer a discovery path.

    Raises:
        ApiError: 404 when the path names no served group.
    """
    groups = table.groups()
    parts = path.strip("/").split("/")
    wants_aggregated = "g=apidiscovery.k8s.io" in accept and "v=v2" in accept
    match parts:
        case [("api" | "apis") as root] if wants_aggregated:
            return answer(aggregated(table, core=root == "api"), content_type=AGGREGATED)
        case ["api"]:
            return answer({"kind": "APIVersions", "apiVersion": "v1", "versions": list(groups[""])})
        case ["apis"]:
            listed: list[Any] = [_group(g, list(v)) for g, v in groups.items() if g]
            return answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        case ["api", version] if version in groups[""]:
            return answer(resource_list("", version, groups[""][version]))
        case ["apis", group] if group and group in groups:
            head = {"kind": "APIGroup", "apiVersion": "v1"}
            return answer(head | _group(group, list(groups[group])))
        case ["apis", group, version] if group and version in groups.get(group, {}):
            return answer(resource_list(group, version, groups[group][version]))
    raise no_such_path()
