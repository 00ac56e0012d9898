"""A certificate for the API server's TLS listener, self-signed, made new for each cluster.

kubectl sends bearer tokens over TLS only, so whoever is to be told apart by a token needs it.
"""

import datetime as dt
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_gpucluster.plain import times

DAYS = 30
NAME = "gpucluster embedded"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM texts."""

    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        """Return what a server needs to speak TLS with it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.give(context)
        return context

    def give(self, context: ssl.SSLContext) -> None:
        """Let a server speak TLS with it from now on."""
        with tempfile.TemporaryDirectory(prefix="gpucluster-tls-") as folder:
            # The ssl module reads files only.
            both = Path(folder) / "pair.pem"
            both.touch(mode=0o600)
            both.write_text(self.certificate + self.key, encoding="ascii")
            context.load_cert_chain(both)


def new_pair(address: str = "127.0.0.1") -> Pair:
    """Return a new certificate for an IPv4 address and `localhost`; it is its own authority."""
    # Imported where it is used: that takes a tenth of what the whole control plane takes to start.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    begin = times.now() - dt.timedelta(minutes=5)
    names = [x509.IPAddress(ipaddress.IPv4Address(address)), x509.DNSName("localhost")]
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, algorithm=None)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())
