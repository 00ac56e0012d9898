"""GANG-012: a gang that requires one domain of the network is placed whole in one, or not at all."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.judge.gang import topology_domain
from pytest_gpucluster.requirement import Finding


@subjects.judge
def stays_in_one_domain(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-012."""
    trial = topology_domain.declared(evidence, given)
    if isinstance(trial, Finding):
        return trial
    inside = subjects.cast(evidence, given, "subject") or ()
    across = subjects.cast(evidence, given, "across") or ()
    return topology_domain.decide(trial, inside, across)
