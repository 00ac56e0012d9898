"""The gang rows on evidence of native gangs: right as recorded, and turned by mutants as the table says.

The matrix of `test_mutants` has the evidence of Volcano's gangs; what differs for native ones stands here.
"""

import functools

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import read
from pytest_gpucluster.report import decisions
from tests.defects import matrix

pytestmark = pytest.mark.xdist_group("recordings")

RECORDED = matrix.RECORDED.parent / "embedded-native"
"""Evidence of a run of the suite on the embedded cluster with `scheduler=native`."""

SCENARIOS = {
    "INV-001": "probe",
    "GANG-002": "scarce",
    "GANG-003": "minimums",
    "GANG-004": "two-gangs",
    "REF-001": "over-large",
}
"""Row -> scenario."""

UNDECIDED = dict.fromkeys(("GANG-002", "GANG-003", "GANG-004", "REF-001"), "inconclusive")
HALF = dict.fromkeys(("GANG-002", "GANG-003", "GANG-004"), "fail")

FLIPS = {
    "control.never-runs": {"REF-001": "environment"},
    "control.winner-never-runs": {"GANG-004": "inconclusive"},
    "gang.bind-one-early": {**HALF, "REF-001": "fail"},
    "gang.binds-apart": HALF,
    "gang.never-bound": dict.fromkeys(HALF, "inconclusive"),
    "inventory.api-not-served": {"INV-001": "fail"},
    "inventory.never-reported": {"GANG-002": "inconclusive"},
    "inventory.node-not-ready": {"GANG-002": "inconclusive"},
    "inventory.one-node": {"GANG-002": "inconclusive"},
    "member.failed": dict.fromkeys(("GANG-002", "GANG-004"), "inconclusive"),
    "member.started-again": {"GANG-004": "inconclusive"},
    "moment.stray-bound": {**HALF, "REF-001": "fail"},
    "refusal.forget-control": {"GANG-004": "inconclusive", "REF-001": "inconclusive"},
    # The trap: the condition reads as before, and the policy promises nothing.
    "trainer.basic-policy": {**UNDECIDED, "INV-001": "fail"},
    "watch.cut": UNDECIDED,
    # The condition of the PodGroup is the scheduler's only answer, also to what it places.
    "watch.drop-refusals": {**UNDECIDED, "INV-001": "inconclusive"},
}
"""Mutant -> {row: verdict}; every other mutant leaves these rows as they are."""


@functools.cache
def evidence(scenario):
    """Return the recorded evidence of a scenario."""
    return read(RECORDED / f"{scenario}.jsonl")


@functools.cache
def rows():
    """Return the rows by id."""
    return {row.id: row for row in matrix.rows() if row.id in SCENARIOS}


def test_every_row_passes_on_the_recorded_evidence():
    """The table starts from a run in which all is well."""
    found = {
        name: str(decisions.decide(row, evidence(SCENARIOS[name])).verdict) for name, row in rows().items()
    }
    assert found == dict.fromkeys(SCENARIOS, "pass")


@pytest.mark.parametrize("mutant", sorted(mutants.MUTANTS))
def test_a_mutant_flips_exactly_its_rows(mutant):
    """The rows of the table get their verdict, every other row keeps its pass."""
    act = mutants.MUTANTS[mutant].act
    found = {}
    for name, row in rows().items():
        before = evidence(SCENARIOS[name])
        after = act(before)
        if not matrix.untouched(before, after):
            verdict = str(decisions.decide(row, after).verdict)
            if verdict != "pass":
                found[name] = verdict
    assert found == FLIPS.get(mutant, {})
