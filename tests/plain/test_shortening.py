"""Long messages as they are shown."""

import pytest

from pytest_gpucluster.plain import shortening

FILLER = "a b " * 400


@pytest.mark.parametrize("most", [80, 300, 400])
def test_both_ends_are_shown_and_what_is_left_out_is_said(most: int) -> None:
    """Of a long message its beginning and its end are shown, and how much stands between them."""
    short = shortening.shown(f"begin {FILLER} the end", most)
    assert short.startswith("begin")
    assert short.endswith("the end")
    assert " characters ...]" in short
    assert len(short) <= most


def test_what_fits_is_whole() -> None:
    """Nothing is cut that fits."""
    assert shortening.shown("as  it\nis") == "as it is"
