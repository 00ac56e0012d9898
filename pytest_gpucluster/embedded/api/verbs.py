"""The verbs on objects and collections."""

import base64
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.api import bodies
from pytest_gpucluster.embedded.api.apply import apply, created_fields
from pytest_gpucluster.embedded.api.bodies import answer, dry_run_of, is_true, read_body
from pytest_gpucluster.embedded.api.patch import json_patch, merge_patch, strategic_merge
from pytest_gpucluster.embedded.api.paths import Target
from pytest_gpucluster.embedded.api.rendering import Rendering
from pytest_gpucluster.embedded.api.selection import selection
from pytest_gpucluster.embedded.errors import ApiError, bad_request
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of
from pytest_gpucluster.embedded.store import Store

_PAGES_KEPT = 64


class Pages:
    """The rest of lists that are read page by page, each as it was when its first page was read."""

    def __init__(self) -> None:
        """Keep no page yet."""
        self._rest: OrderedDict[str, tuple[int, list[Obj]]] = OrderedDict()

    def keep(self, version: int, rest: list[Obj]) -> str:
        """Return the token of the pages that follow."""
        key = secrets.token_hex(8)
        self._rest[key] = (version, rest)
        while len(self._rest) > _PAGES_KEPT:
            self._rest.popitem(last=False)
        return base64.urlsafe_b64encode(json.dumps({"rv": version, "at": key}).encode()).decode()

    def take(self, token: str) -> tuple[int, list[Obj]]:
        """Return version and objects of a token.

        Raises:
            ApiError: 400 for a token that is none, 410 for one that has expired.
        """
        try:
            key = json.loads(base64.urlsafe_b64decode(token))["at"]
        except (ValueError, KeyError, TypeError):
            raise bad_request(f"continue key is not valid: {token!r}") from None
        found = self._rest.get(key)
        if found is None:
            raise errors.expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
        return found

    def expire(self) -> None:
        """Forget every page, so that tokens are answered with 410."""
        self._rest.clear()


def list_objects(store: Store, pages: Pages, target: Target, request: web.Request, form: Rendering) -> Obj:
    """Return the answer to a list request."""
    query, row = request.query, target.row
    select = selection(row, query)
    if query.get("continue"):
        version, objs = pages.take(query["continue"])
    else:
        version, objs = store.version, store.peek_all(row.key, target.namespace, select)
    meta: Obj = {"resourceVersion": str(version)}
    limit = int(query.get("limit") or 0)
    if 0 < limit < len(objs):
        meta["continue"] = pages.keep(version, objs[limit:])
        if not query.get("fieldSelector") and not query.get("labelSelector"):
            meta["remainingItemCount"] = len(objs) - limit
        objs = objs[:limit]
    return form.many(row, objs, meta)


def need(store: Store, target: Target) -> Obj:
    """Return the object that a request names.

    Raises:
        ApiError: 404.
    """
    return store.get(target.row.key, target.namespace, target.name or "")


def check_body(target: Target, body: Any) -> Obj:
    """Return a body that is an object of the type, name and namespace of the request.

    Raises:
        ApiError: 400.
    """
    row = target.row
    if not isinstance(body, dict):
        raise bad_request("unable to decode the request body: an object is needed")
    if not isinstance(body.get("metadata", {}), dict):
        raise bad_request("metadata must be an object")
    if body.get("kind") not in (None, row.kind):
        raise bad_request(
            f'{body["kind"]} in version "{row.version}" cannot be handled as a {row.kind}: no kind match'
        )
    if body.get("apiVersion") not in (None, row.api_version):
        raise bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected API version "
            f"({row.api_version})"
        )
    meta = body.setdefault("metadata", {})
    if target.name and meta.get("name") not in (None, "", target.name):
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
        )
    if row.namespaced:
        if meta.get("namespace") not in (None, "", target.namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = target.namespace
    if target.name:
        meta["name"] = target.name
    return body


def check_fields(target: Target, body: Obj, twice: list[str], query: Mapping[str, str]) -> list[str]:
    """Remove unknown fields from a body and return the warnings about them.

    Raises:
        ApiError: 400 under fieldValidation=Strict.
    """
    found = [f'duplicate field "{f}"' for f in twice]
    found += [f'unknown field "{f}"' for f in target.row.prune(body)]
    mode = query.get("fieldValidation") or "Warn"
    if not found or mode == "Ignore":
        return []
    if mode == "Strict":
        row = target.row
        raise bad_request(
            f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}: '
            f"strict decoding error: {', '.join(found)}"
        )
    return found


def with_warnings(response: web.Response, warnings: list[str]) -> web.Response:
    """Return a response that carries warnings as kubectl shows them."""
    for text in warnings:
        quoted = text.replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


async def create(store: Store, target: Target, request: web.Request, form: Rendering) -> web.Response:
    """Answer POST on a collection."""
    body, twice = await read_body(request)
    obj = check_body(target, body)
    warnings = check_fields(target, obj, twice, request.query)
    if target.row.custom and isinstance(obj.get("spec"), dict):
        manager = (request.headers.get("User-Agent") or "unknown").partition("/")[0]
        obj["metadata"]["managedFields"] = created_fields(
            obj, target.row.default, manager=manager, now=store.now()
        )
    made = store.create(target.row.key, obj, dry_run=dry_run_of(request.query))
    return with_warnings(answer(form.one(target.row, made), 201), warnings)


async def replace(store: Store, target: Target, request: web.Request, form: Rendering) -> web.Response:
    """Answer PUT on an object or its status."""
    body, twice = await read_body(request)
    obj = check_body(target, body)
    warnings = check_fields(target, obj, twice, request.query)
    stored = store.update(
        target.row.key, obj, subresource=target.subresource, dry_run=dry_run_of(request.query)
    )
    return with_warnings(answer(form.one(target.row, stored)), warnings)


async def patch(store: Store, target: Target, request: web.Request, form: Rendering) -> web.Response:
    """Answer PATCH on an object or its status, in the type that its content type names."""
    body, twice = await read_body(request)
    row, query, dry = target.row, request.query, dry_run_of(request.query)
    live = store.find(row.key, target.namespace, target.name or "")
    if request.content_type == bodies.PATCH_APPLY:
        return _apply(store, target, query, form, (live, body))
    if live is None:
        raise errors.not_found(row.plural, row.group, target.name or "")
    patched = _patched(target, request.content_type, live, body)
    obj = check_body(target, patched)
    warnings = check_fields(target, obj, twice, query)
    stored = store.update(row.key, obj, subresource=target.subresource, dry_run=dry)
    return with_warnings(answer(form.one(row, stored)), warnings)


def _patched(target: Target, content_type: str, live: Obj, body: Any) -> Any:
    if content_type == bodies.PATCH_JSON:
        return json_patch(live, body)
    if content_type in (bodies.PATCH_MERGE, bodies.PATCH_STRATEGIC) and not isinstance(body, dict):
        raise bad_request("error decoding patch: an object is needed")
    if content_type == bodies.PATCH_MERGE:
        return merge_patch(live, body)
    if content_type == bodies.PATCH_STRATEGIC and not target.row.custom:
        return strategic_merge(live, body)
    accepted = [bodies.PATCH_JSON, bodies.PATCH_MERGE, bodies.PATCH_APPLY]
    if not target.row.custom:
        accepted.insert(2, bodies.PATCH_STRATEGIC)
    text = "the body of the request was in an unknown format - accepted media types include: "
    raise ApiError(415, "UnsupportedMediaType", text + ", ".join(accepted))


def _apply(
    store: Store, target: Target, query: Mapping[str, str], form: Rendering, states: tuple[Obj | None, Any]
) -> web.Response:
    """Answer an apply; `states` are the present object, if any, and what is applied."""
    row, (live, body) = target.row, states
    manager = query.get("fieldManager")
    if not manager:
        cause = errors.required("fieldManager", "is required for apply patch")
        raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
    applied = check_body(target, body)
    warnings = check_fields(target, applied, [], query)
    applied |= {"apiVersion": row.api_version, "kind": row.kind}
    wanted = apply(
        live,
        applied,
        manager=manager,
        force=is_true(query, "force"),
        merged=not row.custom,
        now=store.now(),
    )
    dry = dry_run_of(query)
    if live is None:
        if target.subresource:
            raise errors.not_found(row.plural, row.group, target.name or "")
        made = store.create(row.key, wanted, dry_run=dry)
        return with_warnings(answer(form.one(row, made), 201), warnings)
    stored = store.update(row.key, wanted, subresource=target.subresource, dry_run=dry)
    return with_warnings(answer(form.one(row, stored)), warnings)


async def _delete_options(request: web.Request) -> Obj:
    body, _ = await read_body(request)
    options: Obj = body if isinstance(body, dict) else {}
    query = request.query
    if query.get("gracePeriodSeconds"):
        options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    if options.get("orphanDependents"):
        options["propagationPolicy"] = "Orphan"
    return options


async def delete(store: Store, target: Target, request: web.Request, form: Rendering) -> web.Response:
    """Answer DELETE on an object."""
    options = await _delete_options(request)
    old = need(store, target)
    version = (options.get("preconditions") or {}).get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object "
            f"meta: {old['metadata']['resourceVersion']}"
        )
        raise errors.conflict(target.row.plural, target.row.group, name_of(old), why)
    last = _delete_one(store, target, old, options, dry=dry_run_of(request.query, options))
    row = target.row
    if row.key == "Pod" or (last is not None and is_deleting(last)):
        return answer(form.one(row, last or old))
    details = {"name": name_of(old), "kind": row.plural, "uid": old["metadata"]["uid"]}
    if row.group:
        details["group"] = row.group
    return answer(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    )


def _delete_one(store: Store, target: Target, obj: Obj, options: Obj, *, dry: bool) -> Obj | None:
    grace = options.get("gracePeriodSeconds")
    return store.delete(
        target.row.key,
        namespace_of(obj) or None,
        name_of(obj),
        uid=(options.get("preconditions") or {}).get("uid"),
        grace=None if grace is None else int(grace),
        propagation=options.get("propagationPolicy") or "Background",
        dry_run=dry,
    )


async def delete_collection(
    store: Store, target: Target, request: web.Request, form: Rendering
) -> web.Response:
    """Answer DELETE on a collection."""
    options = await _delete_options(request)
    select = selection(target.row, request.query)
    found = store.list(target.row.key, target.namespace, select)
    dry = dry_run_of(request.query, options)
    for obj in found:
        _delete_one(store, target, obj, options, dry=dry)
    return answer(form.many(target.row, found, {"resourceVersion": str(store.version)}))
