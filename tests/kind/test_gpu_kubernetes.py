"""The cluster of dev/gpu-kubernetes on this machine, with GPUs that are not there: real kubelets without an engine."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.inner import QUIET
from tests.kind import lab

pytestmark = pytest.mark.kind

PACK = lab.ROOT / "dev" / "gpu-kubernetes" / "pack"
ROW = "INV-002"
"""All GPUs are offered; of gangs the row beside a planted fault tells."""
MARKS = "gang or inventory"
GROUPS = pathlib.Path("/sys/fs/cgroup")
SETTINGS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "fs/inotify/max_user_instances")
BRING_UP = 60.0
"""Seconds until all GPUs of two nodes are allocatable, as the tool tells it, on a machine that is not busy."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The tool as it is after the archives are unpacked; no cluster of it stays."""
    # Short: sockets lie below it.
    folder = tmp_path_factory.mktemp("g")
    home = folder / "home"
    environment = {
        **lab.plain_environment(), "PYTHON": sys.executable, "GPU_KUBERNETES_STATE": str(folder / "state"),
    }  # fmt: skip
    done = subprocess.run(
        [PACK, "--unpacked", home], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    def run(*arguments, **more):
        return subprocess.run(
            [home / "gpu-kubernetes", *arguments],
            env=environment, capture_output=True, text=True, check=False, timeout=300, **more,
        )  # fmt: skip

    run.command = [home / "gpu-kubernetes"]
    run.environment = environment
    run.state = folder / "state"
    yield run
    assert run("down").returncode == 0


def traces(state):
    """Return what a cluster may have left on this machine."""
    return {
        "links": [
            each.name for each in pathlib.Path("/sys/class/net").iterdir() if each.name == "gpu-kubernetes"
        ],
        "groups": [
            str(each) for each in (*GROUPS.glob("gpu-kubernetes*"), *GROUPS.glob("*/gpu-kubernetes*"))
        ],
        "mounts": [
            line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if str(state) in line
        ],
        "processes": [
            each.parent.name
            for each in pathlib.Path("/proc").glob("[0-9]*/environ")
            if _of(each, f"GPU_KUBERNETES_STATE={state}".encode())
        ],
        "settings": {name: (pathlib.Path("/proc/sys") / name).read_text() for name in SETTINGS},
    }


def _of(environ, mark):
    try:
        return mark in environ.read_bytes() and int(environ.parent.name) != os.getpid()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


@pytest.fixture
def before(server):
    """What was there before the cluster."""
    assert server("down").returncode == 0
    found = traces(server.state)
    assert {name: found[name] for name in ("links", "groups", "mounts", "processes")} == {
        "links": [], "groups": [], "mounts": [], "processes": [],
    }  # fmt: skip
    return found


def test_two_nodes_and_a_user_who_may_do_little(server, before, written, tell):
    """All GPUs are allocatable in time; rows pass as on kind; a second cluster is refused; nothing is left."""
    up = server("up", "--devices=fake", "--nodes=2")
    assert up.returncode == 0, up.stderr
    tell("shown", up.stdout)
    (allocatable,) = [line for line in up.stdout.splitlines() if "allocatable" in line]
    assert float(allocatable.split()[0]) < BRING_UP * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    again = server("up", "--devices=fake")
    assert (again.returncode, again.stderr) == (
        1, f"gpu-kubernetes: a cluster runs in {server.state} already: `down` ends it\n",
    )  # fmt: skip
    sections = [f"--add={server.command[0].parent / 'declared' / name}.yaml" for name in ("common", "fake")]
    declared = server("declare", "-m", MARKS, *sections)
    assert declared.returncode == 0, declared.stderr
    reports = written / "gpu-kubernetes"
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "suites", "-q", *QUIET, "--cluster=prod-a", "-k", ROW,
            f"--gpucluster-profiles={declared.stdout.strip()}", f"--gpucluster-report-dir={reports}",
        ],
        cwd=lab.ROOT, env=lab.plain_environment(), capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    sys.stdout.write(done.stdout + done.stderr)
    report = json.loads((reports / "latest" / "report.json").read_text(encoding="utf-8"))
    assert {row["id"]: row["verdict"] for row in report["requirements"]} == {ROW: "pass"}
    a_plugin_is_killed_during_a_gang(server, written)
    assert server("down").returncode == 0
    assert traces(server.state) == before
    assert not server.state.exists()


def a_plugin_is_killed_during_a_gang(server, written):
    """What was killed is the plugin's process on this machine, and the gang runs on."""
    out = written / "planted"
    done = server("plant", "--only=plugin-restarted", f"--suite={lab.ROOT / 'suites'}", f"--out={out}")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = json.loads((out / "planted.json").read_text(encoding="utf-8"))
    assert (line["row"], line["verdict"], line["result"]) == ("GANG-001", "pass", "as expected")
    assert re.search(
        r"process (\d+), was killed while Pod/\S+ ran; process (?!\1)\d+ took its place", line["shown"]
    )
    kubelet = subprocess.run(
        [sys.executable, "-c", KUBELET], env={**server.environment, "PYTHONPATH": str(PACK.parent)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert kubelet.stdout.strip() == "kubelet", kubelet.stderr


KUBELET = """
from gpu_server import places, processes
first = int((places.STATE / "cluster.pid").read_text().split()[0])
inner = int((places.STATE / "gpu-1-kubelet.pid").read_text())
print(processes.of_cluster(inner, first).command())
"""
"""Looks up a program by the number that it has inside."""


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        ("namespaces", signal.SIGKILL),
        ("the API server is ready", signal.SIGKILL),
        ("namespaces", signal.SIGTERM),
    ],
)
def test_killed_in_the_middle_it_leaves_no_process(server, before, moment, how):
    """Whoever brings it up is killed: the cluster ends with it. `down` takes back the rest, or it does itself."""
    process = subprocess.Popen(
        [*server.command, "up", "--devices=fake"], env=server.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        if moment == "namespaces":
            until((server.state / "cluster.pid").exists, "the first process")
        else:
            assert next((line for line in process.stdout if moment in line), None)
        process.send_signal(how)
        said = process.stderr.read()
    if how is signal.SIGTERM:
        assert (process.returncode, said) == (
            1,
            "gpu-kubernetes: interrupted; what was begun was taken back\n",
        )
        assert traces(server.state) == before
    until(lambda: not traces(server.state)["processes"], "the end of all processes")
    assert server("down").returncode == 0
    assert traces(server.state) == before


def until(holds, what, seconds=30):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)
