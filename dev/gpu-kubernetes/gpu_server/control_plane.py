"""The first process of the cluster's namespaces: all others are below it, and end with it."""

import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from . import daemons, links, mounts, places
from .daemons import Daemon
from .failure import Failed
from .settings import Settings

GATES = "GenericWorkload=true,WorkloadWithJob=true"
"""Gangs of Kubernetes itself; off by default in 1.37."""
LOOP = "127.0.0.1"
CLIENTS = "http://127.0.0.1:2379"
PATIENCE = 60.0
NODE_FLAGS = ("unshare", "--mount", "--net", "--uts", "--propagation", "private")
STAYS = "stays"
"""What whoever starts the cluster writes once it is up; without it everything ends with that process."""


def run() -> None:
    """Bring the control plane and the nodes up, then keep them running."""
    settings = Settings.read()
    try:
        _said("namespaces")
        _awaited("linked")
        # Programs that run in here see the processes of this namespace, and only its links.
        mounts.mount("proc", Path("/proc"), "proc")
        links.of_control_plane(settings.nodes)
        ours = _control_plane()
        nodes = [_node(node) for node in settings.nodes]
        _said("control plane")
        _awaited(STAYS)
    except (Failed, OSError) as error:
        _said(f"failed: {error}")
        sys.exit(1)
    while True:
        # Like a machine that lost its control plane, the cluster has no use for the rest of it.
        for each in [*ours, *nodes]:
            if each.has_ended():
                sys.exit(f"{each.name} ended: {each.last_words()}")
        daemons.reap_strangers([*ours, *nodes])
        time.sleep(0.2)


def _said(text: str) -> None:
    print(text, flush=True)


def _awaited(word: str) -> None:
    """Wait for a word of the process that starts the cluster; its end is ours until it has said that it stays."""
    if sys.stdin.readline().strip() != word:
        sys.exit("whoever started this cluster ended before it was up")


def _control_plane() -> list[Daemon]:
    keys = places.certificates()
    etcd = Daemon(
        "etcd",
        [
            places.program("etcd"), f"--data-dir={places.STATE / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls={CLIENTS}", f"--advertise-client-urls={CLIENTS}",
        ],
    ).start()  # fmt: skip
    server = Daemon(
        "kube-apiserver",
        [
            places.program("kube-apiserver"), f"--etcd-servers={CLIENTS}", f"--secure-port={places.API_PORT}",
            f"--advertise-address={places.CONTROL_PLANE}", f"--service-cluster-ip-range={places.SERVICES}",
            f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1beta1=true",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true", f"--client-ca-file={keys / 'ca.crt'}",
            f"--tls-cert-file={keys / 'api-server.crt'}", f"--tls-private-key-file={keys / 'api-server.key'}",
            f"--kubelet-client-certificate={keys / 'api-server-to-kubelet.crt'}",
            f"--kubelet-client-key={keys / 'api-server-to-kubelet.key'}",
            f"--kubelet-certificate-authority={keys / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            # APIs that add-ons serve, such as Kueue's visibility, trust who comes with this certificate.
            f"--requestheader-client-ca-file={keys / 'ca.crt'}", "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={keys / 'front-proxy.crt'}",
            f"--proxy-client-key-file={keys / 'front-proxy.key'}",
            f"--service-account-issuer=https://kubernetes.default.svc.{places.DOMAIN}",
            f"--service-account-key-file={keys / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
            # No proxy runs beside it: webhooks are reached at the addresses of their pods.
            "--enable-aggregator-routing=true",
        ],
    ).start()  # fmt: skip
    daemons.wait("the API server", _serves, PATIENCE, [etcd, server])
    common = ["--leader-elect=false", f"--bind-address={LOOP}", f"--feature-gates={GATES}"]
    controllers, scheduler = places.kubeconfig("controllers"), places.kubeconfig("scheduler")
    return [
        etcd,
        server,
        Daemon(
            "kube-controller-manager",
            [
                places.program("kube-controller-manager"), *common, *_as(controllers),
                "--use-service-account-credentials=true", f"--root-ca-file={keys / 'ca.crt'}",
                f"--service-account-private-key-file={keys / 'service-accounts.key'}",
                f"--cluster-signing-cert-file={keys / 'ca.crt'}", f"--cluster-signing-key-file={keys / 'ca.key'}",
            ],
        ).start(),
        Daemon("kube-scheduler", [places.program("kube-scheduler"), *common, *_as(scheduler)]).start(),
    ]  # fmt: skip


def _as(kubeconfig: Path) -> list[str]:
    return [
        f"--{each}={kubeconfig}"
        for each in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    ]


def _serves() -> bool:
    """Report whether the API server is ready, which it tells anybody."""
    trusted = ssl.create_default_context(cafile=str(places.certificates() / "ca.crt"))
    try:
        url = f"https://{LOOP}:{places.API_PORT}/readyz"
        with urllib.request.urlopen(url, context=trusted, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _node(node: places.Node) -> Daemon:
    """Start a node in namespaces of its own and link it to the others."""
    began = Daemon(
        node.name, [*NODE_FLAGS, sys.executable, "-m", "gpu_server", "node", str(node.number)]
    ).start()
    here = Path("/proc/self/ns/net").stat().st_ino
    path = Path(f"/proc/{began.pid}/ns/net")

    def apart() -> bool:
        return path.exists() and path.stat().st_ino != here

    daemons.wait(f"the namespaces of {node.name}", apart, 10, [began])
    links.to_node(node, began.pid)
    return began


def command() -> list[str]:
    """Return the command that starts this module in namespaces of its own."""
    # Who ends `unshare` ends the first process of the namespace, and the kernel all others of it.
    flags = ["--pid", "--fork", "--kill-child", "--mount", "--net", "--uts", "--propagation", "private"]
    return ["unshare", *flags, sys.executable, "-m", "gpu_server", "control-plane"]


def first_process(unshare: int) -> int:
    """Return the process id, outside, of the first process of the namespaces that `unshare` made."""
    children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    return int(children[0])
