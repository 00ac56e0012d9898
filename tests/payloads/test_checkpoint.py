"""The payloads that save, load, kill and flush checkpoints: what they tell of good volumes and of bad ones."""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest

from pytest_gpucluster.evidence.log import payload_lines as lines
from pytest_gpucluster.judge.checkpoint import resharding

pytestmark = pytest.mark.long("torch")

FOLDER = pathlib.Path(__file__).parents[2] / "payloads"
SMALL = ("--layers=3", "--width=64", "--format=fp32", "--moments", "--cpu", "--within=60")
torch: Any = None
model: Any = None
storage: Any = None


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import torch when the first of these tests runs."""
    global torch, model, storage  # noqa: PLW0603 - what a module imports at its top
    torch = pytest.importorskip("torch", reason="the payloads compute with torch")
    sys.path.insert(0, str(FOLDER))
    model, storage = (importlib.import_module(name) for name in ("checkpoint_model", "checkpoint_storage"))
    yield
    sys.path.remove(str(FOLDER))


def run(name, *args, ranks=1, before=()):
    """Run a payload on some ranks; returns exit code and what it told."""
    world = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}") if ranks > 1 else ()
    done = subprocess.run(
        [*before, sys.executable, *world, str(FOLDER / f"{name}.py"), *args],
        capture_output=True, text=True, check=False, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert all(len(line) < 4096 for line in done.stdout.splitlines())
    return done.returncode, [found for line in done.stdout.splitlines() for found in lines.find(line)[0]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder with checkpoints of two ranks, and what these told."""
    folder = tmp_path_factory.mktemp("checkpoints")
    code, told = run(
        "checkpoint", f"--folder={folder}", *SMALL, "--beside", "--keep", "--raw=100000", ranks=2
    )
    assert code == 0, told
    return folder, told


def load(folder, *more):
    """Load all checkpoints of a folder by one rank; returns what it told of each."""
    code, told = run("checkpoint_load", f"--folder={folder}", *SMALL, *more)
    assert code == 0, told
    return {one["name"]: one for one in told if one["event"] == "loaded"}


def copy_of(saved, tmp_path, name):
    """Return a copy of a checkpoint, to be broken."""
    return pathlib.Path(shutil.copytree(saved[0] / "step-10", tmp_path / name))


def test_each_rank_writes_its_part_and_another_world_loads_the_same_bits(saved):
    """Parts add up to the state; digests of both checkpoints are the same on one rank; memory hardly grows."""
    folder, told = saved
    sync = [one for one in told if one["event"] == "saved" and one["how"] == "sync"]
    assert sorted(name for one in sync for name in one["files"]) == ["__0_0.distcp", "__1_0.distcp"]
    assert sum(one["own"] for one in sync) == sync[0]["model"] == 3 * 64 * 64 * 4 * 3
    found = load(folder)
    for one in told:
        if one["event"] == "saved":
            assert found[f"step-{one['step']}"]["digests"] == one["digests"]
            assert found[f"step-{one['step']}"]["step"] == one["step"]


def test_a_save_beside_training_holds_the_step_at_which_it_was_asked_for(saved):
    """Training went on, so that later digests differ."""
    one = next(one for one in saved[1] if one["event"] == "saved" and one["how"] == "async")
    assert one["digests"] != one["later"]
    paused = [one for one in saved[1] if one["event"] == "paused"]
    assert {one["rank"] for one in paused} == {0, 1}
    assert all(one["longest"] >= one["call"] for one in paused)


def test_a_digest_sees_a_bit_and_an_exchange(saved, tmp_path):
    """A single bit, and two elements that change their places, give another digest; the split does not."""
    del saved, tmp_path
    one = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    swapped = one[[1, 0, 2, 3]]
    bit = one.clone()
    bit.view(torch.int32)[2, 1] ^= 1
    sums = {model.own_sum(tensor, 7) for tensor in (one, swapped, bit)}
    assert len(sums) == 3
    assert model.own_sum(one, 7) != model.own_sum(one, 8)


def test_broken_checkpoints_are_told_and_the_others_load(saved, tmp_path):
    """Whatever is wrong with one folder is said of it; nothing is raised, and nothing else is lost."""
    paths = [copy_of(saved, tmp_path, f"step-{number}") for number in (11, 12, 13, 14, 15)]
    missing, cut, swapped, unfinished, _ = paths
    (missing / "__1_0.distcp").unlink()
    os.truncate(cut / "__1_0.distcp", (cut / "__1_0.distcp").stat().st_size // 2)
    (swapped / "__0_0.distcp").rename(swapped / "x")
    (swapped / "__1_0.distcp").rename(swapped / "__0_0.distcp")
    (swapped / "x").rename(swapped / "__1_0.distcp")
    (unfinished / ".metadata").unlink()
    found = load(tmp_path)
    right = next(one["digests"] for one in saved[1] if one["event"] == "saved" and one["how"] == "sync")
    causes = {name: resharding.of_error(one["problem"]) for name, one in found.items() if one["problem"]}
    assert causes["step-11"] == resharding.MISSING
    assert causes["step-12"] == resharding.CUT, found["step-12"]["problem"]
    assert found["step-13"]["problem"] or found["step-13"]["digests"] != right
    assert causes["step-14"] == resharding.UNFINISHED
    assert found["step-15"]["digests"] == right


def test_a_checkpoint_of_another_model_is_told(saved):
    """It is of another shape: the error says so, and the cause names the model."""
    found = load(saved[0], "--width=32")
    assert resharding.of_error(found["step-10"]["problem"]) == resharding.OTHER_MODEL, found["step-10"][
        "problem"
    ]


def test_a_full_volume_and_a_closed_one_are_told():
    """On a small tmpfs the save fails for want of room; on one that is mounted read-only for that."""
    for options, word in (("size=100k", "No space left"), ("ro,size=9m", "Read-only file system")):
        script = f'mount -t tmpfs -o {options} x /mnt && exec "$@"'
        before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")
        code, told = run("checkpoint", "--folder=/mnt/a", *SMALL, before=before)
        failed = [one for one in told if one["event"] == "failed"]
        assert (code, len(failed)) == (1, 1), told
        assert word in failed[0]["error"]


def test_what_is_on_memory_cannot_be_dropped_and_what_is_on_a_disk_can(tmp_path):
    """Pages of a file are counted by the kernel; those of a tmpfs stay."""
    memory = pathlib.Path("/dev/shm") / f"gpucluster-test-{os.getpid()}"
    try:
        for path in (tmp_path / "disk", memory):
            times, check = storage.raw_write(path, 3_000_000, 1)
            assert min(times) >= 0
            assert storage.raw_read(path)[1] == check
            assert storage.resident(path) > 0
        assert storage.drop([memory]) > 0
        if storage.mount(tmp_path)["fs"] != "tmpfs":
            assert storage.drop([tmp_path / "disk"]) == 0
    finally:
        memory.unlink(missing_ok=True)


def test_kills_leave_the_last_complete_checkpoint(tmp_path):
    """After each kill `latest` names a folder that loads with what was saved."""
    code, told = run(
        "checkpoint_kill", f"--folder={tmp_path}", "--layers=2", "--width=256", "--rounds=2", "--seed=3"
    )
    rounds = [one for one in told if one["event"] == "killed"]
    assert (code, len(rounds)) == (0, 3), told
    assert [one["killed"] for one in rounds] == [[], [0, 1], [0]]
    for one in rounds:
        held = one["look"]["found"][one["look"]["latest"]]
        assert held["marked"]
        assert held["digests"] == one["digests"][str(held["step"])]
    assert list(tmp_path.iterdir()) == []


def test_a_flush_copies_the_mark_last_and_says_what_is_missing(tmp_path):
    """The node with the mark waits for the files of others; when they do not come it says which, and leaves no mark."""
    local, durable = tmp_path / "local" / "step-7", tmp_path / "durable"
    local.mkdir(parents=True)
    durable.mkdir()
    (local / "__0_0.distcp").write_bytes(b"mine")
    (local / ".metadata").write_bytes(b"mark")
    files = {"__0_0.distcp": 4, "__1_0.distcp": 6, ".metadata": 4}
    (local / "MANIFEST.json").write_text(json.dumps({"files": files, "at": time.monotonic()}))
    args = (f"--local={local.parent}", f"--durable={durable}", "--wait=5", "--within=0.3")
    code, (told,) = run("checkpoint_flush", *args)
    assert (code, told["ok"], told["missing"]) == (1, False, ["__1_0.distcp"])
    assert not (durable / "step-7" / ".metadata").exists()
    (durable / "step-7" / "__1_0.distcp").write_bytes(b"theirs")
    code, (told,) = run("checkpoint_flush", *args)
    assert (code, told["ok"], told["missing"]) == (0, True, [])
    assert (durable / "latest").read_text() == "step-7"
    assert (durable / "step-7" / ".metadata").read_bytes() == b"mark"
