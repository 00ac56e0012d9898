"""Reading request bodies and writing answers."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from pytest_gpucluster.embedded.errors import ApiError, bad_request
from pytest_gpucluster.embedded.objects import Obj

JSON = "application/json"
PATCH_JSON = "application/json-patch+json"
PATCH_MERGE = "application/merge-patch+json"
PATCH_STRATEGIC = "application/strategic-merge-patch+json"
PATCH_APPLY = "application/apply-patch+yaml"


def encode(value: Any) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def answer(value: Any, status: int = 200, content_type: str = JSON) -> web.Response:
    """Return a JSON response."""
    return web.Response(
        body=encode(value), status=status, headers={"Content-Type": content_type, "Cache-Control": "no-cache"}
    )


def refuse(error: ApiError) -> web.Response:
    """Return the Status response of a refusal."""
    response = answer(error.status(), error.code)
    if error.code == 429:
        response.headers["Retry-After"] = "1"
    return response


class _Duplicates:
    """Collects the fields that a JSON text states twice, which strict field validation refuses."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> Obj:
        out: Obj = {}
        for key, value in pairs:
            if key in out:
                self.found.append(key)
            out[key] = value
        return out


async def read_body(request: web.Request) -> tuple[Any, list[str]]:
    """Return the parsed body (None when empty) and the fields that it states twice.

    JSON is tried first; YAML is accepted where the content type says so.

    Raises:
        ApiError: 400 when it cannot be parsed, 415 for protobuf.
    """
    raw = await request.read()
    if not raw:
        return None, []
    if "protobuf" in request.content_type:
        from pytest_gpucluster.embedded.api.protobuf import decode

        return decode(raw), []
    if "yaml" in request.content_type and raw.lstrip()[:1] not in (b"{", b"["):
        return _yaml(raw), []
    duplicates = _Duplicates()
    try:
        return json.loads(raw, object_pairs_hook=duplicates), duplicates.found
    except ValueError as error:
        raise bad_request(f"error decoding JSON: {error}") from None


def _yaml(raw: bytes) -> Any:
    import yaml

    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from None


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Report whether a query parameter is set and not false."""
    return query.get(name, "false").lower() in ("1", "true", "")


def dry_run_of(query: Mapping[str, str], options: Obj | None = None) -> bool:
    """Report whether a write is a dry run.

    Raises:
        ApiError: 400 for a value other than All.
    """
    asked = query.get("dryRun") or ",".join((options or {}).get("dryRun") or [])
    if asked in ("", "All"):
        return asked == "All"
    raise bad_request(f'Invalid value: "{asked}": dryRun: Unsupported value: supported values: "All"')
