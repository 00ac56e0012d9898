"""What is taken from gangs that run, for others."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.inventory import scheduler_actions
from pytest_gpucluster.judge.refusal import preemption
from pytest_gpucluster.judge.refusal.fair_share import shares_by_weight

from ..scenarios.contention import fair_share, priorities


@requirement(
    "REF-006",
    level="should",
    documents="+",
    schedulers=["volcano"],
    scenario=priorities,
    judge=preemption.whole_or_surplus,
    presupposes=[scheduler_actions.preempt_configured],
)
def test_preemption_never_leaves_half_a_gang(settle: Callable[[], None]) -> None:
    """Preemption and reclaim leave no half gang.

    Preemption and reclaim SHOULD take a whole gang, or only its members above minAvailable, and never leave it with
    fewer. Presupposes the action in the scheduler's configuration.
    """
    settle()


@requirement(
    "REF-009",
    level="should",
    documents="P",
    schedulers=["volcano"],
    scenario=fair_share,
    judge=shares_by_weight,
    presupposes=[scheduler_actions.reclaim_configured],
)
def test_queues_share_by_weight(settle: Callable[[], None]) -> None:
    """Fair share.

    Two queues of weight 1 and 3 that both want more SHOULD hold 1 : 3, with a tolerance of one gang's size. What the
    first borrowed while the second wanted nothing SHOULD be given back. Presupposes the action reclaim in the
    scheduler's configuration: without it, gangs that do not end give nothing back.
    """
    settle()
