"""Clusters made from nothing, as `kubectl get -o json` would show them: nodes, pods, gangs, queues, events."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Diagnosis
from pytest_gpucluster.plain import times

Obj = dict[str, Any]

GPU = "nvidia.com/gpu"
NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
VOLCANO = "scheduling.volcano.sh/v1beta1"


def ago(seconds: float) -> str:
    """Return the time stamp of some seconds before the look."""
    return times.format_time(NOW - timedelta(seconds=seconds))


class Cluster:
    """What one look shows.

    Attributes:
        objects: all that is there.
        space: the namespace of the job under diagnosis.
    """

    def __init__(self, space: str = "ml") -> None:
        """Begin with nothing."""
        self.objects: list[Obj] = []
        self.space = space

    def add(self, obj: Obj) -> Obj:
        """Add an object, with a uid and a time of creation if it has none."""
        metadata = obj["metadata"]
        metadata.setdefault(
            "uid", f"{obj['kind']}-{metadata.get('namespace', '')}-{metadata['name']}".lower()
        )
        metadata.setdefault("creationTimestamp", ago(600))
        self.objects.append(obj)
        return obj

    def of(self, kind: str) -> list[Obj]:
        """Return the objects of a kind."""
        return [obj for obj in self.objects if obj["kind"] == kind]

    def drop(self, *kinds: str) -> "Cluster":
        """Take all objects of some kinds away."""
        self.objects = [obj for obj in self.objects if obj["kind"] not in kinds]
        return self

    # -- nodes and pods --------------------------------------------------------------------------------------------

    def node(
        self, name: str, gpus: int | str = 8, *, resource: str = GPU, healthy: int | None = None, **more: Any
    ) -> Obj:
        """Add a node; `labels`, `taints`, `unschedulable`, `conditions`, `cpu` and `memory` may be stated."""
        room = {
            "cpu": str(more.get("cpu", 96)),
            "memory": more.get("memory", "1Ti"),
            "pods": str(more.get("pods", 110)),
        }
        room |= {resource: str(gpus)} if gpus else {}
        room |= more.get("room", {})
        beat = {"lastHeartbeatTime": ago(10)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", **beat}
        allocatable = room | ({resource: str(healthy)} if healthy is not None else {})
        spec = {k: more[k] for k in ("taints", "unschedulable") if k in more}
        return self.add({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "creationTimestamp": ago(90000),
                         "labels": {"kubernetes.io/hostname": name, **more.get("labels", {})}},
            "spec": spec,
            "status": {"capacity": room, "allocatable": allocatable, "conditions": more.get("conditions", [ready])},
        })  # fmt: skip

    def pod(self, name: str, gpus: int | str = 1, *, node: str = "", resource: str = GPU, **more: Any) -> Obj:
        """Add a pod: Running on a node, or Pending without one; `message` is the scheduler's."""
        requests = {"cpu": str(more.get("cpu", 1)), **({resource: str(gpus)} if gpus else {})}
        limits = {resource: str(gpus)} if gpus else {}
        box = {"name": "main", "image": "reg/x:1", "resources": {"requests": requests, "limits": limits}}
        spec: Obj = {
            "schedulerName": more.get("scheduler", "volcano"),
            "restartPolicy": "Never",
            "containers": [box],
        }
        spec |= more.get("spec", {})
        metadata: Obj = {
            "name": name,
            "namespace": more.get("space", self.space),
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            "creationTimestamp": ago(more.get("age", 500)),
        }
        if more.get("group"):
            metadata["annotations"] = {
                "scheduling.k8s.io/group-name": more["group"],
                **metadata["annotations"],
            }
        metadata |= {"ownerReferences": [more["owner"]]} if more.get("owner") else {}
        status: Obj = {"phase": more.get("phase", "Running" if node else "Pending")}
        if node:
            spec["nodeName"] = node
            status["startTime"] = ago(400)
            status["conditions"] = [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(400)}
            ]
            begun = {"state": {"running": {"startedAt": ago(390)}}, "ready": True, "restartCount": 0}
            status["containerStatuses"] = [{"name": "main", "image": "reg/x:1", **begun}]
        elif more.get("message") is not None:
            told = {"reason": more.get("reason", "Unschedulable"), "message": more["message"]}
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastTransitionTime": ago(more.get("told", 20)),
                    **told,
                }
            ]
        status |= more.get("status", {})
        return self.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
        )

    # -- gangs -----------------------------------------------------------------------------------------------------

    def group(
        self, name: str, minimum: int, phase: str = "Inqueue", *, queue: str = "default", **more: Any
    ) -> Obj:
        """Add a PodGroup of Volcano; `asks` is its minResources, `said` the text of its condition Unschedulable."""
        status: Obj = {"phase": phase} if phase else {}
        if more.get("said"):
            status["conditions"] = [{
                "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "transitionID": "t",
                "message": more["said"], "lastTransitionTime": ago(more.get("told", 20)),
            }]  # fmt: skip
        spec = {
            "minMember": minimum,
            "queue": queue,
            **({"minResources": more["asks"]} if "asks" in more else {}),
        }
        metadata = {"name": name, "namespace": more.get("space", self.space), "creationTimestamp": ago(500)}
        metadata |= {"ownerReferences": [more["owner"]]} if more.get("owner") else {}
        return self.add(
            {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": metadata, "spec": spec, "status": status}
        )

    def gang(
        self,
        members: int = 3,
        gpus: int | str = 4,
        *,
        message: str | None = None,
        at: tuple[str, ...] = (),
        **more: Any,
    ) -> list[Obj]:
        """Add the Volcano Job `train` with its PodGroup and pods; the first pods have the nodes of `at`.

        `minimum`, `queue`, `resource`, `made` (pods that exist), `spec` (of the pods), `pod` (keywords of each pod),
        `phase` and `group` (phases of the Job and its PodGroup) and `said` (of the PodGroup) may be stated.
        """
        minimum, queue = more.get("minimum", members), more.get("queue", "default")
        resource = more.get("resource", GPU)
        whole = len(at) >= minimum
        kept = self.pod("template", gpus, resource=resource, spec=more.get("spec", {}), **more.get("pod", {}))
        self.objects.remove(kept)
        task = {"name": "worker", "replicas": members, "template": {"spec": kept["spec"]}}
        state = {
            "phase": more.get("phase", "Running" if whole else "Pending"),
            "lastTransitionTime": ago(390),
        }
        self.add({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": "train", "namespace": self.space, "creationTimestamp": ago(500)},
            "spec": {"minAvailable": minimum, "queue": queue, "schedulerName": "volcano", "tasks": [task]},
            "status": {"state": state, "minAvailable": minimum, **more.get("status", {})},
        })  # fmt: skip
        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "controller": True,
                 "uid": f"job-{self.space}-train"}  # fmt: skip
        asks = {resource: str(int(gpus) * minimum), "cpu": str(minimum)} if gpus else {"cpu": str(minimum)}
        phase = more.get("group", "Running" if whole else "Inqueue")
        self.group("train-1", minimum, phase, queue=queue, asks=asks, said=more.get("said"), owner=owner)
        labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "worker"}
        return [
            self.pod(
                f"train-worker-{n}", gpus, node=at[n] if n < len(at) else "", resource=resource, labels=labels,
                group="train-1", owner=owner, message=message, spec=more.get("spec", {}), **more.get("pod", {}),
            )
            for n in range(more.get("made", members))
        ]  # fmt: skip

    def queue(self, name: str = "default", state: str = "Open", **more: Any) -> Obj:
        """Add a queue of Volcano; `capability`, `deserved`, `parent`, `allocated` and others may be stated."""
        spec = {k: v for k, v in more.items() if k not in ("allocated", "status")}
        status = {"state": state, "allocated": more.get("allocated", {}), **more.get("status", {})}
        return self.add(
            {
                "apiVersion": VOLCANO,
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
                "status": status,
            }
        )

    def event(
        self,
        about: Obj,
        reason: str,
        message: str,
        *,
        by: str = "volcano",
        kind: str = "Warning",
        **more: Any,
    ) -> Obj:
        """Add an event about an object; `first`, `last` (seconds ago) and `count` may be stated."""
        metadata = about["metadata"]
        last = more.get("last", 20)
        return self.add({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": f"e{len(self.objects)}", "namespace": metadata.get("namespace", "default"),
                         "creationTimestamp": ago(more.get("first", last))},
            "type": kind, "reason": reason, "message": message, "count": more.get("count", 1),
            "firstTimestamp": ago(more.get("first", last)), "lastTimestamp": ago(last), "source": {"component": by},
            "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": metadata["name"],
                               "namespace": metadata.get("namespace"), "uid": metadata["uid"]},
        })  # fmt: skip

    # -- the diagnosis ---------------------------------------------------------------------------------------------

    def everywhere(self) -> "Cluster":
        """Add a pod of the system, by which a dump shows that it has the pods of all namespaces."""
        self.pod("coredns-0", 0, node="cp", space="kube-system", scheduler="default-scheduler",
                 owner={"kind": "ReplicaSet", "name": "coredns", "uid": "rs", "controller": True})  # fmt: skip
        return self

    def diagnose(self, name: str = "train") -> Diagnosis:
        """Return what a look says of one job."""
        evidence = diagnose.unfold(self.objects, now=NOW)
        found = diagnose.subjects(evidence, name, self.space) or diagnose.subjects(evidence, "", self.space)
        return diagnose.diagnose(found[0])
