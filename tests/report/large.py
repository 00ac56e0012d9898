"""The record of a large run: every row of the catalogue decided, on many nodes, with figures of every GPU."""

import copy
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.report import identity
from pytest_gpucluster.requirement import catalogue

GPUS = 8
FORMATS = ("bf16", "fp16", "tf32", "fp8")


def widened(report: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return a report whose scenarios saw so many nodes, with the products of every GPU of two of them."""
    found = _on(report, nodes)
    model = copy.deepcopy(next(row for row in found["requirements"] if row["id"] == "FAB-006"))
    row = {**model, "id": "MFU-001", "area": "mfu", "title": "Every GPU multiplies as fast as declared"}
    row["finding"]["facts"] = _products(list(found["cluster"]["machines"])[:2])
    found["requirements"].append(row)
    return found


def grown(report: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return a report with all rows of the catalogue, each decided as one of its rows, on so many nodes.

    Args:
        report: a report whose scenarios decided rows; it is not changed.
        nodes: how many GPU nodes it saw, in three pools; pods were bound to every second one.
    """
    found = _on(report, nodes)
    known = {row["id"]: row for row in found["requirements"]}
    models = list(known.values())
    for number, row in enumerate(catalogue.rows()):
        model = copy.deepcopy(known.get(row.id) or models[number % len(models)])
        area = {"area": row.area, "level": row.level.value, "title": row.title}
        known[row.id] = {**model, "id": row.id, **area}
    known["MFU-001"]["finding"]["facts"] = _products(list(found["cluster"]["machines"]))
    found["requirements"] = list(known.values())
    found["not_built"], found["not_run"] = [], []
    return found


def _on(report: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(report))
    seen = {f"gpu-{number:04}": _node(number) for number in range(nodes)}
    for scenario in found["scenarios"]:
        scenario["seen"] = {"uid": "c-1", "nodes": seen, "tried_on": list(seen)[::2]}
    found["cluster"].update(identity.together(found["scenarios"]))
    return found


def _node(number: int) -> dict[str, Any]:
    return {
        "gpus": GPUS,
        "pool": f"pool-{'abc'[number % 3]}",
        "machineID": f"{number:032x}",
        "systemUUID": f"{number:08x}-5d3f-4e29-9f0a-c0ffee000000",
        "driver": "575.57.08",
        "kubeletVersion": "v1.37.0",
        "kernelVersion": "6.8.0-1030",
        "containerRuntimeVersion": "containerd://2.1.4",
        "gpu_uuids": [f"GPU-{number:06x}{gpu:02x}-5d3f-4e29-9f0a-c0ffee000000" for gpu in range(GPUS)],
    }


def _products(nodes: list[str]) -> dict[str, Any]:
    """Return the figures of every GPU of nodes, of which the first is slow."""
    ranks = [(node, gpu) for node in nodes for gpu in range(GPUS)]
    median = [600.0, *(660.0 + number % 7 for number in range(1, len(ranks)))]
    return {
        "shape": {"device": "NVIDIA H200", "nodes": len(nodes), "per_node": [GPUS], "limit_w": 700.0},
        "gpus": [f"rank {n}, GPU {gpu} on Pod/speed-{n} on {node}" for n, (node, gpu) in enumerate(ranks)],
        "products": {name: {"median": median, "p5": median, "n": 8192} for name in FORMATS},
        "gauges": [{"watts": [100, 690.0, 700], "sm_mhz": [1200, 1455.0, 1980]}] * len(ranks),
    }
