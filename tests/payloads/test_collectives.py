"""The payload of collectives: every element counts, everybody meets everybody, and a stall ends with a name."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import amount

pytestmark = pytest.mark.long("torch")

PERIOD = 8191
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
PROGRAM = pathlib.Path(__file__).parents[2] / "payloads" / "collectives.py"
torch: Any = None
payload: Any = None
CPU: Any = None


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import torch when the first of these tests runs: it takes as long as the collection of all others."""
    global torch, payload, CPU  # noqa: PLW0603 - what a module imports at its top
    torch = pytest.importorskip("torch", reason="the payload computes with torch")
    payload = importlib.import_module("payloads.collectives")
    CPU = torch.device("cpu")


def test_all_of_the_payload_is_tried():
    """What is drawn and listed here before the payload is imported is the payload's own."""
    assert (payload.PERIOD, payload.COLLECTIVES) == (PERIOD, COLLECTIVES)
    assert pathlib.Path(payload.__file__).samefile(PROGRAM)


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("2G", 2 << 30), ("1K,1M", None)]
)
def test_sizes_are_read_as_people_write_them(text, size):
    """Bytes with a letter for their unit; a list of them."""
    if size is None:
        assert payload.sizes_of(text) == [1024, 1 << 20]
    else:
        assert payload.size_of(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5M", "0", "x"])
def test_what_is_no_size_is_refused(text):
    """An error that says what a size looks like."""
    with pytest.raises(payload.argparse.ArgumentTypeError, match="is no size such as"):
        payload.size_of(text)


@given(st.integers(1, 3 * PERIOD), st.integers(0, 2**31))
@amount.examples(60)
def test_one_wrong_element_anywhere_is_counted(count, where):
    """No element is left out, whatever the length; NaN is wrong too."""
    pattern = payload.row(3, 7, CPU)
    tensor = torch.empty(count)
    payload.fill(tensor, pattern)
    assert payload.wrong_in(tensor, pattern) == 0
    tensor[where % count] = float("nan")
    assert payload.wrong_in(tensor, pattern) == 1


@given(st.integers(0, 500), st.integers(0, 500))
@amount.examples(60)
def test_ranks_are_told_apart_by_what_they_send(one, other):
    """Two ranks never send the same, and a sum over many stays exact."""
    same = torch.equal(payload.row(one, 1, CPU), payload.row(other, 1, CPU))
    assert same == (one == other)
    assert float(payload.row(one, 1, CPU).max()) < 1021


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_everybody_meets_everybody_once(count):
    """Round by round, nobody twice in a round."""
    rounds = payload.matches(count)
    met = [tuple(sorted(pair)) for pairs in rounds for pair in pairs]
    assert sorted(met) == sorted({(a, b) for a in range(count) for b in range(a + 1, count)})
    assert all(len({who for pair in pairs for who in pair}) == 2 * len(pairs) for pairs in rounds)


class Fake:
    """A world whose collectives are done here, for ranks that would have to be processes."""

    def __init__(self, monkeypatch, rank, size, spoil=None):
        """Replace the collectives; `spoil` changes a result."""
        self.world = types.SimpleNamespace(rank=rank, size=size, device=CPU, gpu=False)
        self.spoil = spoil or (lambda _: None)
        self.salt = 5
        for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
            monkeypatch.setattr(payload.dist, name, getattr(self, name))

    def _row(self, rank, salt, count):
        tensor = torch.empty(count)
        payload.fill(tensor, payload.row(rank, salt, CPU))
        return tensor

    def all_reduce(self, tensor):
        """Add what the others would send."""
        for rank in range(self.world.size):
            if rank != self.world.rank:
                tensor += self._row(rank, self.salt, tensor.numel())
        self.spoil(tensor)

    def all_gather_into_tensor(self, into, out):
        """Put together what all would send."""
        parts = [self._row(rank, self.salt, out.numel()) for rank in range(self.world.size)]
        parts[self.world.rank] = out
        into.copy_(torch.cat(parts))
        self.spoil(into)

    def reduce_scatter_tensor(self, into, out):
        """Add what all would send here."""
        mine = self.world.rank
        into.copy_(out.view(self.world.size, -1)[mine])
        for rank in range(self.world.size):
            if rank != mine:
                into += self._row(rank, self.salt + mine + 1, into.numel())
        self.spoil(into)

    def all_to_all_single(self, into, out):
        """Take from all what they would send here."""
        mine, each = self.world.rank, out.numel() // self.world.size
        parts = [self._row(rank, self.salt + mine + 1, each) for rank in range(self.world.size)]
        parts[mine] = out.view(self.world.size, -1)[mine]
        into.copy_(torch.cat(parts))
        self.spoil(into)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("size", [8, 4096, 100_000])
def test_a_right_collective_has_no_wrong_element(monkeypatch, name, size):
    """On each of three ranks."""
    for rank in range(3):
        fake = Fake(monkeypatch, rank, 3)
        assert payload.Op(fake.world, name, size).check(5) == 0


def test_sizes_are_never_below_what_was_asked_for(monkeypatch):
    """24 ranks do not divide 1 GiB: a little more is sent."""
    for ranks in (1, 3, 7, 24):
        world = types.SimpleNamespace(rank=0, size=ranks, device=CPU, gpu=False)
        op = payload.Op(world, "all_gather", 1 << 20)
        assert 1 << 20 <= op.size < (1 << 20) + 4 * ranks
        assert op.size % (4 * ranks) == 0


def _swap(tensor):
    """Exchange the parts of two ranks."""
    parts = tensor.view(3, -1)
    parts[[0, 1]] = parts[[1, 0]]


def _flip(tensor):
    tensor[tensor.numel() // 2] += 1


@pytest.mark.parametrize("name", COLLECTIVES)
def test_one_wrong_element_of_a_collective_is_counted(monkeypatch, name):
    """One element of the result is off by one."""
    fake = Fake(monkeypatch, 1, 3, _flip)
    assert payload.Op(fake.world, name, 60_000).check(5) == 1


@pytest.mark.parametrize("name", ["all_gather", "all_to_all"])
def test_parts_that_went_astray_are_wrong(monkeypatch, name):
    """What came from one rank lies where that of another belongs."""
    fake = Fake(monkeypatch, 2, 3, _swap)
    assert payload.Op(fake.world, name, 60_000).check(5) > 1000


def test_a_collective_that_did_nothing_is_wrong(monkeypatch):
    """The buffer still has what it had before."""
    fake = Fake(monkeypatch, 0, 3)
    op = payload.Op(fake.world, "all_gather", 4096)
    monkeypatch.setattr(payload.dist, "all_gather_into_tensor", lambda *_: None)
    assert op.check(5) == op.into.numel()


def test_percentiles_and_figures_follow_their_definitions():
    """Nearest rank; bandwidth is of the mean."""
    each = [n / 1000 for n in range(1, 101)]
    told = payload.figures(each, 0.05, 10**9, 1.5)
    assert (told["p50"], told["p90"], told["p99"], told["min"]) == (50000.0, 90000.0, 99000.0, 1000.0)
    assert (told["algbw"], told["busbw"], told["iters"]) == (20.0, 30.0, 100)


def test_every_line_of_many_results_is_one_atomic_write(monkeypatch):
    """Numbered parts, each below the size up to which writes do not mix."""
    written = []
    monkeypatch.setattr(payload.os, "write", lambda _, data: written.append(data) or len(data))
    result = {"collective": "reduce_scatter", **payload.figures([123.456789] * 3, 98765.4321, 1 << 40, 1.999)}
    world = types.SimpleNamespace(who=lambda: {"rank": 100000, "host": "h" * 63, "node": "n" * 63})
    payload.tell("measured", world, [{**result, "wrong": 10**9}] * 100, first_pod=123456.789)
    lines = [json.loads(line.decode().partition(" ")[2]) for line in written]
    assert all(len(line) < payload.ATOMIC for line in written)
    assert sum(len(line["results"]) for line in lines) == 100
    assert [line["part"] for line in lines] == list(range(1, lines[0]["parts"] + 1))


def run(*args, ranks=2):
    """Run the payload by torchrun; returns exit code and what was said."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GPUCLUSTER_DEVICES": "a@0,b@1"}
    done = subprocess.run(
        [*command, str(PROGRAM), *args], capture_output=True, text=True, check=False, env=env, timeout=120
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPUCONF1 ")]
    return done.returncode, [json.loads(line.partition(" ")[2]) for line in lines]


def test_two_ranks_measure_over_gloo():
    """Each says who it is, what it measured of each collective and of its peer, and that it is done."""
    code, said = run("--device=cpu", "--budget=0.2", "--cpu-sizes=1K", "--least=2")
    assert code == 0
    assert {(one["event"], one["rank"]) for one in said} == {
        (event, rank) for event in ("who", "measured", "pairs", "done") for rank in (0, 1)
    }
    for one in said:
        if one["event"] == "who":
            assert one["uuid"] == "ab"[one["local_rank"]]
        if one["event"] == "measured":
            assert [result["collective"] for result in one["results"]] == list(payload.COLLECTIVES)
            assert {result["wrong"] for result in one["results"]} == {0}
            assert one["first_process"] > 0


def test_a_rank_that_stays_outside_is_named_within_the_bound():
    """Both ranks end by themselves: the one that waits, and the one that is waited for."""
    code, said = run("--device=cpu", "--stall=1", "--bound=2")
    assert code != 0
    stalled = {one["rank"]: one for one in said if one["event"] == "stalled"}
    assert {rank: one["absent"] for rank, one in stalled.items()} == {0: [1], 1: [1]}
    assert {rank: one["entered"] for rank, one in stalled.items()} == {0: True, 1: False}
    assert all(2 <= one["waited"] < 10 and one["collective"] == "all_reduce" for one in stalled.values())


def test_a_gpu_that_is_not_there_is_said():
    """A rank that is to have a GPU and sees none says so and ends."""
    if torch.cuda.device_count():
        pytest.skip("this machine has GPUs")
    code, said = run("--device=gpu", ranks=1)
    assert code != 0
    assert [one["event"] for one in said] == ["failed"]
    assert "no device of its own" in said[0]["error"]
