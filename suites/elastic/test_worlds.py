"""One elastic job through its life: smaller, whole again, below its minimum, and back at its checkpoint."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.elastic import client, floor, growth, resume, shrink, store_node
from pytest_gpucluster.judge.elastic.presuppositions import store_answers

from ..scenarios.elastic_training import elastic_training


@requirement(
    "ELA-001",
    level="must",
    documents="E",
    scenario=elastic_training,
    judge=shrink.goes_on,
    presupposes=[presuppositions.pods_ran, store_answers],
)
def test_a_lost_worker_shrinks_the_world(settle: Callable[[], None]) -> None:
    """A lost worker shrinks the world, which goes on.

    When a worker is killed and cannot be placed again, or a Job is given fewer members, the workers that are left MUST
    form a smaller world of at least the declared minimum, and take their next step in the declared time. How long it
    took to notice, to form and to step, the steps lost and the restarts used are reported.
    """
    settle()


@requirement(
    "ELA-002",
    level="must",
    documents="E",
    scenario=elastic_training,
    judge=growth.grows,
    presupposes=[presuppositions.pods_ran, store_answers],
)
def test_the_world_grows_when_room_returns(settle: Callable[[], None]) -> None:
    """The world grows when room returns.

    When the missing worker can run again, the world MUST form anew with it and take its next step in the declared time
    of the worker's start.
    """
    settle()


@requirement(
    "ELA-003",
    level="must",
    documents="E",
    scenario=elastic_training,
    judge=floor.stalls_bounded,
    presupposes=[presuppositions.pods_ran, store_answers],
)
def test_below_the_minimum_a_job_stalls_visibly(settle: Callable[[], None]) -> None:
    """Below its minimum a Job stalls visibly and not forever.

    With fewer workers than the minimum no step MUST be taken. Each worker that is left MUST end within its time to
    join, with a code other than 0, and its log MUST say that it waited in vain.
    """
    settle()


@requirement(
    "ELA-005",
    level="must",
    documents="E",
    scenario=elastic_training,
    judge=store_node.off_gpu_nodes,
    presupposes=[presuppositions.pods_ran, store_node.other_nodes],
)
def test_the_store_stays_off_gpu_nodes(settle: Callable[[], None]) -> None:
    """The rendezvous store stays off the GPU nodes.

    The pod that keeps the membership of elastic jobs MUST ask for no GPU and MUST run on a node that offers none.
    """
    settle()


@requirement(
    "ELA-006",
    level="must",
    documents="E",
    scenario=elastic_training,
    judge=client.in_the_image,
    presupposes=[presuppositions.pods_ran],
)
def test_the_image_has_the_rendezvous_client(settle: Callable[[], None]) -> None:
    """The training image has the rendezvous client.

    Each worker asks its own image, before its agent starts. The image MUST have torch and what the declared backend
    needs beside it, and all of it MUST be importable.
    """
    settle()


@requirement(
    "ELA-008",
    level="must",
    documents="E P",
    scenario=elastic_training,
    judge=resume.continues,
    presupposes=[presuppositions.pods_ran, store_answers],
)
def test_training_resumes_from_the_checkpoint(settle: Callable[[], None]) -> None:
    """Training resumes from the checkpoint after a re-form.

    Each world that forms after another one MUST go on with the step after the newest checkpoint, on all of its ranks.
    The loss of every step MUST agree with training that was never interrupted.
    """
    settle()
