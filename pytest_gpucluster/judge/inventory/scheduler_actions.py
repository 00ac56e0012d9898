"""Presuppositions of rows about preemption and reclaim: the action in the scheduler's configuration."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import evictions
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.inventory import scheduler_config
from pytest_gpucluster.requirement import Cause, Presupposed


def preempt_configured(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the scheduler is configured to preempt."""
    return _configured(evidence, given, evictions.PREEMPT)


def reclaim_configured(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the scheduler is configured to reclaim between queues."""
    return _configured(evidence, given, evictions.RECLAIM)


def _configured(evidence: Evidence, given: subjects.Given, action: str) -> Presupposed:
    """Say whether an action is configured: it was seen to act, or the configuration names it."""
    del given
    name = f"the scheduler's configuration has the action {action}"
    acted = next((one for one in evictions.taken(evidence) if one.why == action), None)
    if acted is not None:
        return wording.presupposed(
            name, held=True, observed=f"it took {acted.pod.name}", evidence=(acted.key,)
        )
    found = scheduler_config.read(evidence)
    if isinstance(found, str):
        return wording.presupposed(name, held=None, observed=f"unknown: {found}")
    listed = f"actions {', '.join(found.actions)}"
    if action in found.actions:
        return wording.presupposed(name, held=True, observed=listed, evidence=(found.answer.line.key,))
    cause = Cause(
        f"the action {action} is not in the scheduler's configuration, as Volcano is shipped",
        f"add {action} to `actions` of volcano-scheduler.conf (kubectl -n volcano-system edit configmap "
        "volcano-scheduler-configmap), with conformance, priority, gang and proportion in one tier in this order and "
        "without `enablePreemptable: false` at gang",
    )
    return wording.presupposed(
        name,
        held=False,
        observed=f"{listed}: no {action}",
        causes=(cause,),
        evidence=(found.answer.line.key,),
    )
