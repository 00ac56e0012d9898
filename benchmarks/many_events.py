"""What 100,000 events cost a session: taking them down, waking a waiter among them, cutting a scenario's evidence.

Reference in the same run: parsing and writing the same lines without looking at them.
"""

import json
import pathlib
import resource
import tempfile
import threading
import time

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.kube.clock import RealClock
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import slice as slices

EVENTS = 100_000
PODS = 200
NAMESPACE = "gpucluster-bench"


def event(number: int) -> dict[str, object]:
    """Return one event about one of the pods, as a scheduler writes them while a gang waits."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"e{number}", "namespace": NAMESPACE, "uid": f"event-{number}", "resourceVersion": str(number),
        },
        "involvedObject": {"kind": "Pod", "name": f"p{number % PODS}", "uid": f"pod-{number % PODS}"},
        "reason": "FailedScheduling",
        "message": f"pod group is not ready, {PODS} Pending, {PODS} minAvailable; attempt {number}",
        "lastTimestamp": "2026-11-28T10:00:00Z",
        "type": "Warning",
    }  # fmt: skip


def pod(number: int) -> dict[str, object]:
    """Return a pod of the scenario."""
    metadata = {
        "name": f"p{number}", "namespace": NAMESPACE, "uid": f"pod-{number}",
        "labels": {names.LABEL_SCENARIO: "bench"},
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {},
        "status": {"phase": "Pending"},
    }


def reference(lines: list[bytes], folder: pathlib.Path) -> float:
    """Return the seconds of parsing each line and writing it out."""
    began = time.monotonic()
    with (folder / "plain").open("w") as file:
        for line in lines:
            file.write(json.dumps(json.loads(line)) + "\n")
    return time.monotonic() - began


def take_down(log: logs.SessionLog, lines: list[bytes]) -> tuple[float, float]:
    """Return the seconds of taking all down, and how late a waiter woke that waits for the last."""
    woken: list[float] = []
    last = f"e{EVENTS - 1}"

    def wait() -> None:
        log.until(lambda: last in log.state.shelf("Event", NAMESPACE), 600)
        woken.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    began = time.monotonic()
    for line in lines:
        log.line("ADDED", "Event", json.loads(line), time.monotonic())
    done = time.monotonic()
    waiter.join()
    return done - began, woken[0] - done


def main() -> None:
    """Print the table."""
    lines = [json.dumps(event(n)).encode() for n in range(EVENTS)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plain = reference(lines, folder)
        log = logs.SessionLog(folder / "session.jsonl", RealClock(), scenario_label=names.LABEL_SCENARIO)
        log.in_sync("Event", time.monotonic(), "list")
        for number in range(PODS):
            log.line("ADDED", "Pod", pod(number), time.monotonic())
        taken, late = take_down(log, lines)
        began = time.monotonic()
        cut = slices.cut(
            log.entries(), log.spans(), scenario="bench", first=0, end=log.now(), seeds=[],
            context=frozenset(), header={"scenario": "bench", "given": {}},
        )  # fmt: skip
        cut.write(folder / "bench.jsonl")
        sliced = time.monotonic() - began
        log.close()
        began = time.monotonic()
        found = ingest.read(folder / "bench.jsonl")
        read = time.monotonic() - began
        size = (folder / "bench.jsonl").stat().st_size / 1e6
    if len(found.lines) < EVENTS:
        raise SystemExit(f"lost {EVENTS - len(found.lines)} events")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = (
        ("reference: parse and write", plain),
        ("take down", taken),
        ("cut and write", sliced),
        ("read", read),
    )
    for what, seconds in rows:
        print(f"{what:<28}{seconds:8.2f} s  {seconds / plain:6.1f} x  {EVENTS / seconds:10,.0f} events/s")
    print(f"{'wake after the last':<28}{late * 1000:8.1f} ms")
    print(f"{'evidence':<28}{size:8.1f} MB")
    print(f"{'peak memory':<28}{peak:8.0f} MiB")


if __name__ == "__main__":
    main()
