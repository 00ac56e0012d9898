"""What would fit is reckoned from nodes, pods and queues; what never will is said; nothing is called fine unread."""

import pytest

from pytest_gpucluster import diagnose
from tests.diagnose import reckoned_jobs, reckoned_queues, reckoned_rooms, reckoned_states

SITUATIONS = {
    **reckoned_rooms.ROOMS, **reckoned_queues.QUEUES, **reckoned_jobs.JOBS, **reckoned_states.STATES,
}  # fmt: skip


@pytest.mark.parametrize("situation", sorted(SITUATIONS))
def test_a_situation_is_reckoned(situation: str):
    """State and first cause are right; the text names what it must, and no good news where there is none."""
    make, state, code, names, spares = SITUATIONS[situation]
    found = make().diagnose()
    text = " ".join(diagnose.render(found).split())
    assert found.state.value == state, text
    assert (found.suspects[0].code if found.suspects else "") == code, text
    for word in names:
        assert word in text, text
    for word in spares:
        assert word not in text, text


@pytest.mark.parametrize("absent", ["Node", "Queue", "Event", "Pod"])
def test_nothing_is_called_unbroken_where_a_part_is_missing(absent: str):
    """Of a gang that waits because its room is taken: without one of the parts, what is seen is only a part."""
    cluster = reckoned_states.waits_rightly()
    assert "nothing is broken" in diagnose.render(cluster.diagnose())
    assert "nothing is broken" not in diagnose.render(cluster.drop(absent).diagnose())
