"""A scheduler that this package does not know: its dialect is one class and one entry, and scenarios speak it."""

import dataclasses

import pytest

from pytest_gpucluster import profile, provider
from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import REGISTRY
from pytest_gpucluster.scenario import RunStore, Session
from pytest_gpucluster.workload import dialect
from pytest_gpucluster.workload.native import NativeDialect

ROWS = ("GANG-001", "GANG-002", "GANG-007")


@dataclasses.dataclass(frozen=True)
class Toy(NativeDialect):
    """Gangs as Kubernetes has them, under a name of their own and marked by a label."""

    name: str = "toy"

    def write(self, spec):
        """Return the native manifest with a label."""
        manifest = super().write(spec)
        manifest["metadata"].setdefault("labels", {})["toy/gang"] = spec.name
        return manifest


@pytest.mark.slow
def test_scenarios_are_written_for_a_scheduler_that_only_its_dialect_knows(tmp_path, monkeypatch):
    """Every scenario of gangs asks the dialect, so a new one needs no change in any of them."""
    monkeypatch.setitem(dialect._DIALECTS, "toy", lambda _: Toy())
    loaded = profile.load("embedded", cli=["scheduler=native", "bind_spread=1"])
    declared = loaded.profile.model_copy(update={"scheduler": "toy"})
    load_suites()
    rows = [REGISTRY.get(row) for row in ROWS]
    with provider.start(loaded, tmp_path / "cluster") as cluster:
        if not cluster.pods_run:
            pytest.skip(f"pods do not run here: {cluster.facts.get('pods_run_problem')}")
        with Session(cluster, declared, RunStore(tmp_path / "run-toy001")) as session:
            found = {row.id: session.evidence(row.scenario) for row in rows}
        session.check_clean()
    for row in rows:
        evidence = found[row.id]
        made = [line.object for line in evidence.lines if line.type == "ADDED" and line.kind == "Job.batch"]
        assert made
        assert all("toy/gang" in job["metadata"]["labels"] for job in made)
        assert evidence.given["scheduler"] == "toy"
        finding = decisions.decide(row, evidence)
        assert finding.verdict == "pass", finding
