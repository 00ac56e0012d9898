"""What rows about scarcity presuppose: the gang gate was reached."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import gates
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Presupposed


def gang_gate_reached(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether some gang was held at the gang gate: all members made, unbound, and the gang scheduler said why."""
    name = "the gang gate was reached"
    refused = ""
    limits = subjects.of(evidence, given)
    for gang in subjects.of_the_row(evidence, given):
        for gen in gang.generations:
            reading = gates.read(evidence, gang, gen)
            held = reading.held
            tried = held is not None and (held.seconds > limits.period or not held.bound_after)
            if held and held.said and tried and reading.scheduler.whole and gang.minimum > 1:
                text = (
                    f"{gang.name} was held at the gang gate from t={held.said.t:.2f} s ({held.seconds:.1f} s)"
                )
                return wording.presupposed(name, held=True, observed=text, evidence=(held.said.key,))
            if reading.enqueue:
                said = reading.enqueue[0]
                refused = f"{gang.name} was refused before the gang gate: at enqueue, {said.message}"
    return wording.presupposed(name, held=None, observed=refused or "no gang was held at the gang gate")
