"""What rows about gangs presuppose of the installation: a scheduler that answers."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.requirement import Presupposed, Verdict


def scheduler_answers(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the gang scheduler looked at what was submitted."""
    name = "the gang scheduler answers"
    phase = scheduler_parts.phase_given(evidence, given)
    held = {Verdict.PASS: True, Verdict.FAIL: False}.get(phase.verdict)
    return wording.presupposed(
        name, held=held, observed=phase.observed, causes=phase.causes, evidence=phase.evidence
    )
