"""Wait on watches until a new cluster can be used: nodes, deployments, webhooks. Nothing is polled."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_gpucluster.kube import errors, kinds, objects, watch
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.provider.protocol import ProviderError

Obj = dict[str, Any]
State = Mapping[tuple[str, str], Obj]
"""Namespace and name -> object."""


class _View:
    """The newest state of all objects of a kind, as a watch tells it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Obj] = {}
        self.synced = False
        self.error: errors.GpuClusterError | None = None
        self.changed = threading.Condition()

    def line(self, change: str, kind: str, obj: Obj, t: float) -> None:
        del kind, t
        metadata = obj["metadata"]
        key = (str(metadata.get("namespace") or ""), str(metadata["name"]))
        with self.changed:
            if change == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = obj
            self.changed.notify_all()

    def in_sync(self, kind: str, t: float, how: str) -> None:
        del kind, t, how
        with self.changed:
            self.synced = True
            self.changed.notify_all()

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        del kind, t, why

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:
        del kind
        with self.changed:
            self.error = error
            self.changed.notify_all()


def until(
    api: objects.Objects,
    info: kinds.KindInfo,
    missing: Callable[[State], Iterable[str]],
    what: str,
    limit: float,
) -> None:
    """Wait until nothing is missing any more.

    Args:
        api: the cluster.
        info: the kind that is watched, in all namespaces.
        missing: what is still missing, one phrase each.
        what: what is waited for, as the beginning of an error line.
        limit: seconds.

    Raises:
        ProviderError: something is missing after the limit, or the kind cannot be watched.
    """
    view = _View()
    follower = watch.KindWatch(api, watch.Target(info), view)
    follower.start()
    end = time.monotonic() + limit
    lacking = ["no answer"]
    try:
        with view.changed:
            while time.monotonic() < end and view.error is None:
                if view.synced:
                    lacking = list(missing(view.objects))
                    if not lacking:
                        return
                view.changed.wait(max(0.0, end - time.monotonic()))
    finally:
        follower.stop()
        follower.join()
    if view.error is not None:
        raise ProviderError(f"{what}: {view.error}")
    raise ProviderError(f"{what} within {limit:.0f} s: {', '.join(lacking)}")


def nodes_ready(api: objects.Objects, limit: float) -> None:
    """Wait until every node is Ready, workers too; `kind create` waits for none of them.

    Raises:
        ProviderError: names those that are not.
    """

    def missing(state: State) -> Iterable[str]:
        if not state:
            yield "no node exists"
        for (_, name), node in state.items():
            said = condition(node, "Ready")
            if said.get("status") != "True":
                yield f"{name} ({said.get('message') or said.get('reason') or 'no Ready condition'})"

    until(api, objects.NODE, missing, "nodes were not Ready", limit)


def offers(api: objects.Objects, nodes: Iterable[str], resource: str, count: int, limit: float) -> None:
    """Wait until nodes offer so many of a resource.

    Raises:
        ProviderError: names those that do not.
    """
    wanted = list(nodes)

    def missing(state: State) -> Iterable[str]:
        for name in wanted:
            has = ((state.get(("", name)) or {}).get("status") or {}).get("allocatable") or {}
            if int(quantities.parse_quantity(has.get(resource, "0"))) != count:
                yield f"{name} offers {has.get(resource, 'none')}"

    until(api, objects.NODE, missing, f"nodes did not offer {count} {resource}", limit)


def available(api: objects.Objects, names: Iterable[tuple[str, str]], limit: float) -> None:
    """Wait until deployments (namespace, name) are Available.

    Raises:
        ProviderError: names those that are not.
    """
    wanted = list(names)

    def missing(state: State) -> Iterable[str]:
        for namespace, name in wanted:
            said = condition(state.get((namespace, name)) or {}, "Available")
            if said.get("status") != "True":
                yield f"{namespace}/{name} ({said.get('message') or said.get('reason') or 'no condition'})"

    if wanted:
        info = api.info("apps/v1", "Deployment")
        until(api, info, missing, "deployments were not Available", limit)


def established(api: objects.Objects, names: Iterable[str], limit: float) -> None:
    """Wait until custom resources are served.

    Raises:
        ProviderError: names those that are not.
    """
    wanted = list(names)

    def missing(state: State) -> Iterable[str]:
        return (
            name
            for name in wanted
            if condition(state.get(("", name)) or {}, "Established").get("status") != "True"
        )

    if wanted:
        info = api.info("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        until(api, info, missing, "custom resources were not served", limit)


def trusted(api: objects.Objects, kind: str, names: Iterable[str], limit: float) -> None:
    """Wait until webhooks carry the certificate of whoever serves them, which add-ons write themselves.

    Raises:
        ProviderError: names those that do not.
    """
    wanted = list(names)

    def missing(state: State) -> Iterable[str]:
        for name in wanted:
            hooks = (state.get(("", name)) or {}).get("webhooks") or []
            if not hooks or any(not (hook.get("clientConfig") or {}).get("caBundle") for hook in hooks):
                yield name

    if wanted:
        info = api.info("admissionregistration.k8s.io/v1", kind)
        until(api, info, missing, "webhooks had no certificate", limit)


def there(api: objects.Objects, info: kinds.KindInfo, name: str, limit: float) -> None:
    """Wait until an object exists.

    Raises:
        ProviderError: it does not.
    """

    def missing(state: State) -> Iterable[str]:
        if not any(each == name for _, each in state):
            yield f"{info.key}/{name}"

    until(api, info, missing, "objects were not made", limit)


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition of an object, empty where it has none of that type."""
    found = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})
