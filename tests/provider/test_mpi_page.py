"""The documented MPI manifest, as the how-to prints it, on the embedded cluster: only its image is another one."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.provider import PODS_RUN
from pytest_gpucluster.scenario import Handle, Live, Needs, RunStore, Scenario, Session, Stage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "jobs-over-mpi.md"
HELLO = re.compile(r"^Hello world from processor (\S+), rank (\d) out of 2 processors$")


def manifest() -> dict:
    """Return the Job that the page prints."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return next(job for job in map(yaml.safe_load, blocks) if "kind" in job)


def over(job: Handle) -> Callable[[Live], bool]:
    """Report whether the launcher succeeded and both workers are being deleted; their shells take no TERM for 30 s."""

    def check(live: Live) -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in live.pods_of(job)}
        ended = (pods.get("mpi-gang-mpimaster-0") or {}).get("status", {}).get("phase") == "Succeeded"
        workers = [pod for name, pod in pods.items() if "mpiworker" in name]
        return ended and all("deletionTimestamp" in pod["metadata"] for pod in workers)

    return check


@pytest.mark.slow
def test_the_documented_job_greets_from_each_rank_and_then_ends(tmp_path):
    """Every rank greets from a worker of its own, and the launcher's end is the Job's."""
    loaded = provider.completed(profile.load("embedded"))

    def run(stage: Stage) -> None:
        job = manifest()
        del job["metadata"]["namespace"]
        made = stage.submit(job)
        stage.follow(made)
        stage.wait("the launcher has ended, and the workers are to go", over(made), budget="run")
        stage.logs(made)

    needs = Needs(pods_run=True, permissions=("create configmaps", "get pods/log"))
    with provider.start(loaded, tmp_path / "c") as cluster:
        if PODS_RUN not in cluster.features:
            pytest.skip(f"pods do not run here: {cluster.facts.get('pods_run_problem')}")
        with Session(cluster, loaded.profile, RunStore(tmp_path / "r")) as session:
            evidence = session.evidence(Scenario("documented", "the documented Job over MPI", run, needs))
    said = [str(line.data["line"]) for line in evidence.lines if line.type == "LOG"]
    greeted = sorted(match.groups() for match in map(HELLO.match, said) if match)
    assert greeted == [("mpi-gang-mpiworker-0", "0"), ("mpi-gang-mpiworker-1", "1")], said
    phases = [
        line.object["status"]["state"]["phase"]
        for line in evidence.lines
        if line.kind == "Job.batch.volcano.sh" and "state" in line.object.get("status", {})
    ]
    assert phases[-1] == "Completing"
    assert not evidence.notes("timed-out")
