"""How long it takes from the receipt of a watch line to the return of the wait that it ends.

A feeding thread hands watch lines of a namespace of 1,000 pods to the session's log, as a watch thread does; the main
thread waits on a stage for the pod of that line to be bound. Measured is from the stamp that the watch takes at
receipt (before parsing) to the return of `Stage.wait`. The reference, in the same run and at the same pace, is a bare
`threading.Condition`: notify in one thread, return of `wait` in the other.

    python benchmarks/wake_latency.py [--rounds 500] [--pods 1000]

Prints p50 and p99 in milliseconds of both, and their ratios. The bound to keep is a p99 of 100 ms.
"""

import argparse
import pathlib
import statistics
import tempfile
import threading
import time
import types
from collections.abc import Callable

from pytest_gpucluster.kube import clock
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log, site, stage

BOUND_MS = 100.0
PACE = 0.002
"""Seconds between a wait and the line that ends it, so that the waiter really sleeps."""


def pod(number: int, node: str = "") -> dict[str, object]:
    """Return a pod of the size that a Volcano pod has (about 3 kB)."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"gang-worker-{number}",
            "namespace": "ns",
            "uid": f"uid-{number}",
            "ownerReferences": [{"uid": "gang", "kind": "Job"}],
            "labels": {f"label-{i}": "x" * 20 for i in range(10)},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "env": [{"name": f"E{i}"} for i in range(100)]}],
        },
    }


def rounds(count: int, wait: Callable[[int], None], cause: Callable[[int], float]) -> list[float]:
    """Return for each round the seconds from what `cause` returns to the return of `wait`."""
    go, stamps, taken = threading.Semaphore(0), [0.0] * count, []

    def feed() -> None:
        for number in range(count):
            go.acquire()
            time.sleep(PACE)
            stamps[number] = cause(number)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    for number in range(count):
        go.release()
        wait(number)
        returned = time.monotonic()
        while not stamps[number]:  # the cause may return after the wait that it ended
            time.sleep(0)
        taken.append(returned - stamps[number])
    feeder.join()
    return taken


def measured(count: int, pods: int) -> list[float]:
    """Return the latencies of `Stage.wait`."""
    with tempfile.TemporaryDirectory() as folder:
        seen = log.SessionLog(
            pathlib.Path(folder) / "session.jsonl", clock.RealClock(), scenario_label=names.LABEL_SCENARIO
        )
        profile = types.SimpleNamespace(budgets={"bind": 10.0}, queue="default")
        cluster = types.SimpleNamespace()
        place = site.Site(
            profile,
            cluster,
            None,
            seen,
            clock.RealClock(),
            "ns",
            "run",
            "main",
            "",
            lambda m, _: m,
            lambda _: None,
        )
        acting = stage.Stage(place, "latency", ("Pod",))
        for number in range(pods):
            seen.line("ADDED", "Pod", pod(number), time.monotonic())

        def wait(number: int) -> None:
            name = f"gang-worker-{number % pods}"
            node = f"node-{number}"
            acting.wait(
                "bound", lambda live: live.get("Pod", name)["spec"]["nodeName"] == node, budget="bind"
            )

        def cause(number: int) -> float:
            received = time.monotonic()
            seen.line("MODIFIED", "Pod", pod(number % pods, f"node-{number}"), received)
            return received

        try:
            return rounds(count, wait, cause)
        finally:
            seen.close()


def reference(count: int) -> list[float]:
    """Return the latencies of a bare condition."""
    condition, done = threading.Condition(), [-1]

    def wait(number: int) -> None:
        with condition:
            condition.wait_for(lambda: done[0] >= number)

    def cause(number: int) -> float:
        at = time.monotonic()
        with condition:
            done[0] = number
            condition.notify_all()
        return at

    return rounds(count, wait, cause)


def main() -> int:
    """Print the figures; return 1 when the bound is broken."""
    parser = argparse.ArgumentParser(description="latency from watch line to return of the wait")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1000)
    told = parser.parse_args()
    figures = {}
    for name, taken in (
        ("threading.Condition", reference(told.rounds)),
        ("Stage.wait", measured(told.rounds, told.pods)),
    ):
        cuts = statistics.quantiles(taken, n=100)
        figures[name] = (cuts[49] * 1000, cuts[98] * 1000)
        print(f"{name:20} p50 {figures[name][0]:7.3f} ms   p99 {figures[name][1]:7.3f} ms")
    own, base = figures["Stage.wait"], figures["threading.Condition"]
    print(f"{'ratio':20} p50 {own[0] / base[0]:7.1f}      p99 {own[1] / base[1]:7.1f}")
    kept = own[1] <= BOUND_MS
    print(f"bound p99 <= {BOUND_MS:g} ms: {'kept' if kept else 'BROKEN'}")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
