"""Refusals, in the words and codes of the Kubernetes API server."""

from collections.abc import Sequence
from typing import Any

Cause = dict[str, str]
"""One reason of an Invalid answer: `reason`, `message`, `field`."""


class ApiError(Exception):
    """A refusal that the API answers with a Status object.

    Attributes:
        code: HTTP status.
        reason: The machine-readable reason, such as `NotFound`.
        message: The text for people.
        details: Name, group, kind, causes; may be empty.
    """

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        """Keep code, reason, message and details."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Return the Status object that answers the request."""
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:  # a refusal by an admission webhook with code 400 has none
            out["reason"] = self.reason
        if self.details:
            out["details"] = self.details
        return out


def qualified(resource: str, group: str) -> str:
    """Return `jobs.batch` for a grouped resource and `pods` for a core one."""
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"name": name, "kind": kind}
    if group:
        out["group"] = group
    return out | more


def not_found(resource: str, group: str, name: str) -> ApiError:
    """Return 404 for an object that is not there."""
    text = f'{qualified(resource, group)} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(name, group, resource))


def already_exists(resource: str, group: str, name: str) -> ApiError:
    """Return 409 for a name that is taken."""
    text = f'{qualified(resource, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(name, group, resource))


def conflict(resource: str, group: str, name: str, why: str | None = None) -> ApiError:
    """Return 409 for a write on a stale version or with a wrong uid."""
    reason = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {reason}'
    return ApiError(409, "Conflict", text, _details(name, group, resource))


def forbidden(resource: str, group: str, name: str, why: str, causes: Sequence[Cause] = ()) -> ApiError:
    """Return 403 with the reason that forbids the request."""
    text = f'{qualified(resource, group)} "{name}" is forbidden: {why}'
    more: dict[str, Any] = {"causes": list(causes)} if causes else {}
    return ApiError(403, "Forbidden", text, _details(name, group, resource, **more))


def bad_request(why: str) -> ApiError:
    """Return 400 for a request that cannot be understood."""
    return ApiError(400, "BadRequest", why)


def expired(why: str) -> ApiError:
    """Return 410 for a version that is no longer in the watch cache."""
    return ApiError(410, "Expired", why)


def cause(field: str, reason: str, message: str) -> Cause:
    """Return one cause of an Invalid answer."""
    return {"reason": reason, "message": message, "field": field}


def required(field: str, why: str = "") -> Cause:
    """Return the cause of a missing field."""
    return cause(field, "FieldValueRequired", "Required value" + (f": {why}" if why else ""))


def bad_value(field: str, value: object, why: str) -> Cause:
    """Return the cause of a value that is not acceptable."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {why}")


def not_supported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    """Return the cause of a value outside an enumeration."""
    listed = ", ".join(f'"{a}"' for a in allowed)
    text = f'Unsupported value: "{value}": supported values: {listed}'
    return cause(field, "FieldValueNotSupported", text)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """Return 422 with every cause, worded as the API server words it."""
    texts = [f"{c['field']}: {c['message']}" for c in causes]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    text = f'{qualified(kind, group)} "{name}" is invalid: {joined}'
    return ApiError(422, "Invalid", text, _details(name, group, kind, causes=list(causes)))


def webhook_failed(webhook: str, why: str) -> ApiError:
    """Return 500 for an admission webhook that does not answer and must."""
    text = f'failed calling webhook "{webhook}": failed to call webhook: {why}'
    details = {"causes": [{"message": text}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", details)


def denied(webhook: str, why: str, code: int = 403) -> ApiError:
    """Return the refusal of an admission webhook."""
    text = f'admission webhook "{webhook}" denied the request: {why}'
    return ApiError(code, "Forbidden" if code == 403 else "", text)
