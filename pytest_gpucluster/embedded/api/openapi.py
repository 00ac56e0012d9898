"""OpenAPI documents: as much as kubectl asks for before it applies a manifest.

kubectl looks up whether the server checks fields itself (a `fieldValidation` parameter on PATCH) and then
leaves validation to it; so schemas say no more than that an object may have any field.
"""

from pytest_gpucluster.embedded.api.paths import no_such_path
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.resources import ResourceTable, ResourceType

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")


def _schema_name(row: ResourceType) -> str:
    domain = ".".join(reversed((row.group or "core").split(".")))
    return f"{domain}.{row.version}.{row.kind}"


def _gvk(row: ResourceType) -> Obj:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _schema(row: ResourceType) -> Obj:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": f"{row.kind} of {row.api_version}.",
        "properties": {"apiVersion": text, "kind": text, "metadata": {"type": "object"}},
        "x-kubernetes-group-version-kind": [_gvk(row)],
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _collection_path(row: ResourceType) -> str:
    root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    return root + ("/namespaces/{namespace}" if row.namespaced else "") + f"/{row.plural}"


def _operation(row: ResourceType, action: str, content_types: list[str]) -> Obj:
    reference = {"$ref": f"#/components/schemas/{_schema_name(row)}"}
    return {
        "operationId": f"{action}{row.kind}",
        "parameters": [
            {"name": p, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for p in _PARAMETERS
        ],
        "requestBody": {"content": {c: {"schema": reference} for c in content_types}},
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(row),
    }


def openapi_v3(table: ResourceTable, group: str, version: str) -> Obj:
    """Return the OpenAPI v3 document of one group and version.

    Raises:
        ApiError: 404 when it is not served.
    """
    rows = table.groups().get(group, {}).get(version)
    if rows is None:
        raise no_such_path()
    paths: Obj = {}
    patches = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
    for row in rows:
        base = _collection_path(row)
        paths[base] = {"post": _operation(row, "post", ["application/json"])}
        paths[base + "/{name}"] = {
            "patch": _operation(row, "patch", patches),
            "put": _operation(row, "put", ["application/json"]),
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "embedded"},
        "paths": paths,
        "components": {"schemas": {_schema_name(row): _schema(row) for row in rows}},
    }


def openapi_v3_index(table: ResourceTable) -> Obj:
    """Return which OpenAPI v3 documents there are."""
    paths: Obj = {}
    for group, versions in table.groups().items():
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}"}
    return {"paths": paths}


def openapi_v2(table: ResourceTable) -> Obj:
    """Return the OpenAPI v2 document of all types."""
    paths: Obj = {}
    for row in table:
        base = _collection_path(row)
        paths[base + "/{name}"] = {"patch": _operation(row, "patch", []) | {"requestBody": None}}
        del paths[base + "/{name}"]["patch"]["requestBody"]
        for response in paths[base + "/{name}"]["patch"]["responses"].values():
            response.pop("content")
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "embedded"},
        "paths": paths,
        "definitions": {_schema_name(row): _schema(row) for row in table},
    }


def document(table: ResourceTable, path: str) -> Obj:
    """Return the document of a path below /openapi.

    Raises:
        ApiError: 404.
    """
    match path.strip("/").split("/"):
        case ["openapi", "v2"]:
            return openapi_v2(table)
        case ["openapi", "v3"]:
            return openapi_v3_index(table)
        case ["openapi", "v3", "api", version]:
            return openapi_v3(table, "", version)
        case ["openapi", "v3", "apis", group, version]:
            return openapi_v3(table, group, version)
    raise no_such_path()
