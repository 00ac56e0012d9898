"""What the transport raises and answers, as the errors of the driver."""

import json
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube import errors


def unreachable(error: Exception, host: str, request: str, seconds: float) -> errors.Unreachable:
    """Return the one-line error for a transport failure.

    Args:
        error: what urllib3 raised.
        host: URL of the API server.
        request: what was asked, for the text.
        seconds: the time allowed for an answer.
    """
    from urllib3 import exceptions as u  # noqa: PLC0415 (heavy, needed with the first request)

    if isinstance(error, u.SSLError):
        return errors.Unreachable(
            f"TLS to {host} failed: {_last_words(error)} "
            "(check certificate-authority and client-certificate in the kubeconfig)",
            sent=False,
        )
    if isinstance(error, u.NameResolutionError):
        return errors.Unreachable(f"cannot resolve the host name of {host}", sent=False)
    if isinstance(error, u.ProxyError):
        return errors.Unreachable(f"the proxy on the way to {host} failed: {_last_words(error)}", sent=False)
    if isinstance(error, u.NewConnectionError):
        return errors.Unreachable(f"cannot connect to {host}: {_last_words(error)}", sent=False, brief=True)
    if isinstance(error, u.ConnectTimeoutError):
        return errors.Unreachable(f"{host} did not accept a connection in time", sent=False)
    if isinstance(error, u.ReadTimeoutError):
        return errors.Unreachable(f"{host} gave no answer within {seconds:g} s ({request})")
    return errors.Unreachable(f"the connection to {host} broke ({request}): {_last_words(error)}", brief=True)


def _last_words(error: Exception) -> str:
    """Return the innermost reason, without the objects that urllib3 prints before it."""
    inner: BaseException = error
    while True:
        nested = (
            inner.__cause__
            or inner.__context__
            or next((a for a in inner.args if isinstance(a, BaseException)), None)
        )
        if nested is None or nested is inner:
            break
        inner = nested
    if isinstance(inner, OSError) and inner.strerror and not getattr(inner, "verify_message", ""):
        return str(inner.strerror).lower()
    return str(getattr(inner, "verify_message", "") or inner)


def api_error(code: int, headers: Mapping[str, str], data: bytes, request: str) -> errors.ApiError:
    """Return the error for an answer with status `code` of 400 or more."""
    body: dict[str, Any] = {}
    message = ""
    try:
        parsed = json.loads(data)
    except ValueError:
        message = " ".join(data[:LONGEST].decode("utf-8", "replace").split())
    else:
        body = parsed if isinstance(parsed, dict) else {}
        message = str(body.get("message") or "")
    return errors.ApiError(
        code,
        str(body.get("reason") or _PHRASES.get(code, "Error")),
        message,
        body=body,
        request=request,
        retry_after=_seconds(headers.get("Retry-After")),
    )


LONGEST = 16 * 1024
"""Bytes of an answer that is no object of which the message is made: a page of a proxy has the reason at its end."""

_PHRASES = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Gone",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 502: "BadGateway", 503: "ServiceUnavailable",
    504: "Timeout",
}  # fmt: skip


def _seconds(text: str | None) -> float | None:
    """Return a Retry-After of seconds; the date form is not used by API servers and counts as none."""
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None
