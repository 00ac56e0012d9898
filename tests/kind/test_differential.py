"""The suite on real components, and beside it the same rows on the embedded cluster: `make test-kind`."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.comparison import differences, runs, table

pytestmark = pytest.mark.kind

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTED = pathlib.Path(__file__).with_name("differences.yaml")
PAGE = ROOT / "docs" / "reference" / "differential.md"
SCHEDULER = "native"
"""What both sides have: gangs of Kubernetes itself, with Kueue beside them where it is installed."""
NAME = os.environ.get("GPUCLUSTER_KIND_NAME", "gpucluster-tests")
AS_SHIPPED = "--gpucluster-set=kueue.wait_for_pods_ready=null"
LIMIT = 1500.0

RED = {
    "GANG-009": "a PodGroup of Kubernetes itself never says that a gang which ran has lost a member",
}
"""Rows that Kubernetes 1.37 does not fulfil, on either side, and why."""
NOT_RED = ("pass", "not_applicable", "not_built", "not_run")


def run_suite(folder, cluster, *options):
    """Run the suite and return the run; whatever the verdicts are, it has to come to its end."""
    command = [
        sys.executable, "-m", "pytest", "suites", "-q", "-n", "2", "-p", "no:cacheprovider",
        f"--cluster={cluster}", f"--gpucluster-report-dir={folder}", f"--gpucluster-set=scheduler={SCHEDULER}",
        *options,
    ]  # fmt: skip
    # What is said of a kind cluster is refused by one that is none.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GPUCLUSTER_KIND")
    }
    if cluster == "kind":
        environment = {**os.environ, "GPUCLUSTER_KIND_NAME": NAME}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    sys.stdout.write(done.stdout + done.stderr)
    assert done.returncode in (0, 1), f"the suite on {cluster} ended with {done.returncode}"
    return runs.Run.read((folder / "latest").resolve())


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The suite on a kind cluster that the provider makes, or finds by its name."""
    return run_suite(tmp_path_factory.mktemp("kind"), "kind")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """The same on the embedded cluster; its Kueue waits for no pods, as the real one is shipped."""
    return run_suite(tmp_path_factory.mktemp("embedded"), "embedded", AS_SHIPPED)


def test_every_row_is_decided_on_real_components(real):
    """Nothing is left open, and red is only what the real thing is known not to do."""
    red = {row: verdict for row, verdict in real.verdicts.items() if verdict not in NOT_RED}
    assert red == dict.fromkeys(RED, "fail")
    assert sum(verdict == "pass" for verdict in real.verdicts.values()) >= 20


def test_both_clusters_do_the_same(embedded, real, tmp_path, show):
    """Same verdicts, same states, same events; what differs is on the list, and the list holds nothing else.

    A moment that is not on the list has to show a second time, when its scenario is run again on both sides.
    """
    listed = differences.load(LISTED)
    reviewed = differences.review(runs.differing(embedded, real), listed, SCHEDULER)
    if reviewed.unsettled:
        rows = " or ".join(sorted({row for name in reviewed.unsettled for row in real.rows[name]}))
        again = (
            run_suite(tmp_path / "embedded", "embedded", AS_SHIPPED, "-k", rows),
            run_suite(tmp_path / "kind", "kind", "-k", rows),
        )
        reviewed = reviewed.beside(runs.differing(*again), runs.compared(*again))
    show(table.markdown(embedded, real, reviewed, SCHEDULER))
    PAGE.write_text(table.page(embedded, real, listed, SCHEDULER), encoding="utf-8")
    assert [str(each) for each in reviewed.unknown] == []
    assert [f"{each.what} of {each.of}: {each.text}" for each in reviewed.stale] == []
