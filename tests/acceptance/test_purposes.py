"""Purposes cover every area once."""

from pytest_gpucluster.acceptance.policy import AREA_NAMES
from pytest_gpucluster.acceptance.purposes import PURPOSES


def test_each_area_shows_one_purpose():
    """An area of no purpose would be asked for and answered nowhere."""
    areas = [area for areas in PURPOSES.values() for area in areas]
    assert sorted(areas) == sorted(AREA_NAMES)
