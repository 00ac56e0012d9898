"""Before a run makes anything on a cluster that exists, it says what it will do, and asks where somebody can answer."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.inner import QUIET
from tests.plugin.conftest import PLUGIN

pytest_plugins = ["pytester"]

PROFILE = """\
connection: {kubeconfig: kubeconfig, context: there}
scheduler: volcano
queue: default
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
images: {python: p, torch: t}
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: there, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
contexts: [{name: there, context: {cluster: there, user: me}}]
"""
BLOCK = [
    "gpucluster: before anything is made on there:",
    "  context     there (*kubeconfig)",
    "  rows        2 from 2 scenarios",
    "  uses        at most 2 nodes and 4 nvidia.com/gpu at the same time",
    "  costs       about 40 GPU-seconds, 12 s; *",
    "  limit       at most 3 nodes at the same time (--gpucluster-max-nodes)",
    "  others      makes its own namespace for each worker and removes it",
    "              holds at most 4 nvidia.com/gpu at the same time",
    "              changes the status of at most 2 nodes for each scenario",
    "              restarts no node",
]


@pytest.fixture
def there(project):
    """Return a project with a profile of a cluster that exists, and rows."""
    folder = project.pytester.path
    (folder / "clusters").mkdir()
    (folder / "clusters" / "there.yaml").write_text(PROFILE, encoding="utf-8")
    (folder / "clusters" / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    project.rows("GANG-001 calm passes", "GANG-002 greedy passes")
    return project


def at_a_terminal(project, typed, *args):
    """Run the project at a terminal of its own and type an answer when asked; return exit status and output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pytest", *PLUGIN, *QUIET, "--cluster=there", *args]
    run = subprocess.Popen(
        command, cwd=project.pytester.path, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    out, answered, until = b"", False, time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                out += os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
        if b"[y/N]" in out and not answered:
            os.write(ours, typed)
            answered = True
    os.close(ours)
    return run.wait(10), out.decode()


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_without_a_terminal_the_block_is_printed_and_the_run_goes_on(there, workers):
    """A pipeline has nobody to ask."""
    result = there.run_apart("--cluster=there", "--gpucluster-max-nodes=3", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(BLOCK)
    assert result.stdout.str().count("before anything is made") == 1
    assert "run greedy" in there.log
    assert not list(there.latest.parent.glob("*.before")) + list(there.latest.parent.glob(".*.before"))


@pytest.mark.parametrize(
    ("typed", "status", "workers"),
    [(b"Yes\n", 0, "-n0"), (b"\n", 2, "-n0"), (b"\x04", 2, "-n0"), (b"y\n", 0, "-n1"), (b"n\n", 2, "-n1")],
)
def test_at_a_terminal_only_a_yes_lets_it_begin(there, typed, status, workers):
    """Anything else ends the run with 2, and nothing was made."""
    found, out = at_a_terminal(there, typed, workers)
    assert found == status, out
    assert "May this run begin? [y/N]" in out
    assert bool([line for line in there.log if line.startswith(("open", "run"))]) == (status == 0)
    assert ("nothing was made on the cluster" in out) == (status != 0)


@pytest.mark.parametrize("how", ["option", "ini", "environment"])
def test_yes_is_told_beforehand(there, monkeypatch, how):
    """With the option, its ini or its variable nobody is asked; the block is printed all the same."""
    if how == "ini":
        path = there.pytester.path / "pytest.toml"
        path.write_text(path.read_text(encoding="utf-8") + "gpucluster_yes = true\n", encoding="utf-8")
    if how == "environment":
        monkeypatch.setenv("GPUCLUSTER_YES", "1")
    found, out = at_a_terminal(there, b"n\n", *(["--gpucluster-yes"] if how == "option" else []))
    assert found == 0
    assert "[y/N]" not in out
    assert "before anything is made on there" in out


@pytest.mark.parametrize("args", [("--gpucluster-plan",), ("--collect-only",), ("--cluster=embedded",)])
def test_what_makes_nothing_there_asks_nothing(there, args):
    """A plan, a list, and a cluster that ends with its run."""
    result = there.run("--cluster=there", *args)
    assert result.ret == 0
    assert "before anything is made" not in result.stdout.str()
