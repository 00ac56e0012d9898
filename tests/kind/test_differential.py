"""The suite on real components, and beside it the same rows on the embedded cluster: `make test-kind`."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import amount
from tests.comparison import differences, runs, table
from tests.kind import lab

pytestmark = pytest.mark.kind

LISTED = pathlib.Path(__file__).with_name("differences.yaml")
PAGE = lab.ROOT / "docs" / "reference" / "differential.md"
SCHEDULER = "native"
"""What both sides have: gangs of Kubernetes itself, with Kueue beside them where it is installed."""
OPTIONS = {
    "embedded": ["--gpucluster-set=kueue.wait_for_pods_ready=null", "--gpucluster-set=workload.further=[]"]
}
"""The embedded cluster's Kueue waits for no pods, as the real one is shipped; kind has no controller of JobSets."""
LIMIT = 1500.0

RED = {
    "GANG-009": "fail",  # a PodGroup of Kubernetes itself never says that a gang which ran has lost a member
    "INV-007": "environment",  # the images of the kind cluster are loaded into its nodes and have no digest to pin
}
"""Rows that do not pass on Kubernetes 1.37 in kind: verdict."""
NOT_RED = ("pass", "not_applicable", "not_built", "not_run")


def begin(folder, cluster, *options):
    """Begin a run of the suite."""
    command = [
        sys.executable, "-m", "pytest", "suites", "-q", "-n", "2", "-p", "no:cacheprovider",
        f"--cluster={cluster}", f"--gpucluster-report-dir={folder}", f"--gpucluster-set=scheduler={SCHEDULER}",
        *OPTIONS.get(cluster, ()), *options,
    ]  # fmt: skip
    # What is said of a kind cluster is refused by one that is none.
    named = lab.plain_environment()
    if cluster == "kind":
        named |= {name: value for name, value in os.environ.items() if name.startswith("GPUCLUSTER_KIND")}
        named |= {"GPUCLUSTER_KIND_NAME": lab.name(os.environ.get("PYTEST_XDIST_WORKER", "master"))}
    folder.mkdir(parents=True)
    with (folder / "said").open("w") as said:
        return subprocess.Popen(command, cwd=lab.ROOT, env=named, stdout=said, stderr=said)


def end(process, folder):
    """Wait for a run and return it; whatever the verdicts are, it has to come to its end."""
    try:
        status = process.wait(LIMIT)
    finally:
        sys.stdout.write((folder / "said").read_text())
    assert status in (0, 1), f"the suite in {folder} ended with {status}"
    return runs.Run.read((folder / "latest").resolve())


def play(folder, cluster, *options):
    """Run the suite from beginning to end; it does not outlive this."""
    process = begin(folder, cluster, *options)
    try:
        return end(process, folder)
    finally:
        process.terminate()
        process.wait()


def both(folder, *options):
    """Run the suite on the kind and then on the embedded cluster: at one time each would disturb the other's windows.

    Two cores that carry both bind the members of a gang so slowly that it counts as half placed (seen).
    """
    real = play(folder / "kind", "kind", *options)
    return play(folder / "embedded", "embedded", *chosen(real)), real


def chosen(real):
    """Return the options for the rows of scenarios that kind could run: no other has anything to compare.

    The longest ones, which kind cannot run, are elastic jobs and checkpoints; `make everything` runs them here too.
    """
    return () if amount.all_of_it() else ("-k", " or ".join(runs.tried(real)))


def test_both_clusters_do_the_same(kind_lab, written, tell):
    """Same verdicts, same states, same events; what differs is on the list, and the list holds nothing else.

    On real components nothing is left open, and red is only what the real thing is known not to do. A moment that is
    not on the list has to show a second time, when its scenario is run again on both sides.
    """
    embedded, real = both(written / "differential")
    listed = differences.load(LISTED)
    reviewed = differences.review(runs.differing(embedded, real), listed, SCHEDULER)
    if reviewed.unsettled:
        rows = " or ".join(sorted({row for name in reviewed.unsettled for row in real.rows[name]}))
        again = both(written / "differential-again", "-k", rows)
        reviewed = reviewed.beside(runs.differing(*again), runs.compared(*again))
    tell("shown", table.markdown(embedded, real, reviewed, SCHEDULER))
    PAGE.write_text(table.page(embedded, real, listed, SCHEDULER), encoding="utf-8")
    red = {row: verdict for row, verdict in real.verdicts.items() if verdict not in NOT_RED}
    assert red == RED
    assert sum(verdict == "pass" for verdict in real.verdicts.values()) >= 20
    assert [str(each) for each in reviewed.unknown] == []
    assert [f"{each.what} of {each.of}: {each.text}" for each in reviewed.stale] == []
