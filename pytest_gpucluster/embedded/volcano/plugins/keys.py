"""A new Ed25519 key pair in the files that OpenSSH reads, from the standard library alone.

The arithmetic is that of RFC 8032; it is not hardened against timing and serves throw-away test clusters.
"""

import base64
import hashlib
import secrets
import textwrap
from dataclasses import dataclass

_P = 2**255 - 19
_D = -121665 * pow(121666, _P - 2, _P) % _P
_KEY_TYPE = b"ssh-ed25519"
_BLOCK = 8
"""Block size to which the private part is padded when it is not encrypted."""

_Point = tuple[int, int, int, int]


@dataclass(frozen=True)
class KeyPair:
    """A key pair: the private key file and the line of the public key."""

    private: str
    public: str


def new_key_pair() -> KeyPair:
    """Return a new key pair, unencrypted and without a comment."""
    seed = secrets.token_bytes(32)
    return key_pair_of(seed)


def key_pair_of(seed: bytes) -> KeyPair:
    """Return the key pair of a 32-byte seed."""
    public = public_key(seed)
    blob = _text(_KEY_TYPE) + _text(public)
    return KeyPair(
        private=_private_file(seed, public, blob),
        public=f"{_KEY_TYPE.decode()} {base64.b64encode(blob).decode()}\n",
    )


def public_key(seed: bytes) -> bytes:
    """Return the 32 bytes of the public key of a seed."""
    digest = bytearray(hashlib.sha512(seed).digest()[:32])
    digest[0] &= 248
    digest[31] = (digest[31] & 127) | 64
    x, y, z, _ = _multiply(int.from_bytes(digest, "little"), _base())
    inverse = pow(z, _P - 2, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _base() -> _Point:
    y = 4 * pow(5, _P - 2, _P) % _P
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if x & 1:
        x = _P - x
    return x, y, 1, x * y % _P


def _plus(a: _Point, b: _Point) -> _Point:
    s, t = (a[1] - a[0]) * (b[1] - b[0]) % _P, (a[1] + a[0]) * (b[1] + b[0]) % _P
    u, v = 2 * a[3] * b[3] * _D % _P, 2 * a[2] * b[2] % _P
    e, f, g, h = t - s, v - u, v + u, t + s
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _multiply(scalar: int, point: _Point) -> _Point:
    out: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            out = _plus(out, point)
        point = _plus(point, point)
        scalar >>= 1
    return out


def _text(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def _private_file(seed: bytes, public: bytes, blob: bytes) -> str:
    check = secrets.token_bytes(4)
    inner = check + check + blob + _text(seed + public) + _text(b"")
    inner += bytes(range(1, 1 + (-len(inner)) % _BLOCK))
    body = b"openssh-key-v1\0" + _text(b"none") + _text(b"none") + _text(b"")
    body += (1).to_bytes(4, "big") + _text(blob) + _text(inner)
    kind = "OPENSSH PRIVATE KEY"
    lines = "\n".join(textwrap.wrap(base64.b64encode(body).decode(), 70))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
