"""Ids that somebody typed and that there are not."""

import pytest

from pytest_gpucluster.requirement import catalogue, row_ids

IDS = [row.id for row in catalogue.rows()]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("GANG-02", "GANG-002"), ("gang_002", "GANG-002"), ("GNAG-002", "GANG-002"), ("LIFE-0O3", "LIFE-003"),
        ("fab1", "FAB-001"), ("RDZ-001", "RDZV-001"),
    ],
)  # fmt: skip
def test_the_nearest_is_of_the_area_that_was_meant(word, meant):
    """What is told beside it is of the same area, too."""
    assert row_ids.nearest(word, IDS) == meant
    told = row_ids.hint(word, IDS)
    assert told.startswith(f"; did you mean {meant!r}?")
    assert set(told.partition("(allowed: ")[2].replace(",", " ").split()) & set(IDS) <= {
        each for each in IDS if each.startswith(meant.partition("-")[0])
    }


@pytest.mark.parametrize("word", ["XYZ-001", "NOPE", "Q-7", "1", "", "-", "training-1234", "ЯЖ-001"])
def test_an_id_like_none_is_answered_with_the_areas(word):
    """Ids of an area that has nothing to do with the word would lead astray."""
    assert row_ids.nearest(word, IDS) is None
    told = row_ids.hint(word, IDS)
    assert "did you mean" not in told
    assert "areas INV, GANG, REF" in told
    assert not [each for each in IDS if each in told]


def test_an_area_alone_is_answered_with_its_ids():
    """No number was typed, so none is near."""
    assert row_ids.nearest("gang", IDS) is None
    assert row_ids.hint("gang", IDS) == f" (allowed: {', '.join(i for i in IDS if i.startswith('GANG'))})"
