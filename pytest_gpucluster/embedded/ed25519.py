"""Ed25519 signatures (RFC 8032) from the standard library alone.

Not hardened against timing: for keys of throw-away test clusters.
"""

import hashlib

_P = 2**255 - 19
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ORDER = 2**252 + 27742317777372353535851937790883648493

_Point = tuple[int, int, int, int]


def public_key(seed: bytes) -> bytes:
    """Return the 32 bytes of the public key of a seed."""
    return _pack(_multiply(_expand(seed)[0], _base()))


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the 64 bytes of the signature of a message."""
    scalar, prefix = _expand(seed)
    nonce = _number(prefix + message) % _ORDER
    commitment = _pack(_multiply(nonce, _base()))
    challenge = _number(commitment + public_key(seed) + message) % _ORDER
    return commitment + ((nonce + challenge * scalar) % _ORDER).to_bytes(32, "little")


def _expand(seed: bytes) -> tuple[int, bytes]:
    """Return the secret scalar of a seed and what its nonces begin with."""
    digest = hashlib.sha512(seed).digest()
    low = bytearray(digest[:32])
    low[0] &= 248
    low[31] = (low[31] & 127) | 64
    return int.from_bytes(low, "little"), digest[32:]


def _number(data: bytes) -> int:
    return int.from_bytes(hashlib.sha512(data).digest(), "little")


def _pack(point: _Point) -> bytes:
    x, y, z, _ = point
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
