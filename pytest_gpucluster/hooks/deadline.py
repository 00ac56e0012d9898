"""The deadline of a run: after it no scenario is begun, and what is left is named and never green."""

from typing import TYPE_CHECKING

import pytest

from pytest_gpucluster.hooks import state
from pytest_gpucluster.plain import times

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run
    from pytest_gpucluster.requirement.declare import ScenarioLike

REASON = "deadline"
"""First word of the reason in the record."""


def passed(run: "Run", scenario: "ScenarioLike | None" = None) -> str:
    """Return why nothing more is begun, "" before the deadline or for evidence that is there already.

    Args:
        run: the run.
        scenario: the scenario that would be begun; None for a test of the site's own.
    """
    limit = run.settings.deadline
    if limit is None or run.settings.reuse is not None:
        return ""
    # The clock on the wall is the one that all workers share.
    over = times.now().timestamp() - run.began
    if over <= limit or (scenario is not None and run.evidence_of(scenario.name).exists()):
        return ""
    return f"{REASON}: {limit:g} s were over before its turn came (--gpucluster-deadline)"


def leave_out(item: pytest.Item, run: "Run", case: state.Case, why: str) -> None:
    """Record a row as not run.

    Raises:
        Outcome: always; it is red.
    """
    run.begin(state.selection_of(item.config), touch=False)
    case.settled = case.recorded = True
    run.journal.not_run(case.requirement, why)
    state.set_property(item, state.VERDICT_PROPERTY, state.NOT_RUN)
    raise state.Outcome(f"{case.requirement.id}: not run: {why}")
