"""Admission of pods and services: priority, service account, cluster address."""

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.kinds.others import service_addresses
from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store


def _priority(pod: Obj, old: Obj | None, store: Store) -> Obj:
    del old
    spec = pod.setdefault("spec", {})
    name = spec.get("priorityClassName")
    if name:
        found = store.peek("PriorityClass", None, name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise errors.forbidden("pods", "", name_of(pod), why)
    else:
        classes = store.peek_all("PriorityClass", None, lambda c: bool(c.get("globalDefault")))
        found = max(classes, key=lambda c: int(c.get("value") or 0), default=None)
    if found is None:
        spec["priority"] = 0
        return pod
    spec["priorityClassName"] = name_of(found)
    spec["priority"] = int(found.get("value") or 0)
    spec["preemptionPolicy"] = found.get("preemptionPolicy") or "PreemptLowerPriority"
    return pod


def _account(pod: Obj, old: Obj | None, store: Store) -> Obj:
    del old
    name = pod["spec"].get("serviceAccountName") or "default"
    # The default account may come a moment after its namespace; pods need not wait for it here.
    if name != "default" and store.peek("ServiceAccount", namespace_of(pod), name) is None:
        why = (
            f'error looking up service account {namespace_of(pod)}/{name}: serviceaccount "{name}" not found'
        )
        raise errors.forbidden("pods", "", name_of(pod), why)
    return pod


class _Addresses:
    """Gives services their cluster address."""

    def __init__(self) -> None:
        self._free = service_addresses()

    def __call__(self, service: Obj, old: Obj | None, store: Store) -> Obj:
        spec = service.setdefault("spec", {})
        if old is not None:
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and old["spec"].get(field):
                    spec[field] = old["spec"][field]
        elif not spec.get("clusterIP") and spec.get("type") != "ExternalName":
            taken = {s["spec"].get("clusterIP") for s in store.peek_all("Service")}
            spec["clusterIP"] = next(a for a in self._free if a not in taken)
        return service


def install(runtime: Runtime) -> None:
    """Add the admission of pods and services to a runtime."""
    addresses = _Addresses()
    runtime.admission.extend(
        [
            AdmissionHook("Pod", "CREATE", _priority),
            AdmissionHook("Pod", "CREATE", _account),
            AdmissionHook("Service", "CREATE", addresses),
            AdmissionHook("Service", "UPDATE", addresses),
        ]
    )
