"""A small cluster with Kueue in virtual time, for what was not recorded."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.objects import Obj, get_condition
from tests.embedded.volcano.kubelet import SimulatedKubelet, new_node
from tests.embedded.volcano.virtual_time import run_virtually, wall

GPU = "nvidia.com/gpu"
PATIENCE = 12.0
"""Virtual seconds after which a wait gives up."""


class Stage:
    """What tests do with the cluster."""

    def __init__(self, runtime: Any) -> None:
        """Act on a runtime."""
        self.runtime = runtime
        self.store = runtime.store

    def flavor(self, name: str, **spec: Any) -> None:
        """Create a ResourceFlavor."""
        self.store.create(names.FLAVOR, {"metadata": {"name": name}, "spec": spec})

    def queue(self, name: str, gpus: Any = 8, flavors: tuple[str, ...] = ("any",), **spec: Any) -> None:
        """Create a ClusterQueue of GPUs, and a LocalQueue of the same name in `default`; `gpus` is one or each."""
        each = gpus if isinstance(gpus, (list, tuple)) else [gpus] * len(flavors)
        listed = [
            {"name": f, "resources": [{"name": GPU, **(g if isinstance(g, dict) else {"nominalQuota": g})}]}
            for f, g in zip(flavors, each, strict=True)
        ]
        body = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": listed}],
            **spec,
        }
        self.store.create(names.CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": body})
        local = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": name}}
        self.store.create(names.LOCAL_QUEUE, local)

    def job(self, name: str, queue: str | None, count: int = 1, gpus: int = 1, **more: Any) -> Obj:
        """Create an Indexed Job of `count` pods of `gpus` GPUs; `lasts` says how long a pod runs."""
        lasts = more.pop("lasts", None)
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: str(gpus)}}}
        meta: Obj = {"labels": more.pop("pod_labels", {})}
        if lasts is not None:
            meta["annotations"] = {"sim/exit-after": lasts}
        spec = {"restartPolicy": "Never", "containers": [container], **more.pop("pod", {})}
        pod: Obj = {"metadata": meta, "spec": spec}
        labels = {} if queue is None else {names.QUEUE_LABEL: queue}
        labels |= more.pop("labels", {})
        body = {
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {
                "completions": count, "parallelism": count, "completionMode": "Indexed", "backoffLimit": 0,
                "template": pod, **more,
            },
        }  # fmt: skip
        return self.store.create("Job.batch", body)

    def workload(self, job: str) -> Obj:
        """Return the Workload of a Job."""
        (found,) = [
            w for w in self.store.list(names.WORKLOAD) if w["metadata"]["name"].startswith(f"job-{job}-")
        ]
        return found

    def has_workload(self, job: str) -> bool:
        """Report whether a Job has a Workload."""
        return any(
            w["metadata"]["name"].startswith(f"job-{job}-") for w in self.store.peek_all(names.WORKLOAD)
        )

    def condition(self, job: str, kind: str) -> tuple[str, str, str] | None:
        """Return status, reason and message of a condition of a Job's Workload."""
        found = get_condition(self.workload(job), kind) if self.has_workload(job) else None
        return None if found is None else (found["status"], found["reason"], found["message"])

    def is_so(self, job: str, kind: str) -> bool:
        """Report whether a condition of a Job's Workload is True."""
        return (self.condition(job, kind) or ("",))[0] == "True"

    def pods(self, job: str) -> list[Obj]:
        """Return the pods of a Job."""
        return [p for p in self.store.peek_all("Pod") if p["metadata"]["name"].startswith(f"{job}-")]

    def running(self, job: str) -> int:
        """Return how many pods of a Job run."""
        return sum(p["status"].get("phase") == "Running" for p in self.pods(job))

    def suspended(self, job: str) -> bool:
        """Report whether a Job is suspended."""
        return bool(self.store.get("Job.batch", "default", job)["spec"]["suspend"])

    def stop_policy(self, queue: str, policy: str, kind: str = names.CLUSTER_QUEUE) -> None:
        """Change the stopPolicy of a queue."""
        self.store.mutate(kind, "default", queue, lambda q: q["spec"].update(stopPolicy=policy))

    def events(self, reason: str) -> list[str]:
        """Return the messages of all events of a reason."""
        return [e["message"] for e in self.store.peek_all("Event") if e["reason"] == reason]

    async def until(self, predicate: Callable[[], object]) -> None:
        """Wait until something holds."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not predicate():
            assert asyncio.get_running_loop().time() < end, "gave up"
            await asyncio.sleep(0.01)

    async def rest(self, seconds: float = 1.0) -> None:
        """Let some time pass."""
        await asyncio.sleep(seconds)


@asynccontextmanager
async def stage(*defects: str, kueue: Any = True, nodes: int = 2) -> AsyncIterator[Stage]:
    """Run a cluster of nodes of 8 GPUs with Kueue and the flavor `any`."""
    runtime = build({"volcano": False, "kueue": kueue, "defects": list(defects)})
    runtime.store.clock = wall
    for index in range(nodes):
        runtime.store.create("Node", new_node(f"gpu-{index}"))
    runtime.spawn(SimulatedKubelet(runtime).run(), "simulated kubelets")
    on = Stage(runtime)
    if "kueue.webhook-down" not in defects:
        on.flavor("any")
    try:
        yield on
        assert not runtime.crashed.is_set()
    finally:
        runtime.store.close()
        await runtime.stop()


def virtually(test: Any) -> Callable[[], None]:
    """Let an asynchronous test run in virtual time."""

    def run() -> None:
        run_virtually(test())

    run.__doc__ = test.__doc__
    run.__name__ = test.__name__
    return run
