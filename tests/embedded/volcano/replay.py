"""Playing a recorded scenario against the embedded cluster: the same requests at the same times."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import Obj, owner_reference
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.scheduler.loop import run_scheduler
from pytest_gpucluster.embedded.volcano.shipped import SCHEDULER_CONF
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.names import kind_key_of
from pytest_gpucluster.plain.planted import Planted
from tests.embedded.volcano.kubelet import SimulatedKubelet, new_node
from tests.embedded.volcano.recorded_kubelet import RecordedKubelet
from tests.embedded.volcano.virtual_time import run_virtually, wall
from tests.embedded.watching import watch

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "volcano" / "v1.14.4"
FOLLOWED = (
    "Job.batch.volcano.sh", "PodGroup", "Pod", "Queue", "Event", "ConfigMap", "Service",
    "NetworkPolicy", "Secret", "Command",
)  # fmt: skip
SYSTEM_NAMESPACES = ("default", "kube-system")
PRIORITIES = {"low": 10, "high": 1000}
"""Values of the priority classes that recordings name and do not create."""
CONFIGURED = {"h6-volcano-without-gang-plugin": "plugin gang removed"}
"""Recordings whose notes do not say how the scheduler was configured."""


@dataclass
class Recording:
    """One recorded scenario."""

    name: str

    def stream(self) -> list[dict[str, Any]]:
        """Return its lines."""
        with (RECORDED / self.name / "events.jsonl").open() as lines:
            return [json.loads(line) for line in lines]

    def manifest(self) -> list[Obj]:
        """Return the objects that were applied."""
        with (RECORDED / self.name / "manifest.yaml").open() as text:
            return [doc for doc in yaml.safe_load_all(text) if doc]

    @property
    def on_kubelets(self) -> bool:
        """Whether it was recorded on real kubelets."""
        return "-real-kubelet-" in self.name

    def responses(self) -> list[dict[str, Any]]:
        """Return what the API server answered."""
        with (RECORDED / self.name / "responses.jsonl").open() as lines:
            return [json.loads(line) for line in lines]


@dataclass
class Played:
    """What the embedded cluster did."""

    stream: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)


def play(recording: Recording, *, period: float = 1.0, defects: tuple[str, ...] = ()) -> Played:
    """Replay a recording in virtual time and return what was seen.

    Args:
        recording: The scenario.
        period: The scheduler's period in seconds; the recordings have 1.
        defects: Defects to run with.
    """
    return run_virtually(_play(recording, period, defects))


class Player:
    """Carries out the notes of a recording."""

    def __init__(self, runtime: Runtime, recording: Recording, played: Played) -> None:
        """Act on a runtime."""
        self._runtime = runtime
        self._store = runtime.store
        self._played = played
        self._objects = {f"{d['kind']}/{d['metadata']['name']}": d for d in recording.manifest()}
        self._namespace = f"case-{recording.name}"
        self._on_kubelets = recording.on_kubelets
        self._scheduler: asyncio.Task[None] | None = None

    def configure(self, changes: str) -> None:
        """Change the scheduler's configuration as a note says: actions, plugins removed, all else as shipped."""
        conf = yaml.safe_load(SCHEDULER_CONF)
        for part in changes.split(";"):
            words = part.strip()
            if words.startswith("actions "):
                conf["actions"] = words.removeprefix("actions ")
            for tier in conf["tiers"]:
                removed = re.findall(r"(?:plugin )?(\w+) removed", words)
                tier["plugins"] = [p for p in tier["plugins"] if p["name"] not in removed]

        def write(obj: Obj) -> None:
            obj["data"] = {names.SCHEDULER_CONFIG_KEY: yaml.safe_dump(conf)}

        self._store.mutate("ConfigMap", names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG, write)

    def prepare(self, nodes: int) -> None:
        """Create nodes, the namespace, and what was there before the recording began."""
        for index in range(nodes):
            name = f"node-{index + 1}" if self._on_kubelets else f"gpu-{index}"
            self._store.create("Node", new_node(name))
        self._store.create("Namespace", {"metadata": {"name": self._namespace}})
        for doc in self._objects.values():
            queue = (doc.get("spec") or {}).get("queue")
            self._ensure_priority((doc.get("spec") or {}).get("priorityClassName"))
            if doc["kind"] == "PriorityClass":
                self._store.create("PriorityClass", clone(doc))
            elif queue and f"Queue/{queue}" not in self._objects:
                self._ensure_queue({"metadata": {"name": queue}})
            elif doc["kind"] == "Queue":
                self._ensure_queue(doc)

    def _ensure_priority(self, name: str | None) -> None:
        """Create a priority class that was there before the recording began."""
        stated = name is None or f"PriorityClass/{name}" in self._objects
        if not stated and self._store.peek("PriorityClass", None, name) is None:
            self._store.create("PriorityClass", {"metadata": {"name": name}, "value": PRIORITIES[name]})

    def _ensure_queue(self, queue: Obj) -> None:
        if self._store.peek("Queue", None, queue["metadata"]["name"]) is None:
            self._store.create("Queue", clone(queue))

    def act(self, note: str) -> None:
        """Do what a note says that the driver did."""
        for pattern, method in (
            (r"create (?P<what>\S+/\S+) -> \d+", self._create),
            (r"deleted pod (?P<name>\S+).*", self._delete_pod),
            (r"(?P<name>\S+) deleted", self._delete_named),
            (r"node (?P<name>\S+) (?P<how>cordoned|uncordoned)", self._cordon),
            (r"(?P<action>OpenQueue|CloseQueue) command -> \d+", self._command_queue),
            (r"scheduler process (?P<how>stopped|started)", self._switch_scheduler),
        ):
            match = re.fullmatch(pattern, note)
            if match:
                method(**match.groupdict())
                return

    def start_scheduler(self) -> None:
        """Run the scheduler as a task that a note can stop."""
        self._scheduler = self._runtime.spawn(run_scheduler(self._runtime), "volcano scheduler")

    def _create(self, what: str) -> None:
        if what.startswith("Command/"):
            self._command_job(what.removeprefix("Command/"))
            return
        doc = clone(self._objects[what])
        doc["metadata"].setdefault("namespace", self._namespace)
        try:
            self._store.create(kind_key_of(doc), doc)
            self._played.answers[what] = 201
        except ApiError as error:
            self._played.answers[what] = error.code

    def _command_job(self, name: str) -> None:
        action = {"cmd-abort": "AbortJob", "cmd-resume": "ResumeJob"}[name]
        (job,) = self._store.list("Job.batch.volcano.sh", self._namespace)
        target = owner_reference(job)
        body = {"metadata": {"name": name, "namespace": self._namespace}, "action": action, "target": target}
        self._store.create("Command", body)

    def _command_queue(self, action: str) -> None:
        (queue,) = [d for d in self._objects.values() if d["kind"] == "Queue"]
        target = {"kind": "Queue", "name": queue["metadata"]["name"]}
        body = {
            "metadata": {"name": action.lower(), "namespace": "default"},
            "action": action,
            "target": target,
        }
        self._store.create("Command", body)

    def _delete_pod(self, name: str) -> None:
        self._store.delete("Pod", self._namespace, name)

    def _delete_named(self, name: str) -> None:
        if self._store.delete("Job.batch.volcano.sh", self._namespace, name) is None:
            self._store.delete("Pod", self._namespace, name, grace=0)

    def _cordon(self, name: str, how: str) -> None:
        def write(node: Obj) -> None:
            node.setdefault("spec", {})["unschedulable"] = how == "cordoned"

        self._store.mutate("Node", None, name, write)

    def _switch_scheduler(self, how: str) -> None:
        if how == "started":
            self.start_scheduler()
        elif self._scheduler is not None:
            self._scheduler.cancel()


async def _play(recording: Recording, period: float, defects: tuple[str, ...]) -> Played:
    config = {"defects": [*defects, "scheduler.down"], "scheduler_period": period}
    runtime = build(config)
    runtime.store.clock = wall
    runtime.defects = Planted(defects)
    played = Played()
    player = Player(runtime, recording, played)
    notes = [(line["t"], line["text"]) for line in recording.stream() if line["type"] == "NOTE"]
    stated = re.search(r"(\d+) simulated nodes", notes[0][1])
    player.prepare(int(stated[1]) if stated else 2)
    configured = re.search(r"scheduler configuration: (.*)", notes[0][1])
    player.configure(configured[1] if configured else CONFIGURED.get(recording.name, ""))
    if "scheduler.down" not in defects:
        player.start_scheduler()
    if recording.on_kubelets:
        runtime.spawn(RecordedKubelet(runtime, recording.stream()).run(), "recorded kubelets")
    else:
        runtime.spawn(SimulatedKubelet(runtime).run(), "simulated kubelets")
    await asyncio.sleep(5)
    watcher = asyncio.create_task(watch(runtime, FOLLOWED, played.stream, SYSTEM_NAMESPACES))
    begun = asyncio.get_running_loop().time()
    for at, text in notes:
        await asyncio.sleep(max(begun + at - asyncio.get_running_loop().time(), 0))
        player.act(text)
    await asyncio.sleep(0.01)
    watcher.cancel()
    crashed = runtime.crashed.is_set()
    await runtime.stop()
    assert not crashed
    return played
