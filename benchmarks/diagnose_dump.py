"""How long the diagnosis of a dump takes whose namespace has hung for a night.

A dump of one refused gang with 100,000 events about it (75 MB of JSON lines) is diagnosed by `gpucluster diagnose
--from` in a process of its own. The reference, in the same run, is `json.loads` of every line of the same file: what
nobody can do without.

    python benchmarks/diagnose_dump.py [--events 100000]

Prints seconds of CPU time of both and their ratio.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
CREATED, NOW = "2026-03-02T08:00:00Z", "2026-03-02T18:00:00Z"


def objects() -> list[dict[str, Any]]:
    """Return a Job of nine GPUs in a queue of eight, as the cluster shows it."""
    metadata = {"namespace": "ml", "creationTimestamp": CREATED}
    owner = [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "big",
            "uid": "job",
            "controller": True,
        }
    ]
    box = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "9"}}}
    task = {"name": "worker", "replicas": 1, "template": {"spec": {"containers": [box]}}}
    spec = {"minAvailable": 1, "schedulerName": "volcano", "queue": "small", "tasks": [task]}
    group = {"minMember": 1, "queue": "small", "minResources": {"nvidia.com/gpu": "9"}}
    return [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {**metadata, "name": "big", "uid": "job"},
            "spec": spec, "status": {"state": {"phase": "Pending"}},
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {**metadata, "name": "big-job", "uid": "group", "ownerReferences": owner}, "spec": group,
            "status": {"phase": "Pending"},
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": "small", "uid": "queue"},
            "spec": {"capability": {"nvidia.com/gpu": "8"}}, "status": {"state": "Open"},
        },
    ]  # fmt: skip


def event(number: int) -> dict[str, Any]:
    """Return one of the events that the scheduler says every second."""
    return {
        "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Unschedulable", "count": 1,
        "message": "queue resource quota insufficient: insufficient nvidia.com/gpu",
        "metadata": {"name": f"big-job.{number}", "namespace": "ml", "uid": f"event-{number}",
                     "labels": {"a": "x" * 300}},
        "involvedObject": {"kind": "PodGroup", "namespace": "ml", "name": "big-job", "uid": "group"},
        "source": {"component": "volcano"}, "lastTimestamp": f"2026-03-02T{8 + number % 10:02}:00:00Z",
    }  # fmt: skip


def write(path: pathlib.Path, events: int) -> None:
    """Write the dump."""
    header = {"type": "HEADER", "schema": 1, "clock": "object", "snapshot": {"now": NOW}}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header) + "\n")
        for obj in (*objects(), *map(event, range(events))):
            file.write(json.dumps({"t": 0, "type": "ADDED", "object": obj}) + "\n")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "dump.jsonl"
        write(path, options.events)
        size = path.stat().st_size / 1e6
        begun = time.process_time()
        for line in path.read_text(encoding="utf-8").splitlines():
            json.loads(line)
        reading = time.process_time() - begun
        command = [sys.executable, "-c", START, "diagnose", "--from", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(done.stdout)["causes"][0]["code"]
    assert (done.returncode, said) == (1, "over-capability"), (done.returncode, said, done.stderr)
    taken = used.ru_utime + used.ru_stime
    print(f"{options.events:,} events, {size:.0f} MB: diagnosed as {said!r}")
    print(
        f"diagnosis {taken:.1f} s of CPU time, json.loads of its lines {reading:.1f} s: {taken / reading:.1f} times"
    )


if __name__ == "__main__":
    main()
