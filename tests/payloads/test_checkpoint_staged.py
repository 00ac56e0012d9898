"""The way of a GPU's asynchronous save, walked on CPUs: bf16 weights without moments, copied by a stager of its own.

What only a GPU has is left out: pinned memory, and a copy that does not block. The stager's thread, the two futures of
the save, and the step that waits for the copy are the same.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from pytest_gpucluster.evidence.log import payload_lines as lines

pytestmark = pytest.mark.long("torch")

FOLDER = pathlib.Path(__file__).parents[2] / "payloads"
SIZE = ("--layers=2", "--width=512", "--format=bf16", "--cpu", "--within=60")
STAGED = """
import sys
sys.path.insert(0, {payloads!r})
import checkpoint
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

def stager(run):
    made = DefaultStager(StagingOptions(False, False, use_async_staging=True, use_non_blocking_copy=False))
    made.stage({{"app": run.trainer.state()}}).result()
    return made

checkpoint.Run.stager = stager
sys.exit(checkpoint.main())
"""


def told_by(program, *args, ranks=1):
    """Run a program on some ranks; returns what it told."""
    world = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}") if ranks > 1 else ()
    done = subprocess.run(
        [sys.executable, *world, str(program), *args],
        capture_output=True, text=True, check=False, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [found for line in done.stdout.splitlines() for found in lines.find(line)[0]]


def test_what_a_stager_copied_is_the_state_at_which_the_save_was_asked_for(tmp_path):
    """Each layer changes in later steps, also in bf16; what is loaded is what was there when the save was asked for."""
    pytest.importorskip("torch", reason="the payloads compute with torch")
    program, folder = tmp_path / "staged.py", tmp_path / "kept"
    program.write_text(STAGED.format(payloads=str(FOLDER)), encoding="utf-8")
    told = told_by(program, f"--folder={folder}", *SIZE, "--beside", "--keep", "--raw=100000", ranks=2)
    saves = [one for one in told if one["event"] == "saved" and one["how"] == "async"]
    assert {one["rank"] for one in saves} == {0, 1}
    for one in saves:
        assert all(asked != later for asked, later in zip(one["digests"], one["later"], strict=True))
    loaded = {
        one["name"]: one for one in told_by(FOLDER / "checkpoint_load.py", f"--folder={folder}", *SIZE)
        if one["event"] == "loaded"
    }  # fmt: skip
    assert loaded["step-20"]["problem"] == ""
    assert loaded["step-20"]["digests"] == saves[0]["digests"]
