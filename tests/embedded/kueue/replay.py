"""Playing a recorded scenario of Kueue against the embedded one: the same requests at the same times."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.names import kind_key_of
from tests.embedded.volcano.kubelet import SimulatedKubelet, new_node
from tests.embedded.volcano.virtual_time import run_virtually, wall
from tests.embedded.watching import watch

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "kueue" / "v0.17.0"
FOLLOWED = (
    "Job.batch", "Pod", "Event", names.WORKLOAD, names.CLUSTER_QUEUE, names.LOCAL_QUEUE,
)  # fmt: skip
RECORDED_BATCH = 1.0
"""Seconds for which the real Kueue gathers changes."""
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
CONFIGURED: dict[str, Obj] = {
    "k7-": {
        "timeout": "5s",
        "requeuingStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 2, "timestamp": "Eviction"},
    },
    "k8-": {"timeout": "60s", "blockAdmission": True},
}
"""Beginnings of recordings -> `waitForPodsReady` of the Kueue that they were made with."""


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

    def responses(self) -> list[dict[str, Any]]:
        """Return what the API server answered."""
        with (RECORDED / self.name / "responses.jsonl").open() as lines:
            return [json.loads(line) for line in lines]


@dataclass
class Played:
    """What the embedded cluster did."""

    stream: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)


def play(
    recording: Recording,
    *,
    batch: float = RECORDED_BATCH,
    defects: tuple[str, ...] = (),
    wait: Obj | None = None,
    until: float = 0.0,
) -> Played:
    """Replay a recording in virtual time and return what was seen.

    Args:
        recording: The scenario.
        batch: Seconds for which changes are gathered; the recordings have 1.
        defects: Defects to run with.
        wait: `waitForPodsReady`; by default as the recording had it.
        until: Go on for that many seconds, beyond the end of the recording.
    """
    return run_virtually(_play(recording, batch, defects, wait, until))


class Player:
    """Carries out the notes of a recording."""

    def __init__(self, store: Any, recording: Recording, played: Played) -> None:
        """Act on a store."""
        self._store = store
        self._played = played
        self._objects = {f"{d['kind']}/{d['metadata']['name']}": d for d in recording.manifest()}
        self._namespace = f"case-{recording.name}"
        self._queue = recording.name

    def prepare(self, notes: str) -> None:
        """Create nodes, the namespace, and the flavor where a recording does not."""
        for index in range(2):
            node = new_node(f"gpu-{index}")
            node["metadata"]["labels"] = dict(LABELS)
            self._store.create("Node", node)
        self._store.create("Namespace", {"metadata": {"name": self._namespace}})
        if "create ResourceFlavor/" not in notes:
            self._create("ResourceFlavor/h100")

    def act(self, note: str) -> None:
        """Do what a note says that the driver did."""
        created = re.fullmatch(r"create (\S+/\S+) -> \d+", note)
        if created:
            self._create(created[1])
            return
        stopped = re.fullmatch(r"stopPolicy (\w+)", note)
        if stopped:
            self._change(names.CLUSTER_QUEUE, None, self._queue, note, _stop(stopped[1]))
            return
        job = ("Job.batch", self._namespace, "chg", note.partition(" ->")[0])
        if note.startswith("change-queue-while-running"):
            self._change(*job, lambda j: j["metadata"]["labels"].update({names.QUEUE_LABEL: "other"}))
        elif note.startswith("change-parallelism-while-running"):
            self._change(*job, lambda j: j["spec"].update(parallelism=1))
        elif note.startswith("user-suspends"):
            self._change(*job, lambda j: j["spec"].update(suspend=True))

    def _create(self, what: str) -> None:
        doc = clone(self._objects[what])
        try:
            self._store.create(kind_key_of(doc), doc)
            self._played.answers[f"create {what}"] = (201, "")
        except ApiError as error:
            self._played.answers[f"create {what}"] = (error.code, error.message)

    def _change(self, key: str, namespace: str | None, name: str, what: str, fn: Any) -> None:
        try:
            self._store.mutate(key, namespace, name, fn)
            self._played.answers[what] = (200, "")
        except ApiError as error:
            self._played.answers[what] = (error.code, error.message)


def _stop(policy: str) -> Any:
    def change(queue: Obj) -> None:
        queue["spec"]["stopPolicy"] = policy

    return change


async def _play(
    recording: Recording, batch: float, defects: tuple[str, ...], wait: Obj | None, until: float
) -> Played:
    stated = next((w for name, w in CONFIGURED.items() if recording.name.startswith(name)), None)
    config: Obj = {"batchSeconds": batch}
    if wait or stated:
        config["waitForPodsReady"] = wait or stated
    absent = recording.name.startswith("k9-")
    runtime = build({"volcano": False, "kueue": config, "defects": list(defects)})
    if absent:
        kinds = ("Job.batch", names.CLUSTER_QUEUE, names.FLAVOR)
        runtime.admission[:] = [hook for hook in runtime.admission if hook.kind_key not in kinds]
    runtime.store.clock = wall
    played = Played()
    lines = recording.stream()
    notes = [(line["t"], line["text"]) for line in lines if line["type"] == "NOTE"]
    player = Player(runtime.store, recording, played)
    player.prepare(" ".join(text for _, text in notes))
    runtime.spawn(SimulatedKubelet(runtime).run(), "simulated kubelets")
    await asyncio.sleep(2)
    watcher = asyncio.create_task(watch(runtime, FOLLOWED, played.stream))
    begun = asyncio.get_running_loop().time()
    for at, text in [*notes, (max(lines[-1]["t"], until), "")]:
        await asyncio.sleep(max(begun + at - asyncio.get_running_loop().time(), 0))
        player.act(text)
    await asyncio.sleep(0.01)
    watcher.cancel()
    crashed = runtime.crashed.is_set()
    await runtime.stop()
    assert not crashed
    return played
