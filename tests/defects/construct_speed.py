"""Evidence of GPUs that were not at hand: `python -m tests.defects.construct_speed` writes the scenario `speed`.

The life of the pods is that of a recorded run of the same scenario on the embedded cluster; what the ranks print is
made up here, in the shape that the payloads print it: one node of four H100. The header says that it is constructed.
"""

import argparse
import json
import sys
from typing import Any

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.judge.mfu import gemm, shared, train_step
from pytest_gpucluster.measure import flops
from tests.defects import construct, matrix

GPUS = 4
SPEEDS = {"bf16": 712.0, "fp16": 689.0, "tf32": 402.0, "fp8": 1287.0}
"""TFLOP/s of the first GPU; the others are a little slower."""
AROUND = {"median": 1.0, "p5": 0.985, "p95": 1.012, "min": 0.98, "max": 1.03}
SIZE = flops.Decoder(layers=24, width=3072, heads=24, seq=2048, vocab=32768)
BATCH, STEPS, STEP = 8, 20, 0.561
ORIGIN = "constructed"
MFU: dict[str, Any] = {
    "device": "gpu",
    "nodes": None,
    "floors": [
        {"format": "bf16", "share": 0.65, "tflops": None, "device": "H100", "origin": ORIGIN},
        {"format": "fp8", "share": None, "tflops": 1100.0, "device": "H100", "origin": ORIGIN},
    ],
    "floor_file": None,
    "spread": 0.07,
    "peaks": {},
    "peaks_origin": None,
    "power_w": None,
    "seconds": 10.0,
    "training": {"nodes": 1, "mfu": 0.5, "origin": ORIGIN, "recompute": False, "compile": "auto"},
    "baseline": "accepted.json",
    "regression": 0.05,
}


def who(local: int, host: str) -> dict[str, Any]:
    """Return who a rank is."""
    return {"rank": local, "world": GPUS, "local_rank": local, "host": host}


def device(local: int) -> dict[str, Any]:
    """Return what the GPU of a rank says of itself."""
    return {
        "kind": "cuda", "name": "NVIDIA H100 80GB HBM3", "uuid": f"GPU-{local:08x}-5d3f-4e29-9f0a-c0ffee000000",
        "index": local, "sms": 132, "gib": 79.1, "free_gib": 78.6, "capability": "9.0",
    }  # fmt: skip


def gauges(local: int) -> dict[str, Any]:
    """Return what was read beside the work: a GPU at its power limit, as it should be."""
    return {
        "how": "pynvml", "samples": 40, "sm_mhz": [1395, 1455 - 10 * local, 1980], "watts": [598.0, 697.0, 700.0],
        "celsius": [41, 58 + local, 63 + local], "max_sm_mhz": 1980.0, "limit_w": 700.0, "default_limit_w": 700.0,
        "reasons": {"sw_power_cap": 0.97},
    }  # fmt: skip


def product(name: str, local: int) -> dict[str, Any]:
    """Return the figures of one format."""
    n, speed = 8192, SPEEDS[name] * (1 - 0.008 * local)
    seconds = 10.1 if name == "bf16" else 3.1
    count = round(speed * seconds * 1e12 / flops.product(n, n, n))
    return {
        "n": n, "products": count, "seconds": seconds, "wall": round(seconds + 0.004, 3), "windows": round(4 * seconds),
        "tflops": {key: part * speed for key, part in AROUND.items()},
        "cv": 0.006, "steady": True, "error": 0.0031, "right": True,
    }  # fmt: skip


def training(local: int) -> dict[str, Any]:
    """Return the figures of training."""
    tokens = BATCH * SIZE.seq
    speed = tokens / STEP
    one = SIZE.layers * SIZE.width * SIZE.seq
    size = {"layers": 24, "width": 3072, "heads": 24, "seq": 2048, "batch": BATCH, "vocab": 32768}
    return {
        "size": size, "weights": SIZE.weights, "format": "bf16",
        "how": {"compiled": True, "why_not": "", "recompute": False, "reshard": "no", "reduce": "fp32",
                "attention": "CUDNN_ATTENTION", "attention_ms": {"FLASH_ATTENTION": 2.9, "CUDNN_ATTENTION": 2.1}},
        "steps": STEPS, "warm_steps": 23, "start_s": 61.2, "wall": STEP * STEPS, "seconds": STEP * STEPS * 0.999,
        "step_s": {"median": STEP, "p5": 0.557, "p95": 0.568, "min": 0.556, "max": 0.569}, "cv": 0.006, "steady": True,
        "parts_s": {"forward": 0.176, "backward": 0.369, "optimizer": 0.016},
        "tokens_per_s": speed,
        "flop_per_token": {"weights": 6 * SIZE.multiplying, "attention": 12 * one, "attention_causal": 6 * one,
                           "counted": float(6 * SIZE.multiplying + 14 * one), "difference": "constructed"},
        "tflops": speed * SIZE.per_token() / 1e12, "tflops_causal": speed * SIZE.per_token(causal=True) / 1e12,
        "loss": {"common": [10.92, 8.31], "first": 10.9 + 0.01 * local, "last": 8.3 + 0.01 * local},
        "breakdown_ms": {"products": 431.0, "attention": 51.0, "elementwise": 52.0, "communication": 88.0,
                         "communication_exposed": 6.0, "optimizer": 9.0, "copies": 11.0, "idle": 3.0},
        "peak_gib": 58.7,
    }  # fmt: skip


def lines(pod: construct.Pod, event: str) -> list[str]:
    """Return what the ranks of a pod print."""
    program = {"gemm": "gemm", "train": "train_step"}[event]
    start = [
        construct.word("rank", pod, program=program, torch="2.11.0+cu130", gpus=GPUS, **who(n, pod.name))
        for n in range(GPUS)
    ]
    shown = []
    for n in range(GPUS):
        told = {"results": {name: product(name, n) for name in SPEEDS}} if event == "gemm" else training(n)
        shown.append(
            construct.word(
                event,
                pod,
                device=device(n),
                gauges=gauges(n),
                torch="2.11.0+cu130",
                **told,
                **who(n, pod.name),
            )
        )
    return [*start, *shown]


def build(base: Evidence) -> Evidence:
    """Return the evidence of a run in which all is well, on GPUs, over the life of the pods of a recorded one."""
    said = {}
    for event in ("gemm", "train"):
        for pod in construct.pods_of(base, f"speed-{event}"):
            said[pod.uid] = lines(pod, event)
    spoken = construct.spoken(base, said)
    text = (
        "what the ranks print is made up: no such GPUs were at hand; the pods' life is of an embedded cluster"
    )
    given = {**base.given, "world": GPUS, "training_world": GPUS, "mfu": MFU}
    header = {**spoken.header, "given": given, "constructed": text}
    first = Evidence(spoken.lines, header=header, spans=spoken.spans)
    products, _ = shared.told(first, given, "gemm", "gemm")
    trained, _ = shared.told(first, given, "train", "train")
    baseline = {
        "products": gemm.facts_of(products),
        "training": train_step.facts_of(trained),
        "origin": "accepted.json, a run with the same figures (constructed)",
    }
    header = {**header, "given": {**given, "mfu": {**MFU, "baseline_figures": baseline}}}
    return Evidence(spoken.lines, header=header, spans=spoken.spans)


def main() -> str:
    """Write the evidence."""
    made = construct.slim(build(read(matrix.RECORDED / "speed.jsonl")))
    matrix.HOST.mkdir(parents=True, exist_ok=True)
    path = matrix.HOST / "speed.jsonl"
    shown = [json.dumps(line, separators=(",", ":")) for line in ingest.lines_of(made)]
    path.write_text("\n".join(shown) + "\n", encoding="utf-8")
    return str(path)


if __name__ == "__main__":
    argparse.ArgumentParser("python -m tests.defects.construct_speed", description=__doc__).parse_args()
    sys.stdout.write(main() + "\n")
