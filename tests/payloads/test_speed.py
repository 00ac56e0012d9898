"""The payloads that measure speed: what they tell, what they say when something is missing, and how they count."""

import importlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import types
from typing import Any

import pytest

from pytest_gpucluster.evidence.log import payload_lines as lines
from pytest_gpucluster.judge.mfu import plausibility, possible_figures, smoke_loop
from pytest_gpucluster.measure import flops
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.defects import construct, construct_speed

pytestmark = pytest.mark.long("torch")

FOLDER = pathlib.Path(__file__).parents[2] / "payloads"
torch: Any = None
gemm: Any = None
train_step: Any = None
CPU: Any = None
GPU: Any = None


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import torch when the first of these tests runs: it takes as long as the collection of all others."""
    global torch, gemm, train_step, CPU, GPU  # noqa: PLW0603 - what a module imports at its top
    torch = pytest.importorskip("torch", reason="the payloads compute with torch")
    gemm, train_step = (importlib.import_module(f"payloads.{name}") for name in ("gemm", "train_step"))
    CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def run(name, *args, **env):
    """Run a payload by itself; returns exit code and what it told."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--cpu", *args],
        capture_output=True, text=True, check=False, timeout=480, env={**os.environ, "OMP_NUM_THREADS": "1", **env},
    )  # fmt: skip
    told = [found for line in done.stdout.splitlines() for found in lines.find(line)[0]]
    assert all(len(line) < 4096 for line in done.stdout.splitlines())
    return done.returncode, told, done.stderr


def evidence_of(told):
    """Return evidence in which a pod printed these facts."""
    return recordings.evidence_of(
        {"t": float(n), "type": "LOG", "pod": "p", "uid": "u", "line": f"GPUCONF1 {json.dumps(one)}"}
        for n, one in enumerate(told)
    )


SMALL = ("--seconds=0.2", "--most=0.5", "--warm=0.05", "--window=0.015", "--cv=0.9", "--size=128")
MODEL = (
    "--layers=1", "--width=32", "--heads=2", "--seq=32", "--batch=2", "--vocab=64", "--steps=10",
    "--warm-steps=2", "--most=0.5", "--cv=9",
)  # fmt: skip


@pytest.mark.slow
def test_products_alone():
    """One process is a world of one; its line holds, and is judged as such."""
    code, told, _ = run("gemm", *SMALL)
    assert (code, [one["event"] for one in told]) == (0, ["rank", "gemm"])
    product = told[1]["results"]["fp32"]
    assert product["right"] is True
    assert product["windows"] >= 10
    assert told[1]["gauges"]["how"] == "not readable"
    assert possible_figures.possible(evidence_of(told), {}).verdict is Verdict.PASS


@pytest.mark.slow
def test_a_training_step_alone():
    """The loss falls, formula and counter agree but for what is explained, the figures follow from the counts.

    Recomputation earns nothing: the FLOPs of a token are the same with it, whatever the device does besides.
    """
    code, told, shown = run("train_step", *MODEL, "--peak=1")
    assert (code, [one["event"] for one in told]) == (0, ["rank", "train"])
    plain = told[1]
    first, last = plain["loss"]["common"]
    assert last < first
    assert "not explained" not in plain["flop_per_token"]["difference"]
    assert "MFU" in shown
    assert possible_figures.possible(evidence_of(told), {}).verdict is Verdict.PASS
    again = run("train_step", *MODEL, "--recompute", "--loss-chunks=4")[1][1]
    assert again["how"]["recompute"] is True
    assert again["flop_per_token"] == plain["flop_per_token"]
    assert again["loss"]["common"] == pytest.approx(plain["loss"]["common"], rel=1e-4)


@pytest.mark.slow
def test_the_smoke_loop_alone():
    """On one rank the documented formula tells twice the truth."""
    code, told, _ = run("smoke", "--size=96", "--steps=5")
    assert (code, [one["event"] for one in told]) == (0, ["rank", "smoke"])
    assert told[1]["documented_by_right"] == 2.0
    finding = smoke_loop.counts_right(evidence_of(told), {})
    assert finding.verdict is Verdict.PASS
    assert "(ratio 2)" in finding.observed


def free_port():
    """Return a port at which nobody listens: a fixed one may be that of another run of these tests."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.slow
def test_a_rank_that_meets_nobody_says_so():
    """The other rank never comes: one line, a code other than 0, in time."""
    env = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    for name in ("gemm", "train_step", "smoke"):
        code, told, _ = run(name, "--within=1", **env)
        assert code == 1
        assert [one["event"] for one in told] == ["rank", "failed"]
        assert told[1]["kind"] == "meeting"


def test_memory_that_is_short_is_one_line(monkeypatch, capfd):
    """Out of memory is told apart from a lost GPU, and ends with 1."""

    def short(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB")

    monkeypatch.setattr(gemm, "measure", short)
    monkeypatch.setattr(sys, "argv", ["gemm.py", "--cpu", *SMALL])
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert gemm.main() == 1
    told = [one for line in capfd.readouterr().out.splitlines() for one in lines.find(line)[0]]
    assert [(one["event"], one.get("kind")) for one in told] == [("rank", None), ("failed", "memory")]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("CUDA error: unspecified launch failure"), "device"),
        (RuntimeError("HIP error: the operation cannot be performed in the present state"), "device"),
        (RuntimeError("HIP error: invalid device function"), "program"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul"), "program"),
        (RuntimeError("CUDA error: out of memory"), "memory"),
        (RuntimeError("fp8 is not implemented for CUDA"), "program"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "program"),
    ],
)
def test_kinds_of_failures(error, kind):
    """A lost device, short memory and a wrong program are told apart."""
    assert gemm.kind_of(error) == kind
    assert gemm.kind_of(torch.OutOfMemoryError("CUDA out of memory")) == "memory"


def test_a_wrong_product_is_seen():
    """A GPU that multiplies wrongly in one corner, or gives NaN, does not go unnoticed."""
    product = gemm.Product("fp32", 64, CPU)
    assert product.error() < gemm.TOLERANCE["fp32"]
    right = product.once

    def wrong(value):
        def once():
            out = right()
            out[-1, -1] += value
            return out

        return once

    product.once = wrong(5.0)
    assert product.error() > gemm.TOLERANCE["fp32"]
    product.once = wrong(float("nan"))
    assert not product.error() <= gemm.TOLERANCE["fp32"]


def test_windows_end_when_they_are_steady_or_time_is_over():
    """At least ten windows; without steadiness the bound ends it, and it is said."""
    found = gemm.sustained(
        lambda: torch.ones(64).sum(), CPU, warm=0.0, least=0.02, most=0.2, window=0.002, cv=10.0
    )
    assert found["steady"]
    assert len(found["times"]) >= gemm.STEADY_WINDOWS
    assert sum(found["times"]) <= found["wall"] * 1.01
    found = gemm.sustained(
        lambda: torch.ones(64).sum(), CPU, warm=0.0, least=0.01, most=0.05, window=0.002, cv=0.0
    )
    assert not found["steady"]
    assert sum(found["times"]) >= 0.05


SMI = """#!/bin/sh
case "$*" in
  *clocks_event_reasons*)
    [ "$OLD" = 1 ] && { echo 'Field "clocks_event_reasons.active" is not a valid field'; exit 2; } ;;
esac
[ "$BROKEN" = 1 ] && { echo 'Unable to determine the device handle: GPU is lost'; exit 9; }
echo "1410, 1980, 693.25, 700.00, 700.00, 61, 0x0000000000000024"
"""


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Put an nvidia-smi of our own first in the path."""
    path = tmp_path / "nvidia-smi"
    path.write_text(SMI)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return path


@pytest.mark.parametrize("old", ["0", "1"])
def test_gauges_by_nvidia_smi(smi, monkeypatch, old):
    """Both names of the reasons are understood; their bits are told by name."""
    monkeypatch.setenv("OLD", old)
    meter = gemm.Gauges(GPU, "GPU-1", period=0.01)
    with meter.sampled():
        while not meter._samples:
            pass
    told = meter.told()
    assert told["how"] == "nvidia-smi"
    assert told["sm_mhz"] == [1410.0, 1410.0, 1410.0]
    assert (told["limit_w"], told["default_limit_w"], told["max_sm_mhz"]) == (700.0, 700.0, 1980.0)
    assert told["reasons"] == {"sw_power_cap": 1.0, "sw_thermal": 1.0}


def test_gauges_without_some_values(smi):
    """A value that a card does not have is left out, never 0."""
    smi.write_text('#!/bin/sh\necho "1410, 1980, [N/A], [Not Supported], 700.00, 61, [N/A]"\n')
    meter = gemm.Gauges(GPU, "", period=0.01)
    with meter.sampled():
        while not meter._samples:
            pass
    told = meter.told()
    assert "watts" not in told
    assert "limit_w" not in told
    assert "reasons" not in told


def test_gauges_that_cannot_be_read(smi, monkeypatch):
    """No way to read them: it is said which were tried and why each failed."""
    monkeypatch.setenv("BROKEN", "1")
    told = gemm.Gauges(GPU, "GPU-1").told()
    assert told["how"] == "not readable"
    assert "GPU is lost" in told["why"]
    assert "pynvml" in told["why"]
    assert gemm.Gauges(CPU, "").told() == {"how": "not readable", "why": "no GPU"}


def test_gauges_by_nvml(monkeypatch):
    """The library is asked by UUID; an older one has another name for the reasons."""
    nvml = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetClockInfo=lambda *_: 1500,
        nvmlDeviceGetMaxClockInfo=lambda *_: 1980,
        nvmlDeviceGetPowerUsage=lambda _: 650000,
        nvmlDeviceGetEnforcedPowerLimit=lambda _: 500000,
        nvmlDeviceGetPowerManagementDefaultLimit=lambda _: 700000,
        nvmlDeviceGetTemperature=lambda *_: 55,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 0x40,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    meter = gemm.Gauges(GPU, "GPU-1", period=0.01)
    with meter.sampled():
        while not meter._samples:
            pass
    told = meter.told()
    assert told["how"] == "pynvml"
    assert told["limit_w"] == 500.0
    assert told["reasons"] == {"hw_thermal": 1.0}


def model(**sizes):
    """Return arguments of a small model."""
    small = {"layers": 2, "width": 64, "heads": 2, "seq": 32, "batch": 2, "vocab": 128, "loss_chunks": 1}
    return types.SimpleNamespace(**{**small, "recompute": False, **sizes})


@pytest.mark.parametrize(
    "sizes", [{}, {"layers": 3, "seq": 64}, {"width": 128, "vocab": 512, "loss_chunks": 4}]
)
def test_formula_and_counter_agree(sizes):
    """The payload's formula is the measured library's, and torch counts the same but for what is explained."""
    args = model(**sizes)
    by_formula = train_step.formula(args)
    size = flops.Decoder(args.layers, args.width, args.heads, args.seq, args.vocab)
    assert by_formula["weights"] == 6 * size.multiplying
    assert by_formula["weights"] + by_formula["attention"] == size.per_token()
    by_counter = train_step.counted(args, CPU, torch.float32)
    assert "not explained" not in train_step.explained(args, by_formula, by_counter)
    rest = sum(by_counter.values()) - by_formula["weights"]
    assert round(rest / (args.layers * args.width * args.seq)) in plausibility.TIMES_COUNTED


def test_a_difference_that_nothing_explains_is_said():
    """Another model than the formula's."""
    args = model()
    by_formula = train_step.formula(args)
    assert "not explained" in train_step.explained(args, by_formula, {"all": 1.3 * by_formula["weights"]})


def test_weights_are_counted_right():
    """As many as the model has, but for the norms."""
    args = model()
    made = train_step.Decoder(args)
    own = sum(weight.numel() for name, weight in made.named_parameters() if "norm" not in name)
    assert own == flops.Decoder(2, 64, 2, 32, 128).weights


def test_chunks_change_no_loss():
    """The loss is the same in one piece and in four."""
    args = model()
    torch.manual_seed(0)
    whole = train_step.Decoder(args)
    chunked = train_step.Decoder(model(loss_chunks=4))
    chunked.load_state_dict(whole.state_dict())
    batch = train_step.batch_of(args, CPU, 7)
    with torch.no_grad():
        assert float(whole(*batch)) == pytest.approx(float(chunked(*batch)), rel=1e-6)


def test_batches_are_the_same_everywhere():
    """The stream is fixed by its seed; targets are the tokens that follow."""
    tokens, targets = train_step.batch_of(model(), CPU, 5)
    again, _ = train_step.batch_of(model(), CPU, 5)
    assert torch.equal(tokens, again)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])


@pytest.mark.parametrize(
    ("spans", "covered"), [([], 0), ([(0, 2), (1, 3)], 3), ([(5, 6), (0, 1)], 2), ([(0, 10), (2, 3)], 10)]
)
def test_time_that_spans_cover(spans, covered):
    """Overlap counts once, gaps not at all."""
    assert train_step.union(spans) == covered


def test_lines_of_gpus_are_short_enough():
    """Four formats, all gauges, long names: still one write."""
    pod = construct.Pod("speed-gemm-worker-0-with-a-long-name-" + "x" * 60, "u", "gpu-0", "10.0.0.1", 0)
    for event in ("gemm", "train"):
        assert all(len(line) < 4000 for line in construct_speed.lines(pod, event))
