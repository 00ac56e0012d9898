"""Each kind of trouble in other words and numbers: what is asserted is told from its neighbours."""

import pytest

from pytest_gpucluster import diagnose
from tests.diagnose import (
    kinds_asked,
    kinds_elastic,
    kinds_met,
    kinds_placed,
    kinds_printed,
    kinds_pulled,
    kinds_said,
    kinds_saved,
    kinds_stalled,
    kinds_started,
    kinds_wired,
)

KINDS = {
    **kinds_asked.KINDS,
    **kinds_placed.KINDS,
    **kinds_started.KINDS,
    **kinds_said.KINDS,
    **kinds_saved.KINDS,
    **kinds_met.KINDS,
    **kinds_stalled.KINDS,
    **kinds_wired.KINDS,
    **kinds_printed.KINDS,
    **kinds_pulled.KINDS,
    **kinds_elastic.KINDS,
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_told_from_its_neighbours(kind: str):
    """State and first cause are right; the text names what it must, and spares whom it must."""
    plant, state, code, names, spares = KINDS[kind]
    found = plant().diagnose()
    text = " ".join(diagnose.render(found).split())
    assert found.state.value == state, text
    assert (found.suspects[0].code if found.suspects else "") == code, text
    for word in names:
        assert word in text, text
    for word in spares:
        assert word not in text, text


@pytest.mark.parametrize("name", sorted(kinds_elastic.SPARED))
def test_an_elastic_job_that_is_well_is_not_accused(name: str):
    """Neighbours of these kinds: one restart, one newcomer, enough workers, a store where it belongs."""
    plant, codes = kinds_elastic.SPARED[name]
    found = plant().diagnose()
    told = {one.code for one in (*found.suspects, *found.notes)}
    assert not told & set(codes), diagnose.render(found)


@pytest.mark.parametrize("name", sorted(kinds_elastic.NOTED))
def test_a_note_of_an_elastic_job(name: str):
    """What is worth knowing of a job that goes on."""
    plant, code, text = kinds_elastic.NOTED[name]
    found = plant().diagnose()
    assert code in {one.code for one in found.notes}, diagnose.render(found)
    assert text in " ".join(diagnose.render(found).split())
