"""A healthy job as `kubectl get` showed it on real kubelets, and ways to plant one trouble in it."""

from datetime import datetime, timedelta
from typing import Any

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Diagnosis, Log
from pytest_gpucluster.plain import times
from pytest_gpucluster.plain.copies import clone
from tests.diagnose import cases

Obj = dict[str, Any]

HEALTHY = ("r1-real-kubelet-pytorch-gang", 9.0)
GPU = "nvidia.com/gpu"


class Dump:
    """What one look shows: a gang of one master and three workers, all Running for ten minutes; else as recorded.

    Attributes:
        now: the time of day of the look.
        looked: kinds that were listed whole.
    """

    def __init__(self, name: str = HEALTHY[0], t: float = HEALTHY[1]) -> None:
        """Take a recorded moment."""
        objects, now = cases.objects_at(name, t)
        assert now is not None
        self.objects: list[Obj] = [clone(dict(o)) for o in objects]
        self.now: datetime = now + timedelta(seconds=600 if name == HEALTHY[0] else 0)
        self.logs: list[Log] = []
        self.extra: list[Obj] = []
        self.looked: dict[str, int] = {}

    # -- what is there ---------------------------------------------------------------------------------------------

    def of(self, kind: str) -> list[Obj]:
        """Return the objects of a kind."""
        return [o for o in self.objects if o["kind"] == kind]

    @property
    def job(self) -> Obj:
        """Return the Job."""
        return self.of("Job")[0]

    @property
    def group(self) -> Obj:
        """Return its PodGroup."""
        return self.of("PodGroup")[0]

    @property
    def pods(self) -> list[Obj]:
        """Return its pods, the master first."""
        return sorted(self.of("Pod"), key=lambda o: o["metadata"]["name"])

    @property
    def master(self) -> Obj:
        """Return the master's pod."""
        return self.pods[0]

    @property
    def workers(self) -> list[Obj]:
        """Return the workers' pods."""
        return self.pods[1:]

    @property
    def name(self) -> str:
        """Return the job's name."""
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Return the namespace."""
        return str(self.job["metadata"]["namespace"])

    def ago(self, seconds: float) -> str:
        """Return the time stamp of some seconds before the look."""
        return times.format_time(self.now - timedelta(seconds=seconds))

    def task(self, number: int) -> Obj:
        """Return the pod specification of a task's template."""
        return self.job["spec"]["tasks"][number]["template"]["spec"]

    # -- what can be done to it ------------------------------------------------------------------------------------

    def add(self, *objects: Obj) -> "Dump":
        """Add objects."""
        self.objects += objects
        return self

    def drop(self, *kinds: str) -> "Dump":
        """Take objects of some kinds away."""
        self.objects = [o for o in self.objects if o["kind"] not in kinds]
        return self

    def later(self, seconds: float = 120.0) -> "Dump":
        """Look some seconds later: nothing has changed since."""
        self.now += timedelta(seconds=seconds)
        return self

    def say(self, pod: Obj, *lines: str, previous: bool = False) -> "Dump":
        """Let a container of a pod have written lines."""
        metadata, spec = pod["metadata"], pod["spec"]
        box = spec["containers"][0]["name"]
        self.logs.append(Log(metadata["name"], metadata["uid"], box, "\n".join(lines), previous))
        return self

    def event(
        self, about: Obj, reason: str, message: str, kind: str = "Warning", by: str = "volcano"
    ) -> "Dump":
        """Let somebody have said something about an object."""
        metadata = about["metadata"]
        target = {"kind": about["kind"], **{k: metadata.get(k) for k in ("name", "namespace", "uid")}}
        return self.add({
            "apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": message, "count": 3,
            "metadata": {"name": f"e{len(self.objects)}", "namespace": self.namespace, "uid": f"e{len(self.objects)}"},
            "involvedObject": target, "source": {"component": by}, "lastTimestamp": self.ago(2),
        })  # fmt: skip

    def nodes(self, *gpus: int, taint: str = "", resource: str = GPU, **allocatable: int) -> "Dump":
        """Let the cluster have nodes with so many GPUs each; `allocatable` by node name where it is less."""
        for number, count in enumerate(gpus):
            name = f"node-{number + 1}"
            less = allocatable.get(name.replace("-", "_"), count)
            spec = {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}
            status = {
                "capacity": {"cpu": "96", resource: str(count)}, "allocatable": {"cpu": "96", resource: str(less)},
                "conditions": [{"type": "Ready", "status": "True"}],
            }  # fmt: skip
            self.add({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "spec": spec,
                "status": status,
            })  # fmt: skip
        self.looked["Node"] = len(gpus)
        return self

    def queue(
        self, state: str = "Open", capability: dict[str, str] | None = None, allocated: str = "0"
    ) -> "Dump":
        """Let the job's queue be as given."""
        self.drop("Queue")
        name = self.job["spec"].get("queue", "default")
        self.looked["Queue"] = 1
        return self.add({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name, "uid": f"q-{name}"},
            "spec": {"capability": capability or {}}, "status": {"state": state, "allocated": {GPU: allocated}},
        })  # fmt: skip

    def unbind(self, *pods: Obj, message: str = "", reason: str = "Unschedulable") -> "Dump":
        """Let pods wait for a node."""
        for pod in pods:
            pod["spec"].pop("nodeName", None)
            conditions = [{
                "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                "lastTransitionTime": self.ago(5),
            }] if message else []  # fmt: skip
            pod["status"] = {"phase": "Pending", "conditions": conditions}
        return self

    def held(self) -> "Dump":
        """Let the gang never have been whole."""
        self.group["status"] = {"phase": "Inqueue"}
        self.job["status"] = {"state": {"phase": "Pending"}}
        return self

    def wait(self, pod: Obj, reason: str, message: str = "", image: str = "train:1") -> "Dump":
        """Let the container of a bound pod wait."""
        box = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": image,
            "ready": False,
            "restartCount": 0,
        }
        box["state"] = {"waiting": {"reason": reason, "message": message}}
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.ago(100)}
        pod["status"] = {"phase": "Pending", "containerStatuses": [box], "conditions": [scheduled]}
        return self

    def end(self, pod: Obj, code: int, *, reason: str = "Error", ago: float = 20.0) -> "Dump":
        """Let a pod have ended."""
        name = pod["spec"]["containers"][0]["name"]
        ended = {
            "exitCode": code,
            "reason": reason,
            "startedAt": self.ago(ago + 5),
            "finishedAt": self.ago(ago),
        }
        phase = "Succeeded" if code == 0 else "Failed"
        box = {"name": name, "restartCount": 0, "state": {"terminated": ended}}
        pod["status"] = {**pod["status"], "phase": phase, "containerStatuses": [box]}
        return self

    def restart(self, pod: Obj, times_: int, code: int, reason: str = "Error") -> "Dump":
        """Let the container of a pod crash and be restarted in place."""
        pod["spec"]["restartPolicy"] = "OnFailure"
        ended = {"exitCode": code, "reason": reason, "finishedAt": self.ago(10)}
        box = {"name": pod["spec"]["containers"][0]["name"], "ready": False, "restartCount": times_}
        box |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
        pod["status"]["containerStatuses"] = [box]
        return self

    def phase(self, phase: str, ago: float = 60.0, **status: object) -> "Dump":
        """Let the Job be in a phase since some seconds."""
        told = self.job["status"].setdefault("conditions", [])
        told.append({"status": phase, "lastTransitionTime": self.ago(ago)})
        self.job["status"] |= {"state": {"phase": phase, "lastTransitionTime": self.ago(ago)}, **status}
        return self

    def refuse(self, message: str) -> "Dump":
        """Let the gang be refused at enqueue."""
        self.drop("Pod", "Event")
        self.group["status"] = {"phase": "Pending"}
        self.job["status"] = {"state": {"phase": "Pending"}}
        return self.event(self.group, "Unschedulable", message, kind="Normal")

    # -- the diagnosis ---------------------------------------------------------------------------------------------

    def diagnose(self) -> Diagnosis:
        """Return what a look says of the job."""
        evidence = diagnose.unfold(
            self.objects,
            now=self.now,
            logs=self.logs,
            extra=self.extra,
            header={"looked": self.looked} if self.looked else {},
        )
        found = diagnose.subjects(evidence, self.name if self.of("Job") else "")
        return diagnose.diagnose(found[0])
