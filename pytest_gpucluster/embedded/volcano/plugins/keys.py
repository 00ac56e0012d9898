"""A new Ed25519 key pair in the files that OpenSSH reads. The keys serve throw-away test clusters."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyPair:
    """A key pair: the private key file and the line of the public key."""

    private: str
    public: str


def new_key_pair() -> KeyPair:
    """Return a new key pair, unencrypted and without a comment."""
    # Imported where it is used: few Jobs ask for keys, and the control plane starts sooner without.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()}\n")
