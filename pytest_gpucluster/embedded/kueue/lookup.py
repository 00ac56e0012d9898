"""Questions about Kueue's stored objects that several of its controllers ask."""

from collections.abc import Iterator

from pytest_gpucluster.embedded.kueue import checks, conditions, names
from pytest_gpucluster.embedded.kueue.quota import Queue, Snapshot
from pytest_gpucluster.embedded.kueue.workloads import usage_of
from pytest_gpucluster.embedded.objects import Obj, get_condition, is_deleting, name_of, namespace_of
from pytest_gpucluster.embedded.store import Store


def local_queue_of(store: Store, workload: Obj) -> Obj | None:
    """Return the LocalQueue that a Workload names, None where there is none."""
    queue = str(workload["spec"].get("queueName") or "")
    return store.peek(names.LOCAL_QUEUE, namespace_of(workload), queue) if queue else None


def cluster_queue_of(store: Store, workload: Obj) -> Obj | None:
    """Return the ClusterQueue behind a Workload's LocalQueue, None where there is none."""
    local = local_queue_of(store, workload)
    return None if local is None else store.peek(names.CLUSTER_QUEUE, None, local["spec"]["clusterQueue"])


def holds_in(workload: Obj) -> str:
    """Return the ClusterQueue whose quota a Workload holds, empty where it holds none."""
    if conditions.is_true(workload, names.FINISHED):
        return ""
    return str(((workload.get("status") or {}).get("admission") or {}).get("clusterQueue") or "")


def holders(store: Store, queue: str) -> Iterator[Obj]:
    """Yield the Workloads that hold quota of a ClusterQueue."""
    for workload in store.peek_all(names.WORKLOAD):
        if holds_in(workload) == queue:
            yield workload


def is_active(queue: Obj) -> bool:
    """Report whether a ClusterQueue says of itself that it admits."""
    return (get_condition(queue, names.ACTIVE) or {}).get("status") == "True" and not is_deleting(queue)


def why_inactive(store: Store, queue: Obj) -> tuple[str, str] | None:
    """Return reason and message for which a ClusterQueue cannot admit, None where it can."""
    if is_deleting(queue):
        return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    reasons: list[tuple[str, str]] = []
    if is_stopped(queue):
        reasons.append(("Stopped", "is stopped"))
    flavors = Queue.of(queue).flavors()
    missing = sorted(f for f in flavors if store.peek(names.FLAVOR, None, f) is None)
    if missing:
        listed = ",".join(missing)
        reasons.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {listed}"))
    for reason, word, found in (
        ("AdmissionCheckNotFound", "missing", checks.missing(store, queue)),
        ("AdmissionCheckInactive", "inactive", checks.inactive(store, queue)),
    ):
        if found:
            reasons.append((reason, f"references {word} AdmissionCheck(s): {','.join(found)}"))
    for flavor in flavors:
        known = store.peek(names.FLAVOR, None, flavor) or {}
        topology = (known.get("spec") or {}).get("topologyName")
        if topology and store.peek(names.TOPOLOGY, None, topology) is None:
            text = f'there is no Topology "{topology}" for TAS flavor "{flavor}"'
            reasons.append(("TopologyNotFound", text))
    if not reasons:
        return None
    return reasons[0][0], f"Can't admit new workloads: {', '.join(text for _, text in reasons)}."


def is_stopped(queue: Obj) -> bool:
    """Report whether a queue's stopPolicy says anything but None."""
    return (queue["spec"].get("stopPolicy") or names.NONE) != names.NONE


def snapshot(store: Store, *, unlimited: bool = False) -> Snapshot:
    """Return all ClusterQueues with what is held of them."""
    queues = [Queue.of(obj) for obj in store.peek_all(names.CLUSTER_QUEUE)]
    flavors = {name_of(obj): obj for obj in store.peek_all(names.FLAVOR)}
    out = Snapshot(queues, flavors, unlimited=unlimited)
    for workload in store.peek_all(names.WORKLOAD):
        queue = holds_in(workload)
        if queue in out.queues:
            out.add(queue, usage_of(workload))
    return out
