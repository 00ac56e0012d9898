"""How pods reach the API server: its certificate in each namespace, and what a pod's service account gives it.

Only where the configuration says at which address pods reach it (`pod_address`). Kubernetes mounts a token into every
pod; here those get one that name an account of their own: a token for each pod that never asks would only cost.
"""

import asyncio
import secrets
import ssl

from pytest_gpucluster.embedded.access.certificate import new_pair
from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.kinds.pods import containers_of
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

ROOT_CA = "kube-root-ca.crt"
MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
"""As kube-apiserver asks for, an hour and seven seconds: who sees 3607 knows who made the volume."""


def _mounted(pod: Obj, old: Obj | None, store: Store) -> Obj:
    """Mount token, certificate and namespace into the containers of a pod that names an account of its own."""
    del old
    spec = pod["spec"]
    account = spec.get("serviceAccountName") or "default"
    found = store.peek("ServiceAccount", pod["metadata"].get("namespace"), account) or {}
    if (
        account == "default"
        or spec.get("automountServiceAccountToken", found.get("automountServiceAccountToken")) is False
    ):
        return pod
    wanted = [
        c
        for c in containers_of(spec)
        if all(m.get("mountPath") != MOUNT for m in c.get("volumeMounts") or ())
    ]
    if not wanted:
        return pod
    name = f"kube-api-access-{secrets.token_hex(3)[:5]}"
    sources = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{
            "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
        }]}},
    ]  # fmt: skip
    volume = {"name": name, "projected": {"defaultMode": 0o644, "sources": sources}}
    spec["volumes"] = [*(spec.get("volumes") or []), volume]
    for container in wanted:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT}
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    return pod


async def _publish(store: Store, context: ssl.SSLContext, address: str) -> None:
    """Make the listener's certificate and put it into every namespace, until cancelled."""
    # Beside the loop, which answers meanwhile.
    pair = await asyncio.to_thread(new_pair, address)
    pair.give(context)
    certificate = pair.certificate
    with store.subscribe(["Namespace"]) as changes:
        for namespace in store.peek_all("Namespace"):
            _into(store, namespace, certificate)
        while batch := await changes.batch():
            for _, _, obj in batch:
                _into(store, obj, certificate)


def _into(store: Store, namespace: Obj, certificate: str) -> None:
    name = name_of(namespace)
    present = store.peek("Namespace", None, name)
    if present is None or is_deleting(present) or store.peek("ConfigMap", name, ROOT_CA) is not None:
        return
    body = {"metadata": {"name": ROOT_CA, "namespace": name}, "data": {"ca.crt": certificate}}
    try:
        store.create("ConfigMap", body)
    except ApiError as error:
        if error.code not in (403, 404):  # the namespace is going or gone
            raise


def start(runtime: Runtime, context: ssl.SSLContext, address: str) -> None:
    """Let pods reach the API server.

    Args:
        runtime: the control plane.
        context: of the listener for pods; it gets a certificate as soon as there is one, before pods do.
        address: IPv4 address at which pods reach it.
    """
    runtime.admission.append(AdmissionHook("Pod", "CREATE", _mounted))
    runtime.spawn(_publish(runtime.store, context, address), "publisher of the root certificate")
