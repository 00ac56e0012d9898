"""One authority for the cluster, and what it signs."""

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from . import places

DAYS = 30
CONTEXT = "gpu-kubernetes"


class Authority:
    """Signs what the components show each other."""

    def __init__(self) -> None:
        """Make the authority's own key and write its certificate."""
        self.folder = places.certificates()
        self.folder.mkdir(parents=True, mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpu-kubernetes")])
        signed = self._signed(self._name, self._key.public_key(), authority=True)
        self._write("ca", self._key, signed)

    def pair(self, name: str, subject: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> None:
        """Write `NAME.crt` and `NAME.key`, for a client, or with hosts for a server too.

        Args:
            name: of the files.
            subject: user name.
            groups: the user's groups.
            hosts: names and addresses of the server.
        """
        parts = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, each) for each in groups]
        parts.append(x509.NameAttribute(x509.NameOID.COMMON_NAME, subject))
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(name, key, self._signed(x509.Name(parts), key.public_key(), hosts=hosts))

    def key_pair(self, name: str) -> None:
        """Write `NAME.key` and `NAME.pub`, with which tokens of service accounts are signed and checked."""
        key = ec.generate_private_key(ec.SECP256R1())
        (self.folder / f"{name}.key").write_bytes(_private(key))
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        (self.folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, public)
        )

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        authority: bool = False,
        hosts: Sequence[str] = (),
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        uses = [oid.ExtendedKeyUsageOID.CLIENT_AUTH, oid.ExtendedKeyUsageOID.SERVER_AUTH]
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=DAYS))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            built = built.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            built = built.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        return built.sign(self._key, hashes.SHA256())

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, signed: x509.Certificate) -> None:
        (self.folder / f"{name}.key").write_bytes(_private(key))
        (self.folder / f"{name}.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_all(nodes: Sequence[places.Node]) -> None:
    """Write the keys, certificates and kubeconfigs of all components."""
    authority = Authority()
    authority.key_pair("service-accounts")
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1"]
    addresses = [places.API_SERVICE, places.CONTROL_PLANE, places.CONTROL_PLANE_FOR_HOST]
    authority.pair("api-server", "kube-apiserver", hosts=[*names, *addresses])
    authority.pair("api-server-to-kubelet", "kube-apiserver-kubelet-client", ["system:masters"])
    authority.pair("front-proxy", "front-proxy-client")
    local = f"https://127.0.0.1:{places.API_PORT}"
    of_nodes = f"https://{places.CONTROL_PLANE}:{places.API_PORT}"
    users = [
        ("admin", "admin", ["system:masters"], f"https://{places.CONTROL_PLANE_FOR_HOST}:{places.API_PORT}"),
        ("controllers", "system:kube-controller-manager", [], local),
        ("scheduler", "system:kube-scheduler", [], local),
        ("proxy", "system:kube-proxy", [], of_nodes),
    ]
    for name, subject, groups, server in users:
        authority.pair(name, subject, groups)
        write_kubeconfig(name, server)
    for node in nodes:
        authority.pair(node.name, f"system:node:{node.name}", ["system:nodes"], [node.name, node.address])
        write_kubeconfig(node.name, of_nodes)


def write_kubeconfig(user: str, server: str) -> None:
    """Write the kubeconfig of a user with a certificate; JSON is YAML."""

    def data(name: str) -> str:
        return base64.b64encode((places.certificates() / name).read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
    keys = {"client-certificate-data": data(f"{user}.crt"), "client-key-data": data(f"{user}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
        "current-context": CONTEXT,
    }
    path = places.kubeconfig(user)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1), encoding="ascii")
