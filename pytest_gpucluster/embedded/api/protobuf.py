"""Reading the few protobuf bodies that kubectl sends whatever the server prefers (`kubectl create namespace`)."""

import base64
from collections.abc import Iterator

from pytest_gpucluster.embedded.errors import ApiError, bad_request
from pytest_gpucluster.embedded.objects import Obj

MAGIC = b"k8s\x00"

_META: dict[int, tuple[str, str]] = {
    1: ("name", "text"), 2: ("generateName", "text"), 3: ("namespace", "text"),
    11: ("labels", "texts"), 12: ("annotations", "texts"),
}  # fmt: skip


_KINDS: dict[str, dict[int, tuple[str, str]]] = {
    "Namespace": {1: ("metadata", "meta")},
    "ServiceAccount": {1: ("metadata", "meta")},
    "ConfigMap": {1: ("metadata", "meta"), 2: ("data", "texts"), 3: ("binaryData", "bytes")},
    "Secret": {
        1: ("metadata", "meta"), 2: ("data", "bytes"), 3: ("type", "text"), 4: ("stringData", "texts"),
    },
    "Eviction": {1: ("metadata", "meta")},
    "TokenRequest": {1: ("metadata", "meta"), 2: ("spec", "token")},
    "SelfSubjectAccessReview": {1: ("metadata", "meta"), 2: ("spec", "access")},
    "SelfSubjectRulesReview": {1: ("metadata", "meta"), 2: ("spec", "rules")},
}  # fmt: skip

_PARTS: dict[str, dict[int, tuple[str, str]]] = {
    "meta": _META,
    "token": {4: ("expirationSeconds", "number")},
    "rules": {1: ("namespace", "text")},
    "access": {1: ("resourceAttributes", "resource"), 2: ("nonResourceAttributes", "path")},
    "resource": {
        1: ("namespace", "text"), 2: ("verb", "text"), 3: ("group", "text"), 4: ("version", "text"),
        5: ("resource", "text"), 6: ("subresource", "text"), 7: ("name", "text"),
    },
    "path": {1: ("path", "text"), 2: ("verb", "text")},
}  # fmt: skip
"""Nested messages, by the name that a field's kind has."""


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw):
            raise bad_request("protobuf: the body ends within a number")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the fields: length-delimited ones as they are, whole numbers as decimal digits."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        match tag & 7:
            case 0:
                value, at = _varint(raw, at)
                yield tag >> 3, str(value).encode()
            case 2:
                size, at = _varint(raw, at)
                yield tag >> 3, raw[at : at + size]
                at += size
            case 1:
                at += 8
            case 5:
                at += 4
            case other:
                raise bad_request(f"protobuf: wire type {other} is not supported")


def _read(raw: bytes, known: dict[int, tuple[str, str]]) -> Obj:
    out: Obj = {}
    for number, content in _fields(raw):
        name, kind = known.get(number, ("", ""))
        if kind == "text" and content:
            out[name] = content.decode()
        elif kind == "number":
            out[name] = int(content)
        elif kind in _PARTS:
            out[name] = _read(content, _PARTS[kind])
        elif kind in ("texts", "bytes"):
            pair = dict(_fields(content))
            value = pair.get(2, b"")
            text = value.decode() if kind == "texts" else base64.b64encode(value).decode()
            out.setdefault(name, {})[pair.get(1, b"").decode()] = text
    return out


def decode(raw: bytes) -> Obj:
    """Return the object of a Kubernetes protobuf body.

    Raises:
        ApiError: 400 when the body is malformed, 415 for kinds beyond the few that are known here.
    """
    if not raw.startswith(MAGIC):
        raise bad_request("protobuf: the body does not begin as a Kubernetes object")
    try:
        envelope = dict(_fields(raw[len(MAGIC) :]))
        head = {n: c.decode() for n, c in _fields(envelope.get(1, b""))}
        kind = head.get(2, "")
        if kind in _KINDS:
            body = _read(envelope.get(2, b""), _KINDS[kind])
            return {"apiVersion": head.get(1, ""), "kind": kind, **body}
    except UnicodeDecodeError:
        raise bad_request("protobuf: a text is not UTF-8") from None
    raise ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml",
    )
