"""Departures of figures of speed."""

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]


def of_rank(event: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> base.Act:
    """Return the mutant that changes a fact of the last rank that told it; None drops the line."""

    def mutant(evidence: Evidence) -> Evidence:
        last = max((w.number("rank") or 0 for w in payload_lines.words(evidence).of(event)), default=-1)

        def act(_: object, told: dict[str, Any]) -> dict[str, Any] | None:
            mine = told.get("event") == event and told.get("rank") == last
            return change(told) if mine else told

        return base.words(evidence, act)

    return mutant


def last(event: str, change: Change) -> base.Act:
    """Return the mutant that changes a fact of the last rank that told it."""

    def act(told: dict[str, Any]) -> dict[str, Any]:
        change(told)
        return told

    return of_rank(event, act)


def faster(factor: float) -> Change:
    """Return the change that makes all products of a line faster, their counts with them."""

    def change(told: dict[str, Any]) -> None:
        for one in (told.get("results") or {}).values():
            one["tflops"] = {name: value * factor for name, value in one["tflops"].items()}
            one["seconds"], one["wall"] = one["seconds"] / factor, one["wall"] / factor

    return change


def slower_training(told: dict[str, Any]) -> None:
    """Let steps take twice as long."""
    for name in ("wall", "seconds"):
        told[name] *= 2
    told["step_s"] = {name: 2 * value for name, value in told["step_s"].items()}
    for name in ("tokens_per_s", "tflops", "tflops_causal"):
        told[name] /= 2


def first_product(change: Change) -> Change:
    """Return the change of the first format of a line of products."""

    def act(told: dict[str, Any]) -> None:
        for one in list((told.get("results") or {}).values())[:1]:
            change(one)

    return act


def lost(told: dict[str, Any]) -> dict[str, Any]:
    """Let a rank's GPU fall off the bus in the middle."""
    names = {"rank", "world", "local_rank", "host", "pod", "t", "device"}
    kept = {key: value for key, value in told.items() if key in names}
    error = "CUDA error: unspecified launch failure"
    return {**kept, "event": "failed", "kind": "device", "during": "bf16", "error": error}


def again(event: str, change: Change) -> base.Act:
    """Return the mutant in which the last rank tells a fact twice, the second time another."""

    def mutant(evidence: Evidence) -> Evidence:
        changed = last(event, change)(evidence)
        if changed is evidence:
            return evidence
        pairs = zip(evidence.lines, changed.lines, strict=True)
        more = [dataclasses.replace(new, t=new.t + 0.01) for old, new in pairs if old.data != new.data]
        return base.with_lines(evidence, (*evidence.lines, *more)) if more else evidence

    return mutant


def declared(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes what is told of the profile, where a baseline is declared."""

    def mutant(evidence: Evidence) -> Evidence:
        given = dict(evidence.given)
        mfu = dict(given.get("mfu") or {})
        if not mfu.get("baseline_figures"):
            return evidence
        mfu["baseline_figures"] = {
            key: dict(value) if isinstance(value, dict) else value
            for key, value in mfu["baseline_figures"].items()
        }
        change(mfu)
        header = {**evidence.header, "given": {**given, "mfu": mfu}}
        return Evidence(evidence.lines, header=header, spans=evidence.spans)

    return mutant


def _better(mfu: dict[str, Any]) -> None:
    part = mfu["baseline_figures"]["products"]
    part["products"] = {
        name: {**one, "median": [1.2 * value for value in one["median"]]}
        for name, one in part["products"].items()
    }


def _other_shape(mfu: dict[str, Any]) -> None:
    for part in ("products", "training"):
        one = mfu["baseline_figures"][part]
        one["shape"] = {**one["shape"], "per_node": [8]}


def _capped(told: dict[str, Any]) -> None:
    told["gauges"] = {**told["gauges"], "limit_w": 500.0} if "limit_w" in told["gauges"] else told["gauges"]


def _throttled(told: dict[str, Any]) -> None:
    if "reasons" in told["gauges"]:
        told["gauges"] = {**told["gauges"], "reasons": {"sw_power_cap": 1.0, "hw_thermal": 0.4}}


def _unreadable(told: dict[str, Any]) -> None:
    told["gauges"] = {"how": "not readable", "why": "pynvml: no such module; nvidia-smi: no such program"}


def _as_documented(told: dict[str, Any]) -> None:
    told["tflops"] = told["tflops_documented"]


def _few(told: dict[str, Any]) -> None:
    share = 3 / told["steps"]
    told["steps"] = 3
    for name in ("wall", "seconds"):
        told[name] *= share


def _nameless(told: dict[str, Any]) -> None:
    if told["device"].get("kind") == "cuda":
        told["device"] = {**told["device"], "name": "NVIDIA X9000"}


def _on_one_gpu(evidence: Evidence) -> Evidence:
    """Let the last rank that told products have the GPU of the one before it."""
    ranks = [
        w
        for w in payload_lines.words(evidence).of("gemm")
        if (w.data.get("device") or {}).get("kind") == "cuda"
    ]
    others = [w.data["device"] for w in sorted(ranks, key=lambda w: w.number("rank") or 0)][:-1]
    return last("gemm", lambda told: told.update(device=others[-1]))(evidence) if others else evidence


def _an_hour_later(evidence: Evidence) -> Evidence:
    """Let the last rank of several GPUs measure an hour after the others, by its machine's clock."""
    ranks = [
        w
        for w in payload_lines.words(evidence).of("gemm")
        if (w.data.get("device") or {}).get("kind") == "cuda"
    ]
    later = last("gemm", lambda told: told.update(t=float(told.get("t") or 0.0) + 3600.0))
    return later(evidence) if len(ranks) > 1 else evidence


def _anonymous(told: dict[str, Any]) -> None:
    if told["device"].get("kind") == "cuda":
        told["device"] = {**told["device"], "uuid": "", "bus": ""}


def _out_of_order(told: dict[str, Any]) -> None:
    told["step_s"] = {**told["step_s"], "median": told["step_s"]["p5"] / 2}


MUTANTS: base.Table = {
    "mfu.two-on-one-gpu": base.Mutant(
        "two ranks report products of one GPU",
        _on_one_gpu,
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.not-at-once": base.Mutant(
        "one rank measured products an hour after the others",
        _an_hour_later,
        {"MFU-001": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.gpu-untold": base.Mutant(
        "one rank does not say which GPU it has",
        last("train", _anonymous),
        {"MFU-002": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.loss-untold": base.Mutant(
        "no loss is reported",
        base.on("train", lambda w: w.update(loss={})),
        {"MFU-002": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.median-below-least": base.Mutant(
        "the median step is shorter than almost all steps",
        last("train", _out_of_order),
        {"MFU-002": "inconclusive", "MFU-006": "inconclusive", "MFU-003": "fail"},
    ),
    "mfu.a-slow-gpu": base.Mutant(
        "one GPU multiplies at 0.6 of its speed",
        last("gemm", faster(0.6)),
        {"MFU-001": "fail", "MFU-006": "fail"},
    ),
    "mfu.wrong-product": base.Mutant(
        "one GPU's products are wrong",
        last("gemm", first_product(lambda one: one.update(right=False, error=0.3))),
        {"MFU-001": "fail", "MFU-003": "fail", "MFU-006": "inconclusive"},
    ),
    "mfu.gpu-lost": base.Mutant(
        "one GPU is lost during the run",
        of_rank("gemm", lost),
        {"MFU-001": "fail", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.above-the-peak": base.Mutant(
        "products are reported faster than the peak",
        base.on("gemm", faster(1e4)),
        {"MFU-001": "inconclusive", "MFU-006": "inconclusive", "MFU-003": "fail"},
    ),
    "mfu.not-a-number": base.Mutant(
        "a median is not a number",
        last("gemm", first_product(lambda one: one["tflops"].update(median=float("nan")))),
        {"MFU-001": "inconclusive", "MFU-006": "inconclusive", "MFU-003": "fail"},
    ),
    "mfu.contradicts-itself": base.Mutant(
        "a speed does not follow from its own counts",
        last("gemm", first_product(lambda one: one.update(products=2 * one["products"]))),
        {"MFU-001": "inconclusive", "MFU-006": "inconclusive", "MFU-003": "fail"},
    ),
    "mfu.too-few-windows": base.Mutant(
        "products were measured for three windows",
        base.on("gemm", first_product(lambda one: one.update(windows=3))),
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.too-few-steps": base.Mutant(
        "training was measured for three steps",
        base.on("train", _few),
        {"MFU-002": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.throttled": base.Mutant(
        "one GPU's clock was held back because of heat",
        last("gemm", _throttled),
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive"},
    ),
    "mfu.power-capped": base.Mutant(
        "one GPU's power limit is below that of its board",
        last("gemm", _capped),
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive"},
    ),
    "mfu.clocks-unreadable": base.Mutant(
        "one GPU's clock cannot be read", last("train", _unreadable), {"MFU-003": "inconclusive"}
    ),
    "mfu.unknown-gpu": base.Mutant(
        "the GPUs have a name that is in no list",
        base.on("gemm", _nameless),
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.rank-unheard": base.Mutant(
        "one rank does not report its products",
        of_rank("gemm", lambda _: None),
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.two-lines": base.Mutant(
        "one rank reports its products twice, with different values",
        again("gemm", faster(1.01)),
        {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    ),
    "mfu.slow-training": base.Mutant(
        "training steps take twice as long",
        base.on("train", slower_training),
        {"MFU-002": "fail", "MFU-006": "fail"},
    ),
    "mfu.losses-differ": base.Mutant(
        "one rank has another loss for the common batch",
        last("train", lambda w: w.update(loss={**w["loss"], "common": [w["loss"]["common"][0], 1.0]})),
        {"MFU-002": "fail"},
    ),
    "mfu.loss-stays": base.Mutant(
        "the loss does not fall",
        base.on("train", lambda w: w.update(loss={**w["loss"], "common": [w["loss"]["common"][0]] * 2})),
        {"MFU-002": "fail"},
    ),
    "mfu.fallen": base.Mutant("the baseline's products were faster", declared(_better), {"MFU-006": "fail"}),
    "mfu.baseline-of-another-shape": base.Mutant(
        "the baseline comes from nodes with eight GPUs", declared(_other_shape), {"MFU-006": "inconclusive"}
    ),
    "mfu.counted-as-documented": base.Mutant(
        "the smoke loop reports the result of the documented formula",
        base.on("smoke", _as_documented),
        {"MFU-004": "fail"},
    ),
    "mfu.wrong-sum": base.Mutant(
        "the sum in the smoke loop is wrong",
        last("smoke", lambda w: w.update(right=False, error=0.5)),
        {"MFU-004": "fail"},
    ),
    "mfu.smoke-unheard": base.Mutant(
        "one rank does not report its smoke loop",
        of_rank("smoke", lambda _: None),
        {"MFU-004": "inconclusive"},
    ),
}
