"""Kinds with few defaults: Namespace, Node, Service, Secret."""

import itertools
from collections.abc import Iterator

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.objects import Obj


def default_namespace(obj: Obj) -> None:
    """Fill in the name label, the finalizer that empties it, and its phase."""
    meta = obj["metadata"]
    labels = meta.get("labels")
    if labels is None:
        labels = meta["labels"] = {}
    labels["kubernetes.io/metadata.name"] = meta["name"]
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def default_node(obj: Obj) -> None:
    """Give a node an allocatable equal to its capacity when it states none."""
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def default_secret(obj: Obj) -> None:
    """Give a secret its type; `stringData` becomes `data`."""
    import base64

    obj.setdefault("type", "Opaque")
    for key, text in (obj.pop("stringData", None) or {}).items():
        data = obj.setdefault("data", {})
        data[key] = base64.b64encode(str(text).encode()).decode()


def default_service(obj: Obj) -> None:
    """Fill in type, affinity, families, port targets and the load balancer status."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def validate_service(obj: Obj, old: Obj | None) -> list[Cause]:
    """Return why a service is refused: no ports outside headless ones, a changed address."""
    spec = obj["spec"]
    out: list[Cause] = []
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        out.append(errors.required("spec.ports"))
    for i, port in enumerate(spec.get("ports") or []):
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            why = "must be between 1 and 65535, inclusive"
            out.append(errors.bad_value(f"spec.ports[{i}].port", number, why))
    before = (old or {}).get("spec", {}).get("clusterIP")
    if before and spec.get("clusterIP") not in (before, None, ""):
        out.append(errors.bad_value("spec.clusterIPs[0]", spec["clusterIP"], "may not change once set"))
    return out


def service_addresses() -> Iterator[str]:
    """Yield cluster addresses of services, 10.96.0.10 and up."""
    for n in itertools.count(10):
        yield f"10.96.{n // 250}.{n % 250 + 1}"
