"""What the page tells beside its rows: what only the operator can say, which node was tried, what is next."""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.report import identity, text
from pytest_gpucluster.requirement import Number

GRAVEST = ("fail", "environment", "inconclusive", "waived", "flaky", "pass", "not_applicable")
"""The order of rows on the page: what somebody must look at comes first."""

MATRIX = 12
"""Most nodes of which a row has a cell each; of more, each row tells how many were tried and which were not."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A clean measurement without a declared target.

    Attributes:
        row: id of the row.
        figures: what was measured, in the shape in which a target is declared.
        why: what is not declared, in the words of the judge.
    """

    row: str
    figures: tuple[str, ...]
    why: str


def operator_input(report: Mapping[str, Any]) -> list[Wanted]:
    """Return what was measured and has no target: only the operator knows what the hardware was sold to do."""
    found = []
    for row in report["requirements"]:
        numbers = [
            Number(**each)
            for each in row["finding"].get("numbers") or []
            if each.get("value") is not None and each.get("bound") is None
        ]
        observed = str(row["finding"]["observed"])
        if row["verdict"] == "not_applicable" and numbers and "declared" in observed:
            found.append(Wanted(row["id"], tuple(map(text.number_text, numbers)), observed))
    return found


@dataclasses.dataclass(frozen=True)
class Tried:
    """On which GPU nodes a row was tried.

    Attributes:
        row: its id.
        nodes: those on which it was, or of which it read.
        missed: the others.
    """

    row: str
    nodes: tuple[str, ...]
    missed: tuple[str, ...]


def coverage(report: Mapping[str, Any]) -> tuple[tuple[str, ...], list[Tried]]:
    """Return the GPU nodes, and on which of them each row about machines was tried."""
    machines = tuple(report["cluster"].get("machines") or ())
    told = identity.coverage(report)
    rows = [
        row for row in report["requirements"] if row["area"] in identity.OF_MACHINES and row["id"] in told
    ]
    return machines, [
        Tried(
            row["id"], tuple(told[row["id"]]), tuple(name for name in machines if name not in told[row["id"]])
        )
        for row in rows
    ]


def machines(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield for each GPU node its name, what it is, and the UUIDs of its GPUs that were seen."""
    for name, facts in (report["cluster"].get("machines") or {}).items():
        told = [f"{facts['gpus']} GPUs"] if "gpus" in facts else []
        told += [facts["state"]] if facts.get("state") else []
        told += [
            f"{label} {facts[key]}"
            for key, label in (
                ("machineID", "machine"), ("systemUUID", "system"), ("driver", "driver"), ("kubeletVersion", "kubelet"),
                ("kernelVersion", "kernel"), ("containerRuntimeVersion", "runtime"),
            )
            if facts.get(key)
        ]  # fmt: skip
        yield name, ", ".join(told), ", ".join(facts.get("gpu_uuids") or ())


def next_steps(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what to do after the run: words, and a command that works from the folder of the run, or "" for none."""
    cluster = str(report["cluster"].get("name") or "NAME")
    red = [
        row["id"]
        for row in report["requirements"]
        if row["verdict"] in ("fail", "environment", "inconclusive")
    ]
    steps: list[tuple[str, str]] = []
    if red:
        words = shlex.quote(" or ".join(red))
        steps.append(
            ("When the causes are mended, run these rows again.", f"pytest --cluster={cluster} -k {words}")
        )
    if operator_input(report):
        steps.append(("Propose floors from runs that you accept.", "gpucluster floors ."))
    steps.append(("Check the files and decide every row again.", "gpucluster verify ."))
    steps.append(
        ("Decide whether this opens a queue.", f"gpucluster gate . --policy acceptance --for {cluster}")
    )
    return steps


def in_order(rows: Sequence[Mapping[str, Any]], marks: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return rows with the gravest first, otherwise in their order.

    Args:
        rows: decided rows.
        marks: under which each is shown.
    """
    pairs = sorted(zip(marks, rows, strict=True), key=lambda pair: GRAVEST.index(pair[0]))
    return [row for _, row in pairs]
