"""Folders: of profiles, from the present one up to the root of the project; and of the data that is shipped."""

from collections.abc import Iterator
from pathlib import Path

PROFILES = "clusters"
"""Folder beside others that holds the profile files of a project."""

ROOT_FILES = (
    "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py",
)  # fmt: skip
"""Files of which one lies in the root folder of a project, as pytest sees it."""


def upwards(here: Path, root: Path) -> Iterator[Path]:
    """Yield the folders in which a profile is looked for; the nearest comes first.

    Args:
        here: the present folder.
        root: root of the project; where `here` is not inside it, only the two themselves are looked through.
    """
    between = [each for each in (here, *here.parents) if each.is_relative_to(root)] or [here, root]
    for folder in between:
        yield folder / PROFILES
        yield folder


def root_of(here: Path) -> Path:
    """Return the root of the project around a folder: the nearest one above with a file of a project, or itself."""
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in ROOT_FILES):
            return folder
    return here


def shipped(name: str) -> Path:
    """Return a folder of `fixtures`, which is inside the package once installed and beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "data" / name
    return inside if inside.is_dir() else package.parent / "fixtures" / name
