"""Lists that are shipped as data, such as floors and peaks: found in a checkout and in an installed package."""

from typing import Any

import yaml

from pytest_gpucluster.plain import folders


class ShippedError(Exception):
    """A list that is not where it should be; the text is one line."""


def load(name: str, folder: str = "floors") -> Any:
    """Return what a file of a folder of `fixtures` holds.

    Raises:
        ShippedError: there is none of that name, in a checkout or in an installed package.
    """
    path = folders.shipped(folder) / f"{name}.yaml"
    if not path.is_file():
        raise ShippedError(f"no list {name!r} in {path.parent}")
    return yaml.safe_load(path.read_text(encoding="utf-8"))
