"""Sub-resources that are more than a part of their object: binding, eviction, finalize, token."""

from typing import Any

from aiohttp import web

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.access.users import Tokens
from pytest_gpucluster.embedded.api.bodies import answer, dry_run_of, read_body
from pytest_gpucluster.embedded.api.paths import Target
from pytest_gpucluster.embedded.api.verbs import need
from pytest_gpucluster.embedded.binding import bind
from pytest_gpucluster.embedded.errors import bad_request
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.times import format_time, in_seconds

TOKEN_SECONDS = 3600


def _success(code: int) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return answer(body, code)


async def post(store: Store, tokens: Tokens, target: Target, request: web.Request) -> web.Response:
    """Answer POST on a sub-resource.

    Raises:
        ApiError: as the sub-resource says; 405 where POST means nothing.
    """
    raw, _ = await read_body(request)
    body: Obj = raw if isinstance(raw, dict) else {}
    match target.subresource:
        case "binding":
            return _bind(store, target, body, dry=dry_run_of(request.query, body))
        case "eviction":
            return _evict(store, target, body)
        case "token":
            return _token(store, tokens, target, body)
    raise errors.ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def _bind(store: Store, target: Target, body: Obj, *, dry: bool) -> web.Response:
    node: Any = (body.get("target") or {}).get("name")
    if not node:
        raise errors.invalid("Binding", "", target.name or "", [errors.required("target.name")])
    need(store, target)
    if not dry:
        uid = (body.get("metadata") or {}).get("uid")
        bind(store, target.namespace or "", target.name or "", str(node), uid=uid)
    return _success(201)


def _evict(store: Store, target: Target, body: Obj) -> web.Response:
    need(store, target)
    options = body.get("deleteOptions") or {}
    grace = options.get("gracePeriodSeconds")
    dry = bool(options.get("dryRun"))
    uid = (options.get("preconditions") or {}).get("uid")
    if not dry:
        # The disruption condition tells what looks at the pod later that this was an eviction.
        store.mutate("Pod", target.namespace, target.name or "", _disrupt(store), subresource="status")
    store.delete("Pod", target.namespace, target.name or "", uid=uid, grace=grace, dry_run=dry)
    return _success(201)


def _disrupt(store: Store) -> Any:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": store.now(),
    }

    def change(pod: Obj) -> None:
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        if not any(c.get("type") == "DisruptionTarget" for c in conditions):
            conditions.append(condition)

    return change


def _token(store: Store, tokens: Tokens, target: Target, body: Obj) -> web.Response:
    account = need(store, target)
    spec = body.get("spec") or {}
    seconds = int(spec.get("expirationSeconds") or TOKEN_SECONDS)
    if seconds < 600:
        raise bad_request("spec.expirationSeconds: may not specify a duration less than 10 minutes")
    expires = in_seconds(seconds)
    return answer(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "spec": spec,
            "status": {
                "token": tokens.issue(account, expires),
                "expirationTimestamp": format_time(expires),
            },
        },
        201,
    )


async def finalize(store: Store, target: Target, request: web.Request) -> web.Response:
    """Answer PUT on a namespace's `finalize`: its finalizers are what the body says."""
    raw, _ = await read_body(request)
    body: Obj = raw if isinstance(raw, dict) else {}
    obj = need(store, target)
    obj["spec"]["finalizers"] = (body.get("spec") or {}).get("finalizers") or []
    return answer(store.update("Namespace", obj, subresource="finalize"))
