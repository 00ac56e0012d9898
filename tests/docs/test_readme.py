"""The numbers of the README: rows, areas and versions are those of the suite, the catalogue and the recordings."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from pytest_gpucluster.embedded.kueue import names as kueue
from pytest_gpucluster.embedded.volcano import names as volcano
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import AREAS, catalogue, is_site

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "fixtures" / "recorded"
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
SPELT = {"kueue": "Kueue", "numa": "NUMA", "mfu": "speed"}
"""Area -> how the README calls it, if not by its name."""


def _spelt(areas: list[str]) -> str:
    *most, last = [SPELT.get(area, area) for area in areas]
    return f"{', '.join(most)} and {last}" if most else last


@pytest.fixture(scope="module")
def areas() -> dict[str, tuple[int, int]]:
    """Return area -> how many of its rows are built, and how many the catalogue has."""
    built = Counter(row.area for row in load_suites() if not is_site(row.id))
    known = Counter(AREAS[row.id.partition("-")[0]][0] for row in catalogue.rows())
    return {area: (built[area], count) for area, count in known.items()}


def test_rows_are_counted(areas: dict[str, tuple[int, int]]) -> None:
    """How much of the catalogue is built."""
    built, known = (sum(counts) for counts in zip(*areas.values(), strict=True))
    assert f"{built} of {known} rows are built" in README


def test_areas_are_named_that_are_built_and_that_are_not(areas: dict[str, tuple[int, int]]) -> None:
    """An area of which most rows are built, one of which none is, and one of which most are missing."""
    most = [area for area, (built, known) in areas.items() if 2 * built > known]
    none = [area for area, (built, _) in areas.items() if not built]
    few = [area for area, (built, known) in areas.items() if built and 2 * built <= known]
    assert re.search(rf"rows are built: {_spelt(most)};", README)
    others = ", ".join([*none, *([f"most of {_spelt(few)}"] if few else [])])
    assert f"the others{f' ({others})' if others else ''} are listed" in README


@pytest.mark.parametrize(
    ("name", "folder", "followed"),
    [
        ("Volcano", "volcano", volcano.VERSION),
        ("Kueue", "kueue", kueue.VERSION),
        ("Kubernetes", "kubernetes", ""),
    ],
)
def test_versions_are_those_that_were_recorded(name: str, folder: str, followed: str) -> None:
    """The embedded cluster says that it is that version, and there is a recording of no other."""
    (recorded,) = [each.name for each in (RECORDED / folder).iterdir() if each.is_dir()]
    assert not followed or followed == recorded
    told = re.search(rf"follows recordings of .*?\b{name} (v?[0-9][0-9.]*[0-9])", README)
    assert told is not None
    assert told[1].removeprefix("v") == recorded.removeprefix("v")


def test_the_least_python_is_that_of_the_package() -> None:
    """Which Python the two commands need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = project["requires-python"].removeprefix(">=")
    assert f"Python {least} or later" in README
