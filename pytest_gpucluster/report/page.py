"""What the page says beside its rows: which machines, until when, what is next, which rows come first."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.report import operator_input

GRAVEST = ("fail", "environment", "inconclusive", "waived", "flaky", "pass", "not_applicable")
"""The order of rows on the page: what somebody must look at comes first."""

RED = ("fail", "environment", "inconclusive")
"""Verdicts that keep a row from green."""


def machines(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield for each GPU node its name, what it is, and the UUIDs of its GPUs that were seen."""
    for name, facts in (report["cluster"].get("machines") or {}).items():
        words = [f"{facts['gpus']} GPUs"] if "gpus" in facts else []
        words += [facts["state"]] if facts.get("state") else []
        words += [
            f"{label} {facts[key]}"
            for key, label in (
                ("pool", "pool"), ("machineID", "machine"), ("systemUUID", "system"), ("driver", "driver"),
                ("kubeletVersion", "kubelet"), ("kernelVersion", "kernel"), ("containerRuntimeVersion", "runtime"),
            )
            if facts.get(key)
        ]  # fmt: skip
        yield name, ", ".join(words), ", ".join(facts.get("gpu_uuids") or ())


def profile_digest(report: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what was declared, as canonical JSON: equal declarations have equal digests."""
    values = json.dumps(
        report["profile"]["values"], sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    )
    return hashlib.sha256(values.encode("utf-8", "backslashreplace")).hexdigest()


def profile_sources(report: Mapping[str, Any]) -> list[str]:
    """Return where the declared values come from, each source once."""
    return list(dict.fromkeys(map(str, report["profile"]["sources"].values())))


def until(report: Mapping[str, Any]) -> tuple[str, str]:
    """Return until when the answer holds, "" if nobody said, and of when it is."""
    decision = report["decision"] or {}
    return str(decision.get("until") or ""), str(report["run"]["ended"] or report["run"]["started"] or "")


def next_steps(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what to do after the run: words, and a command.

    The first step is done where the run was started, the others in the folder of the run.
    """
    cluster = shlex.quote(str(report["cluster"].get("name") or "NAME"))
    red = [row["id"] for row in report["requirements"] if row["verdict"] in RED]
    steps: list[tuple[str, str]] = []
    if red:
        words = "When the causes are mended, run these rows again, from where this run was started."
        steps.append((words, again(report["run"]["command"], red)))
    if any(one.declare.startswith(("mfu:", "fabric:")) for one in operator_input.wanted(report)):
        steps.append(("Propose floors from a run that you accept.", "gpucluster floors --from report.json"))
    steps.append(("Check the files and decide every row again.", "gpucluster verify ."))
    steps.append(
        ("Decide whether this run opens a queue.", f"gpucluster gate . --policy acceptance --for {cluster}")
    )
    return steps


def again(command: Sequence[str], rows: Sequence[str]) -> str:
    """Return the command of a run with other rows: its cluster, profile and options stay.

    Args:
        command: the command of the run, word by word.
        rows: ids of the rows.
    """
    words, skip = list[str](), False
    for word in command:
        if skip:
            skip = False
        elif word in ("-k", "-m", "--gpucluster-reuse"):
            skip = True
        elif not word.startswith(("-k", "-m", "--gpucluster-reuse=")):
            words.append(word)
    return shlex.join([*(words or ["pytest"]), "-k", " or ".join(rows)])


def in_order(rows: Sequence[Mapping[str, Any]], marks: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return rows with the gravest first, otherwise in their order.

    Args:
        rows: decided rows.
        marks: under which each is shown.
    """
    pairs = sorted(zip(marks, rows, strict=True), key=lambda pair: GRAVEST.index(pair[0]))
    return [row for _, row in pairs]
