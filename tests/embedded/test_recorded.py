"""The default scheduler and the Job controller against recordings of Kubernetes."""

import asyncio
import re

import pytest

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.plain.names import kind_key_of
from tests.embedded.volcano.kubelet import SimulatedKubelet, new_node
from tests.embedded.volcano.recorded_kubelet import RecordedKubelet
from tests.embedded.volcano.replay import Recording
from tests.embedded.volcano.virtual_time import run_virtually, wall

GENERATED = re.compile(r"-\d+-[a-z0-9]{5}\b")
NODE = re.compile(r"\b(gpu|node)-\d\b")


def masked(text):
    """Return a text without generated names and node names."""
    return NODE.sub("NODE", GENERATED.sub("-N-X", text))


def pod_states(stream):
    """Return how many pods went through which distinct states."""
    each = {}
    for line in stream:
        if line.get("kind") == "Pod":
            status = line["object"]["status"]
            listed = tuple((c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or [])
            state = (status["phase"], bool(line["object"]["spec"].get("nodeName")), listed)
            found = each.setdefault(line["object"]["metadata"]["name"], [])
            if state not in found:
                found.append(state)
    return sorted(map(tuple, each.values()))


def job_states(stream):
    """Return the distinct states of each Job without times."""
    out = {}
    for line in stream:
        if line.get("kind") == "Job.batch":
            status = {k: v for k, v in line["object"]["status"].items() if not k.endswith("Time")}
            status["conditions"] = [
                (c["type"], c["status"], c["reason"]) for c in status.get("conditions", [])
            ]
            found = out.setdefault(line["object"]["metadata"]["name"], [])
            if status not in found:
                found.append(status)
    return out


def event_shapes(stream):
    """Return the distinct events: their fields, type, reason, reporter and masked text."""
    out = set()
    for line in stream:
        event = line["object"] if line.get("kind") == "Event" else {}
        if event and event["source"].get("component") != "kubelet":
            out.add(
                (
                    event["type"], event["reason"], masked(event["message"]), event.get("action"),
                    event["reportingComponent"], event["reportingInstance"], str(event["source"]),
                    event["involvedObject"]["kind"], tuple(sorted(event)),
                )
            )  # fmt: skip
    return out


async def _play(recording, nodes):
    runtime = build({"volcano": False})
    runtime.store.clock = wall
    for index in range(nodes):
        name = f"node-{index + 1}" if recording.on_kubelets else f"gpu-{index}"
        runtime.store.create("Node", new_node(name))
    namespace = f"case-{recording.name}"
    runtime.store.create("Namespace", {"metadata": {"name": namespace}})
    if recording.on_kubelets:
        runtime.spawn(RecordedKubelet(runtime, recording.stream()).run(), "recorded kubelets")
    else:
        runtime.spawn(SimulatedKubelet(runtime).run(), "simulated kubelets")
    await asyncio.sleep(1)
    stream = []
    with runtime.store.subscribe(["Job.batch", "Pod", "Event"]) as changes:
        for doc in recording.manifest():
            doc["metadata"]["namespace"] = namespace
            runtime.store.create(kind_key_of(doc), doc)
        await asyncio.sleep(10 if recording.on_kubelets else 5)
        stream += [{"type": t, "kind": k, "object": o} for t, k, o in changes.pending()]
    assert not runtime.crashed.is_set()
    await runtime.stop()
    return stream


@pytest.mark.parametrize(
    "name",
    [
        "h1-default-scheduler-over-capacity",
        "h2-default-scheduler-two-gangs",
        "h4-default-scheduler-two-gangs-partial",
        "r7-real-kubelet-indexed-job-headless-service",
    ],
)
def test_scenario_is_as_recorded(name):
    """Pods, Jobs and events of Jobs under the default scheduler go through the recorded states."""
    recording = Recording(name)
    recorded = recording.stream()
    played = run_virtually(_play(recording, 2))
    assert event_shapes(played) == event_shapes(recorded)
    ours, theirs = job_states(played), job_states(recorded)
    assert ours.keys() == theirs.keys()
    if name.startswith(("h1", "r7")):
        assert pod_states(played) == pod_states(recorded)
        # The real controller counts in batches: which numbers it passes through depends on when it looks.
        assert {name: states[-1] for name, states in ours.items()} == {
            name: states[-1] for name, states in theirs.items()
        }
    if name.startswith("h1"):
        assert ours == theirs
    elif not name.startswith("r7"):
        assert set(pod_states(played)) == set(pod_states(recorded))
        assert len(pod_states(played)) == len(pod_states(recorded))
