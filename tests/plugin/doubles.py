"""Doubles for inner projects: scenarios that only count, judges that say what they are told, a fake cluster."""

import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import filelock

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.hooks import backend, offered
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Verdict
from pytest_gpucluster.scenario import spec

Needs = functools.partial(spec.Needs, seconds=1, gang=False)
"""What a small scenario takes; it writes no gang."""


@dataclasses.dataclass(frozen=True)
class Scenario(spec.Scenario):
    """A scenario whose evidence is its header."""

    summary: str = ""
    run: Callable[[Any], None] = lambda _: None
    needs: spec.Needs = dataclasses.field(default_factory=Needs)
    kinds: tuple[str, ...] = ("Pod",)
    header: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hangs: bool = False


calm = Scenario("calm", "nothing happens", needs=Needs(seconds=3))
greedy = Scenario(
    "greedy", "takes GPUs", needs=Needs(gpus=4, gpu_seconds=40, seconds=9, slot_nodes=2, slots_per_node=3)
)
broken = Scenario(
    "broken", header={"problem": {"verdict": "environment", "text": "no permission to list pods"}}
)
cut = Scenario("cut", header={"problem": {"verdict": "inconclusive", "text": "the watch of Pod broke"}})
hangs = Scenario("hangs", needs=Needs(seconds=50), hangs=True)


def passes(evidence: Any, given: Mapping[str, Any]) -> Finding:
    """Say pass."""
    return Finding(Verdict.PASS, required="nothing", observed="nothing")


def fails(evidence: Any, given: Mapping[str, Any]) -> Finding:
    """Say fail."""
    return Finding(
        Verdict.FAIL,
        required="0 members bound",
        observed="2 of 3 members bound",
        where=("Pod/x-1 on gpu-0",),
        causes=(Cause("the gang plugin is off", "switch it on"),),
    )


def does_not_apply(evidence: Any, given: Mapping[str, Any]) -> Finding:
    """Say not applicable."""
    return Finding(Verdict.NOT_APPLICABLE, required="RDMA", observed="the profile declares no RDMA")


def breaks(evidence: Any, given: Mapping[str, Any]) -> Finding:
    """Break."""
    raise ZeroDivisionError("a fault of the judge")


def unmet(evidence: Any, given: Mapping[str, Any]) -> Presupposed:
    """Observe a prerequisite to be false."""
    return Presupposed("two nodes", held=False, observed="one node")


class Fake:
    """A cluster that is a folder: running a scenario leaves a line in it."""

    def __init__(self, run: Any) -> None:
        """Open."""
        self.run = run
        self.folder = run.folder
        self.note(f"open {run.worker} {run.owner_pid}")

    def note(self, line: str) -> None:
        """Leave a line."""
        with Path("fake-cluster.log").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def path(self, scenario: Any) -> Path:
        """Return the evidence file."""
        return backend.evidence_path(self.folder, scenario.name)

    def evidence(self, scenario: Any) -> Evidence:
        """Run once, then read."""
        path = self.path(scenario)
        path.parent.mkdir(exist_ok=True)
        with filelock.FileLock(f"{path}.lock"):
            if not path.exists():
                self.note(f"run {scenario.name}")
                if scenario.hangs:
                    self.note("hanging")
                    # In slices: a signal that comes just before one long sleep is seen only after it.
                    for _ in range(1200):
                        time.sleep(0.05)
                header = {
                    "type": "HEADER",
                    "schema": 2,
                    "scenario": scenario.name,
                    "clock": "receipt",
                    "lines": 0,
                }
                path.write_text(
                    json.dumps({**header, "given": {}, **scenario.header}) + "\n", encoding="utf-8"
                )
        return ingest.read(path)

    def identity(self) -> Mapping[str, Any]:
        """Return a name."""
        return {"context": "fake"}

    def requests(self) -> Mapping[str, int]:
        """Return nothing."""
        return {}

    def close(self) -> list[str]:
        """Close."""
        self.note(f"close {self.run.worker}")
        return [line for line in os.environ.get("FAKE_LEFT_OVERS", "").split(",") if line]

    def proof(self) -> list[str]:
        """Tell how it is known that nothing is left."""
        return [f"Pod: none made by {self.run.worker}"]


def install() -> None:
    """Let every run of this process use the fake cluster, but where old evidence is judged."""

    def open_backend(run: Any) -> Any:
        if run.settings.reuse is not None:
            return backend.Reused(run.settings.reuse, run.folder)
        if os.environ.get("FAKE_REFUSES"):
            from pytest_gpucluster.provider import ProviderError

            raise ProviderError("the control plane ended with code 1 before it was ready")
        return Fake(run)

    backend.open_backend = open_backend
    if not os.environ.get("FAKE_ASKED"):
        # The clusters that profiles name are not there; only rows are tried, on the fake one.
        offered.check = lambda *_: []
