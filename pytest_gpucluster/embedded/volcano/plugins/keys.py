"""A new Ed25519 key pair in the files that OpenSSH reads, from the standard library alone.

The keys serve throw-away test clusters.
"""

import base64
import secrets
import textwrap
from dataclasses import dataclass

from pytest_gpucluster.embedded.ed25519 import public_key

_KEY_TYPE = b"ssh-ed25519"
_BLOCK = 8
"""Block size to which the private part is padded when it is not encrypted."""


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
