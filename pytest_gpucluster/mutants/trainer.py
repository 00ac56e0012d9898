"""Departures of further schedulers."""

from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names


def basic_policy(evidence: Evidence) -> Evidence:
    """Let every native PodGroup have the basic policy: its condition reads as before, and promises nothing."""

    def basic(obj: dict[str, Any]) -> None:
        obj["spec"]["schedulingPolicy"] = {"basic": {}}

    return base.each(evidence, lambda line: line.kind == names.NATIVE_POD_GROUP, basic)


def untried(evidence: Evidence) -> Evidence:
    """Take the notes away that say whose gangs were tried."""
    return base.without(evidence, lambda line: line.data.get("note") == "tries")


MUTANTS: base.Table = {
    "trainer.basic-policy": base.Mutant(
        "native PodGroups have the basic policy", basic_policy, {"TRN-003": "inconclusive"}
    ),
    "trainer.untried": base.Mutant(
        "nothing says which scheduler's gangs were tried", untried, {"TRN-003": "inconclusive"}
    ),
}
