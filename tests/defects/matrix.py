"""The matrix of evidence mutants: every mutant, over the recorded evidence of a passing run, against every row."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, Line, read
from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.suites import defects, load_suites
from pytest_gpucluster.requirement import REGISTRY, DeclarationError, Requirement

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "recorded" / "embedded"
"""Evidence files of a run in which every row passed, one a scenario; made by `python -m tests.defects.record RUN`."""

HOST = RECORDED.parent / "host"
"""Evidence of scenarios whose rows need GPUs or a fabric, which no embedded cluster has: recorded on a GPU host, or
constructed (the header says so). It stands in for the embedded evidence of the same scenario."""


@functools.cache
def rows() -> tuple[Requirement, ...]:
    """Return the rows of the shipped suites, in catalogue order.

    Raises:
        DeclarationError: a row that no planted defect turns red.
    """
    load_suites()
    found = tuple(row for row in REGISTRY if row.where.startswith(("suites.", "pytest_gpucluster.suites.")))
    for row in found:
        if not defects(row, mutant_flips()):
            raise DeclarationError(
                f"{row.where}: {row.id} has no defect: enter a mutant that flips it, in "
                f"pytest_gpucluster/mutants/{row.area}.py"
            )
    return found


@functools.cache
def on_embedded(row: Requirement) -> str:
    """Return the verdict of a row on an embedded cluster without defects: `pass`, or `not_applicable` for want of GPUs.

    It is that of the recorded run, in which whatever is not applicable altogether left no evidence.
    """
    name = f"{row.scenario.name}.jsonl"
    if not (HOST / name).is_file():
        return "pass"
    if not (RECORDED / name).is_file():
        return "not_applicable"
    return str(decisions.decide(row, read(RECORDED / name)).verdict)


@functools.cache
def evidence(scenario: str) -> Evidence:
    """Return the recorded evidence of a scenario."""
    name = f"{scenario}.jsonl"
    return read(HOST / name if (HOST / name).is_file() else RECORDED / name)


@functools.cache
def baseline() -> Mapping[str, str]:
    """Return the verdict of each row on the evidence as it was recorded."""
    return {row.id: str(decisions.decide(row, evidence(row.scenario.name)).verdict) for row in rows()}


def untouched(before: Evidence, after: Evidence) -> bool:
    """Report whether a mutant found nothing to change: judges are pure, so nothing has to be decided again."""
    return before is after or (
        len(before) == len(after)
        and before.spans == after.spans
        and before.header == after.header
        and all(_same(one, other) for one, other in zip(before.lines, after.lines, strict=True))
    )


def _same(one: Line, other: Line) -> bool:
    return one is other or (
        (one.t, one.type, one.kind) == (other.t, other.type, other.kind)
        and (one.object is other.object or one.object == other.object)
        and (one.data is other.data or one.data == other.data)
    )


@functools.cache
def flips_of(mutant: str) -> Mapping[str, str]:
    """Return the rows that a mutant turns away from their verdict, with the verdict they then get."""
    act = mutants.MUTANTS[mutant].act
    changed: dict[str, Evidence] = {}
    found: dict[str, str] = {}
    for row in rows():
        name = row.scenario.name
        if name not in changed:
            changed[name] = act(evidence(name))
        if untouched(evidence(name), changed[name]):
            continue
        verdict = str(decisions.decide(row, changed[name]).verdict)
        if verdict != baseline()[row.id]:
            found[row.id] = verdict
    return found


def mutant_flips() -> Mapping[str, Mapping[str, str]]:
    """Return what each mutant says that it turns red."""
    return {name: mutant.flips for name, mutant in mutants.MUTANTS.items()}


def alike(table: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of rows of one area that no defect of a table tells apart."""
    profile = {
        row.id: tuple(sorted((name, flips[row.id]) for name, flips in table.items() if row.id in flips))
        for row in rows()
    }
    for n, row in enumerate(rows()):
        for other in rows()[n + 1 :]:
            if row.area == other.area and profile[row.id] == profile[other.id]:
                yield row.id, other.id


def text(table: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table for a terminal: a line a defect, what it turns and to which verdict."""
    width = max((len(name) for name in table), default=0)
    lines = []
    for name, flips in sorted(table.items()):
        told = ", ".join(f"{row} {verdict}" for row, verdict in sorted(flips.items()))
        lines.append(f"{name:<{width}}  {told}")
    return "\n".join(lines)
