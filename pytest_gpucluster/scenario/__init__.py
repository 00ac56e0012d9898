"""Put a workload through its life: a scenario is declared, played once a run, cleaned up after, and frozen.

From a script, without pytest (profile and cluster are what `pytest_gpucluster.profile` and `.provider` give)::

    from pytest_gpucluster.scenario import RunStore, Scenario, Session

    def run(stage):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hello"},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "python",
                     "command": ["python3", "-c", "print('hello')"]}]},
        }
        handle = stage.submit(pod)
        stage.wait(
            "the pod to succeed",
            lambda live: any(p.get("status", {}).get("phase") == "Succeeded" for p in live.pods_of(handle)),
            budget="run",
        )
        stage.logs(handle)

    hello = Scenario("hello", "A pod says hello.", run, kinds=("Pod", "Event"))
    with Session(cluster, profile, RunStore("runs/one")) as session:
        evidence = session.evidence(hello)
    print([line.data["line"] for line in evidence.logs()], session.requests, session.left_overs)
"""

from pytest_gpucluster.scenario.live import Live
from pytest_gpucluster.scenario.not_applicable import NotApplicable
from pytest_gpucluster.scenario.openstage import OpenStage, StageStands, Unmet
from pytest_gpucluster.scenario.session import Session
from pytest_gpucluster.scenario.slots import SlotPool
from pytest_gpucluster.scenario.spec import (
    KINDS,
    NO_FURTHER,
    Needs,
    Scenario,
    Way,
    tried,
    undeclared_workload,
)
from pytest_gpucluster.scenario.stage import Handle, Stage
from pytest_gpucluster.scenario.store import RunStore
from pytest_gpucluster.scenario.sweep import Swept, sweep

__all__ = [
    "KINDS",
    "NO_FURTHER",
    "Handle",
    "Live",
    "Needs",
    "NotApplicable",
    "OpenStage",
    "RunStore",
    "Scenario",
    "Session",
    "SlotPool",
    "Stage",
    "StageStands",
    "Swept",
    "Unmet",
    "Way",
    "sweep",
    "tried",
    "undeclared_workload",
]
