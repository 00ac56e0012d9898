"""Metrics of GPUs, as their exporters answer them."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.health import metrics as judge
from pytest_gpucluster.judge.inventory import gpu_count

from ..scenarios.metrics import metrics


@requirement(
    "HLT-003",
    level="must",
    documents="R P",
    scenario=metrics,
    judge=judge.present_and_fresh,
    presupposes=[gpu_count.nodes_listed],
)
def test_metrics_of_every_gpu_are_present_and_fresh(settle: Callable[[], None]) -> None:
    """Metrics of every GPU are present and fresh.

    The exporter of each GPU node MUST answer with the metrics that the profile names, or else with energy, temperature,
    power and used memory, of as many GPUs as the node has. The energy that a GPU has used always rises: it MUST have
    risen within the declared time (`metrics.fresh`) between two requests. Times that stand behind samples, and what
    cannot be told, leave the row undecided.
    """
    settle()
