"""Elastic jobs that end: one whose rank fails each time, and one that keeps its store inside a worker."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.elastic import flapping, inert, storm
from pytest_gpucluster.judge.elastic.presuppositions import store_answers

from ..scenarios.elastic_ends import elastic_ends


@requirement(
    "ELA-004",
    level="must",
    documents="E R",
    scenario=elastic_ends,
    judge=storm.bounded,
    presupposes=[presuppositions.pods_ran, store_answers],
)
def test_a_restart_storm_is_bounded(settle: Callable[[], None]) -> None:
    """A restart storm is bounded.

    A rank that fails each time MUST be started again at most as often as `--max-restarts` says. Then every agent MUST
    end with a code other than 0, and no pod MUST be started again. A job that meets at the same store MUST NOT notice.
    """
    settle()


@requirement(
    "ELA-007",
    level="control",
    documents="E",
    scenario=elastic_ends,
    judge=inert.ends_with_its_host,
    presupposes=[presuppositions.pods_ran],
)
def test_a_store_inside_a_worker_ends_the_run(settle: Callable[[], None]) -> None:
    """A store inside a worker ends the run with its host, and this is detected.

    A job whose c10d store is inside its first worker trains. When that worker is lost every other one MUST be seen to
    end: what ELA-001 asks for is not to be had that way.
    """
    settle()


@requirement(
    "ELA-009",
    level="should",
    documents="E",
    scenario=elastic_ends,
    judge=flapping.detected,
    presupposes=[presuppositions.pods_ran, store_answers],
)
def test_reforming_without_progress_is_detected(settle: Callable[[], None]) -> None:
    """Re-forming without progress is detected.

    A job whose worlds form again and again without a new step SHOULD be seen to flap, with the member behind it. A job
    that takes steps in between SHOULD NOT.
    """
    settle()
