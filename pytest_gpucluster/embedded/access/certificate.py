"""A certificate for the API server's TLS listener, self-signed, made new for each cluster.

kubectl sends bearer tokens over TLS only, so whoever is to be told apart by a token needs it. DER is written by hand,
since it is one fixed shape: an Ed25519 key that signs itself, for the loopback address.
"""

import base64
import datetime as dt
import hashlib
import secrets
import ssl
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from pytest_gpucluster.embedded import ed25519
from pytest_gpucluster.plain import times

DAYS = 30

_ED25519, _NAME = "1.3.101.112", "2.5.4.3"
_SUBJECT_KEY, _USAGE, _ALT_NAME, _CONSTRAINTS = "2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM texts."""

    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        """Return what a server needs to speak TLS with it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="gpucluster-tls-") as folder:
            # The ssl module reads files only.
            both = Path(folder) / "pair.pem"
            both.touch(mode=0o600)
            both.write_text(self.certificate + self.key, encoding="ascii")
            context.load_cert_chain(both)
        return context


def new_pair(address: str = "127.0.0.1") -> Pair:
    """Return a new certificate for an IPv4 address and `localhost`."""
    seed = secrets.token_bytes(32)
    algorithm = _sequence(_oid(_ED25519))
    begin = times.now() - dt.timedelta(minutes=5)
    public = ed25519.public_key(seed)
    name = _sequence(_tagged(0x31, _sequence(_oid(_NAME) + _tagged(0x0C, b"gpucluster embedded"))))
    body = _sequence(
        _tagged(0xA0, _integer(2))
        + _integer(secrets.randbits(63) | 1)
        + algorithm
        + name
        + _sequence(_time(begin) + _time(begin + dt.timedelta(days=DAYS)))
        + name
        + _sequence(algorithm + _bits(public))
        + _tagged(0xA3, _sequence(_extensions(public, address)))
    )
    signed = _sequence(body + algorithm + _bits(ed25519.sign(seed, body)))
    private = _sequence(_integer(0) + algorithm + _tagged(4, _tagged(4, seed)))
    return Pair(_pem("CERTIFICATE", signed), _pem("PRIVATE KEY", private))


def _extensions(public: bytes, address: str) -> bytes:
    octets = bytes(int(part) for part in address.split("."))
    names = _sequence(_tagged(0x87, octets) + _tagged(0x82, b"localhost"))
    # It is its own authority: it may sign certificates (bit 5) beside its handshakes (bit 0).
    return (
        _extension(_CONSTRAINTS, _sequence(_tagged(1, b"\xff")), critical=True)
        + _extension(_USAGE, _tagged(3, b"\x02\x84"), critical=True)
        + _extension(_SUBJECT_KEY, _tagged(4, hashlib.sha256(public).digest()[:20]))
        + _extension(_ALT_NAME, names)
    )


def _extension(oid: str, value: bytes, *, critical: bool = False) -> bytes:
    return _sequence(_oid(oid) + (_tagged(1, b"\xff") if critical else b"") + _tagged(4, value))


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _sequence(content: bytes) -> bytes:
    return _tagged(0x30, content)


def _integer(value: int) -> bytes:
    return _tagged(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tagged(3, b"\0" + content)


def _time(when: dt.datetime) -> bytes:
    return _tagged(0x17, when.strftime("%y%m%d%H%M%SZ").encode())


def _oid(text: str) -> bytes:
    first, second, *rest = (int(part) for part in text.split("."))
    out = bytearray((40 * first + second,))
    for value in rest:
        digits = [value & 127]
        while value := value >> 7:
            digits.append(128 | value & 127)
        out += bytes(reversed(digits))
    return _tagged(6, bytes(out))


def _pem(kind: str, der: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
