"""Worlds, steps and changes of an elastic job, read from what its ranks told."""

import pytest

from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.evidence.training import elastic
from tests import recordings


def story(scenario: str, name: str) -> elastic.Training:
    """Return an elastic job of a recording."""
    evidence = recordings.embedded(scenario)
    gang = next(gang for gang in gangs.gangs(evidence) if gang.name == name)
    return elastic.training(evidence, gang)


def test_a_life_is_read_in_order():
    """Four worlds, what was done between them, and steps that never go back by more than a checkpoint."""
    job = story("elastic-training", "elastic-training")
    assert [world.size for world in job.worlds] == [3, 2, 3, 2]
    assert all(world.complete for world in job.worlds)
    assert [change.what for change in job.changes] == [
        elastic.LOST,
        elastic.BACK,
        elastic.SCALED,
        elastic.LOST,
    ]
    for old, new in zip(job.worlds, job.worlds[1:], strict=False):
        assert old.last is not None
        assert new.resumed is not None
        assert old.last.step - 4 < new.resumed <= old.last.step


def _world(name: str, at: float, *steps: int) -> elastic.World:
    told = tuple(
        elastic.Step(at + n, number, loss=1.0, unbroken=1.0, rank=0, uid="u", saved=False, key="")
        for n, number in enumerate(steps)
    )
    return elastic.World(name, 1, {}, told, {})


def _job(*worlds: elastic.World) -> elastic.Training:
    return elastic.Training(story("elastic-training", "elastic-training").gang, worlds, (), ())


@pytest.mark.parametrize(
    ("worlds", "flaps"),
    [
        ([(1, 2), (2, 3), (3, 4)], 0),
        ([(), (), ()], 3),
        ([(1, 2), (), (), ()], 3),
        ([(1, 2), (), (3,), (), ()], 0),
        # What is done again after a checkpoint is no progress.
        ([(1, 2, 3), (1, 2), (1, 2, 3), (2,)], 3),
        ([(1, 2, 3), (1, 2), (2, 3, 4), (4,)], 0),
        ([], 0),
    ],
)
def test_worlds_without_a_new_step_flap(worlds, flaps):
    """Three in a row, whatever came before or after."""
    made = [_world(str(n), 10.0 * n, *steps) for n, steps in enumerate(worlds)]
    assert len(elastic.flapping(_job(*made))) == flaps


def test_the_job_of_which_a_rank_fails_flaps_and_its_neighbours_do_not():
    """As recorded."""
    assert len(elastic.flapping(story("elastic-ends", "elastic-ends-storm"))) == 3
    assert not elastic.flapping(story("elastic-ends", "elastic-ends-inert"))
    assert not elastic.flapping(story("elastic-training", "elastic-training"))
