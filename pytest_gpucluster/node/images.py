"""The table that maps image names to programs of this machine."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from pytest_gpucluster.node.config import Image


def resolve(table: Mapping[str, Image], name: str) -> Image | None:
    """Return what an image name stands for, or None where the table does not have it.

    An exact name wins over patterns; among patterns the longest wins, so that `*` is the last resort.
    """
    exact = table.get(name)
    if exact is not None:
        return exact
    matching = [pattern for pattern in table if fnmatchcase(name, pattern)]
    return table[max(matching, key=len)] if matching else None
