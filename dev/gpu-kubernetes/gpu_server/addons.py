"""What runs in the cluster from its beginning: CoreDNS, Kueue, and the fake device plugin if it is asked for."""

import json
import subprocess
from pathlib import Path
from typing import Any

from pytest_gpucluster.kube import connection, errors, objects
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.kind import addons as of_kind
from pytest_gpucluster.provider.kind import gpu_plugin, waiting

from . import certificates, images, places
from .failure import Failed
from .settings import Settings

DNS = "gpu-kubernetes/coredns:1"
RESOURCE = "nvidia.com/gpu"
LIMIT = 120.0
NUMA_NODES = 2
COREFILE = """.:53 {
    errors
    health
    ready
    kubernetes DOMAIN in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    forward . /etc/resolv.conf
    cache 30 {
       disable success DOMAIN
       disable denial DOMAIN
    }
    loadbalance
}
"""

Obj = dict[str, Any]


def kubectl(*arguments: str, text: str | None = None) -> str:
    """Run kubectl as administrator; return what it wrote.

    Raises:
        Failed: with its last words.
    """
    command = [places.program("kubectl"), f"--kubeconfig={places.kubeconfig('admin')}", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise Failed(f"kubectl {' '.join(arguments[:2])}: {words[-1][:300]}")
    return done.stdout


def install(settings: Settings) -> None:
    """Apply everything."""
    apply(coredns())
    kueue = places.HOME / "images" / "kueue" / "manifests.yaml"
    kubectl("apply", "--server-side", "--force-conflicts", f"--filename={kueue}")
    if settings.devices == "fake":
        apply(_fake_plugin(settings))


def apply(manifests: list[Obj]) -> None:
    """Apply objects."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    kubectl("apply", "--server-side", "--filename=-", text=text)


def await_nodes(settings: Settings) -> None:
    """Wait until every node is Ready and offers its GPUs.

    Raises:
        Failed: names what is missing.
    """
    cluster = api()
    try:
        waiting.nodes_ready(cluster, LIMIT)
        for node in settings.nodes:
            count = settings.fake_gpus if settings.devices == "fake" else len(node.gpus)
            waiting.offers(cluster, [node.name], RESOURCE, count, LIMIT)
    except (ProviderError, errors.GpuClusterError) as error:
        raise Failed(str(error)) from None


def await_serving() -> None:
    """Wait until CoreDNS and Kueue serve, Kueue's webhooks too.

    Raises:
        Failed: names what does not.
    """
    cluster = api()
    try:
        waiting.available(cluster, [("kube-system", "coredns")], LIMIT)
        of_kind.serving(cluster, of_kind.fetch("kueue", str(places.HOME / "images" / "kueue"), None))
    except (ProviderError, errors.GpuClusterError) as error:
        raise Failed(str(error)) from None


def api() -> objects.Objects:
    """Return the API of the cluster, as administrator."""
    return objects.Objects(connection.Connection.open(places.kubeconfig("admin"), certificates.CONTEXT))


def _fake_plugin(settings: Settings) -> list[Obj]:
    """Return the plugin of `--cluster=kind`, in an image that has nothing but the machine's folders."""
    import grpc

    packages = str(Path(grpc.__file__).parents[1])
    overlay = mounts([packages])
    env = [{"name": "PYTHONPATH", "value": packages}]
    has = {gpu_plugin.DEFAULT: {RESOURCE: gpu_plugin.Devices.dealt(settings.fake_gpus, NUMA_NODES)}}
    return gpu_plugin.objects(images.MACHINE, has, overlay={**overlay, "env": env})


def mounts(further: list[str] | None = None) -> Obj:
    """Return volumes and the mounts of one container by which a pod has the machine's programs."""
    folders = list(dict.fromkeys([*images.mounted(), *(further or [])]))
    names = [f"machine-{number}" for number in range(len(folders))]
    return {
        "volumes": [
            {"name": name, "hostPath": {"path": path}} for name, path in zip(names, folders, strict=True)
        ],
        "volumeMounts": [
            {"name": name, "mountPath": path, "readOnly": True}
            for name, path in zip(names, folders, strict=True)
        ],
    }


def coredns() -> list[Obj]:
    """Return CoreDNS as kubeadm has it."""
    name, namespace = "coredns", "kube-system"
    labels = {"k8s-app": "kube-dns"}
    about = {"name": name, "namespace": namespace}
    probe: Obj = {"periodSeconds": 1, "httpGet": {"path": "/ready", "port": 8181}}
    container = {
        "name": name,
        "image": DNS,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [{"containerPort": 53, "name": "dns", "protocol": "UDP"}],
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "50m", "memory": "70Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists"}],
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": name}}],
    }
    rules = [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = "system:coredns"
    ports = [{"name": each.lower(), "port": 53, "protocol": each} for each in ("UDP", "TCP")]
    ports = [{**each, "name": f"dns-{each['name']}"} for each in ports]
    access = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
        {"apiVersion": access, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules},
        {
            "apiVersion": access,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", **about}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": about,
            "data": {"Corefile": COREFILE.replace("DOMAIN", places.DOMAIN)},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**about, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": namespace, "labels": labels},
            "spec": {"clusterIP": places.DNS_SERVICE, "selector": labels, "ports": ports},
        },
    ]
