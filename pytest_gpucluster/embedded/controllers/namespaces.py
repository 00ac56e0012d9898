"""Namespaces: their default service account, and emptying those that are deleted."""

from collections import Counter
from collections.abc import Callable, Iterable

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def create_first_objects(store: Store, networks: Iterable[Obj] = ()) -> None:
    """Create what every cluster has from the start, and the definitions of its further networks."""
    for name in FIRST_NAMESPACES:
        store.create("Namespace", {"metadata": {"name": name}})
        _account(store, name)
    for name, value in SYSTEM_PRIORITIES.items():
        store.create("PriorityClass", {"metadata": {"name": name}, "value": value})
    for network in networks:
        store.create("NetworkAttachmentDefinition", dict(network))


def _account(store: Store, namespace: str) -> None:
    if store.peek("ServiceAccount", namespace, "default") is not None:
        return
    try:
        store.create("ServiceAccount", {"metadata": {"name": "default", "namespace": namespace}})
    except ApiError as error:
        if error.code not in (403, 404):  # the namespace is going or gone
            raise


class NamespaceController:
    """Gives namespaces their service account, and ends those that are being deleted."""

    def __init__(self, store: Store) -> None:
        """Control the namespaces of a store."""
        self._store = store
        self._keys = [row.key for row in store.table if row.namespaced]

    async def run(self) -> None:
        """Follow every namespaced kind until cancelled."""
        with self._store.subscribe(["Namespace", *self._keys]) as changes:
            while batch := await changes.batch():
                for name in self._touched(batch):
                    self._sync(name)

    def _touched(self, batch: list[tuple[str, str, Obj]]) -> list[str]:
        names: dict[str, None] = {}
        for kind, key, obj in batch:
            if key == "Namespace":
                if kind != DELETED:
                    names[name_of(obj)] = None
            elif kind == DELETED:
                names[namespace_of(obj)] = None
        return list(names)

    def _sync(self, name: str) -> None:
        namespace = self._store.peek("Namespace", None, name)
        if namespace is None:
            return
        if not is_deleting(namespace):
            _account(self._store, name)
            return
        left = [(key, o) for key in self._keys for o in self._store.peek_all(key, name)]
        for key, obj in left:
            if not is_deleting(obj):
                self._store.delete(key, name, name_of(obj))
        left = [(key, o) for key in self._keys for o in self._store.peek_all(key, name)]
        if left:
            self._store.mutate("Namespace", None, name, self._tell(left), subresource="status")
        else:
            self._store.mutate("Namespace", None, name, _release, subresource="finalize")

    def _tell(self, left: list[tuple[str, Obj]]) -> Callable[[Obj], None]:
        """Return what writes into a namespace's conditions what holds it, in the words of Kubernetes' controller."""
        kinds = Counter(f"{self._store.table[key].plural}.{self._store.table[key].group}" for key, _ in left)
        finalizers = Counter(f for _, obj in left for f in obj["metadata"].get("finalizers") or ())
        content = ", ".join(f"{kind} has {n} resource instances" for kind, n in sorted(kinds.items()))
        held = ", ".join(f"{name} in {n} resource instances" for name, n in sorted(finalizers.items()))
        told = [
            _condition(
                "NamespaceContentRemaining", "SomeResourcesRemain", f"Some resources are remaining: {content}"
            )
        ]
        if held:
            text = f"Some content in the namespace has finalizers remaining: {held}"
            told.append(_condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", text))
        else:
            text = "All content-preserving finalizers finished"
            told.append(
                _condition("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", text, status="False")
            )

        def change(namespace: Obj) -> None:
            status = namespace.setdefault("status", {})
            present = {c["type"]: c for c in status.get("conditions") or []}
            if [_bare(present.get(c["type"], {})) for c in told] != told:
                now = self._store.now()
                status["conditions"] = [{"lastTransitionTime": now, **condition} for condition in told]

        return change


def _condition(kind: str, reason: str, message: str, *, status: str = "True") -> Obj:
    return {"message": message, "reason": reason, "status": status, "type": kind}


def _bare(condition: Obj) -> Obj:
    return {k: v for k, v in condition.items() if k != "lastTransitionTime"}


def _release(namespace: Obj) -> None:
    namespace["spec"]["finalizers"] = []


def start(runtime: Runtime) -> None:
    """Run the namespace controller."""
    runtime.spawn(NamespaceController(runtime.store).run(), "namespace controller")
