"""Payloads as a pod has them: in a folder with the files of their ConfigMap and no others."""

import os
import pathlib
import subprocess
import sys

import pytest

from pytest_gpucluster.evidence.log import payload_lines as lines
from pytest_gpucluster.workload import payload_files

LINE = ["run", "attempt", "event", "pod", "container", "t"]
"""What each line begins with, in order."""


def mounted(folder, name):
    """Write the files of a ConfigMap as a kubelet does, behind two links; returns the path of the program."""
    data = folder / "..2026_11_30"
    data.mkdir()
    (folder / "..data").symlink_to(data.name)
    for file, text in payload_files(name).items():
        (data / file).write_text(text)
        (folder / file).symlink_to(pathlib.Path("..data") / file)
    return folder / name


def run(path, *args):
    """Run a mounted program; returns what it told."""
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, path, *args], cwd="/", capture_output=True, text=True, timeout=480, check=False,
        env={**env, "GPUCLUSTER_RUN": "r1", "GPUCLUSTER_ATTEMPT": "2", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [found for line in done.stdout.splitlines() for found in lines.find(line)[0]]


@pytest.mark.parametrize(
    ("name", "args", "events"),
    [
        ("gang.py", ("env",), {"env", "argv"}),
        ("access.py", (), {"access"}),
        ("numa.py", (), {"devices"}),
        ("stall.py", (), {"place", "passed"}),
    ],
)
def test_a_mounted_program_runs(tmp_path, name, args, events):
    """It finds what it shares with others beside itself, and its lines say of which run and attempt they are."""
    told = run(mounted(tmp_path, name), *args)
    assert events <= {one["event"] for one in told}
    assert all(list(one)[: len(LINE)] == LINE and (one["run"], one["attempt"]) == ("r1", 2) for one in told)


@pytest.mark.slow
def test_a_mounted_program_that_measures_runs(tmp_path):
    """With torch, and a shared file that imports another."""
    pytest.importorskip("torch")
    small = ("--seconds=0.2", "--most=0.5", "--warm=0.05", "--window=0.015", "--cv=0.9", "--size=128")
    assert [one["event"] for one in run(mounted(tmp_path, "gemm.py"), "--cpu", *small)] == ["rank", "gemm"]
