"""How fast GPUs are, how fast training on them is, and whether the figures can be true."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.mfu import baseline, gemm, possible_figures, train_step

from ..scenarios.speed import speed


@requirement(
    "MFU-001",
    level="must",
    documents="R",
    scenario=speed,
    judge=gemm.reach_the_floor,
    presupposes=[presuppositions.pods_ran],
)
def test_products_of_every_gpu_reach_the_floor(settle: Callable[[], None]) -> None:
    """Every GPU multiplies as fast as declared.

    While all GPUs work at the same time, the sustained throughput of matrix products MUST reach the declared floor on
    every GPU. The GPUs of one node MUST NOT differ by more than declared. The finding names the slow GPU.
    """
    settle()


@requirement(
    "MFU-002",
    level="must",
    documents="R",
    scenario=speed,
    judge=train_step.reaches_the_floor,
    presupposes=[presuppositions.pods_ran],
)
def test_a_training_step_reaches_the_floor(settle: Callable[[], None]) -> None:
    """A real training step reaches its utilisation.

    A sharded decoder of the declared size MUST reach the declared floor of model FLOPs utilisation, without credit
    for recomputation. Its loss MUST fall and be the same on all ranks.
    """
    settle()


@requirement(
    "MFU-003",
    level="must",
    documents="R",
    scenario=speed,
    judge=possible_figures.possible,
    presupposes=[presuppositions.pods_ran],
)
def test_figures_are_possible(settle: Callable[[], None]) -> None:
    """Impossible and unknown figures do not pass.

    A figure MUST NOT pass if it is not a finite number, contradicts its own counts or is above the dense peak. It
    MUST NOT pass either if it comes from an unknown GPU or from too few windows or steps, or if clocks were held
    back.
    """
    settle()


@requirement(
    "MFU-006",
    level="should",
    documents="R",
    scenario=speed,
    judge=baseline.not_fallen,
    presupposes=[presuppositions.pods_ran],
)
def test_no_figure_has_fallen(settle: Callable[[], None]) -> None:
    """No figure has fallen against the baseline.

    Products and training SHOULD be no slower than in the declared baseline report of the same node shape, except for
    the allowed loss.
    """
    settle()
