"""The controller that tells pods their domain: it adds the domain's labels to a gated pod and removes the gate."""

from collections.abc import Callable

from pytest_gpucluster.embedded.fitting import ENDED
from pytest_gpucluster.embedded.kueue import conditions, domains, names
from pytest_gpucluster.embedded.kueue.settings import Settings
from pytest_gpucluster.embedded.kueue.workloads import INDEX_LABEL
from pytest_gpucluster.embedded.objects import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.worklist import Worklist


class TopologyUngater:
    """Looks at an admitted Workload whenever it or one of its pods has changed, a batch period later."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        """Work on a runtime's store."""
        self._store = runtime.store
        self._batch = settings.batch
        self._work = Worklist(self._store, [names.WORKLOAD, "Pod"], self._note, self._look)

    async def run(self) -> None:
        """Follow Workloads and pods until cancelled."""
        await self._work.run()

    def _note(self, kind: str, key: str, obj: Obj) -> None:  # noqa: ARG002
        if key == names.WORKLOAD:
            self._work.add((namespace_of(obj), name_of(obj)))
            return
        workload = annotations_of(obj).get(names.WORKLOAD_ANNOTATION)
        if workload and is_gated(obj):
            self._work.later((namespace_of(obj), workload), self._batch)

    def _look(self, key: Key) -> None:
        workload = self._store.peek(names.WORKLOAD, *key)
        if workload is None or not conditions.is_true(workload, names.ADMITTED):
            return
        for part in workload["status"]["admission"].get("podSetAssignments") or []:
            if "topologyAssignment" in part:
                self._ungate(key, part)

    def _ungate(self, key: Key, part: Obj) -> None:
        places = [
            labels for labels, count in domains.decoded(part["topologyAssignment"]) for _ in range(count)
        ]
        pods = [
            pod
            for pod in self._store.peek_all("Pod", key[0])
            if annotations_of(pod).get(names.WORKLOAD_ANNOTATION) == key[1]
            and labels_of(pod).get(names.PODSET_LABEL) == part["name"]
            and pod.get("status", {}).get("phase") not in ENDED
            and not is_deleting(pod)
        ]
        for pod, labels in _pairs(pods, places):
            self._store.mutate("Pod", key[0], name_of(pod), _opened(labels))


def is_gated(pod: Obj) -> bool:
    """Report whether a pod waits to be told its domain."""
    return any(gate.get("name") == names.TOPOLOGY_GATE for gate in pod["spec"].get("schedulingGates") or [])


def _pairs(pods: list[Obj], places: list[dict[str, str]]) -> list[tuple[Obj, dict[str, str]]]:
    """Return gated pods with their places: by the index of each where all have one, else what nobody else has."""
    ranks = [labels_of(pod).get(INDEX_LABEL, "") for pod in pods]
    if all(rank.isdigit() and int(rank) < len(places) for rank in ranks):
        return [(pod, places[int(rank)]) for pod, rank in zip(pods, ranks, strict=True) if is_gated(pod)]
    left = list(places)
    for pod in pods:
        if is_gated(pod):
            continue
        selector = pod["spec"].get("nodeSelector") or {}
        taken = next((one for one in left if one.items() <= selector.items()), None)
        if taken is not None:
            left.remove(taken)
    return list(zip([pod for pod in pods if is_gated(pod)], left, strict=False))


def _opened(labels: dict[str, str]) -> Callable[[Obj], None]:
    def change(pod: Obj) -> None:
        kept = [
            gate
            for gate in pod["spec"].get("schedulingGates") or []
            if gate.get("name") != names.TOPOLOGY_GATE
        ]
        pod["spec"].pop("schedulingGates", None)
        if kept:
            pod["spec"]["schedulingGates"] = kept
        pod["spec"]["nodeSelector"] = {**(pod["spec"].get("nodeSelector") or {}), **labels}

    return change
