"""Lists that are shipped as data, such as floors and peaks: found in a checkout and in an installed package."""

import pathlib
from typing import Any

import yaml


class ShippedError(Exception):
    """A list that is not where it should be; the text is one line."""


def load(name: str) -> Any:
    """Return what a file of `fixtures/floors` holds.

    Raises:
        ShippedError: there is none of that name, in a checkout or in an installed package.
    """
    package = pathlib.Path(__file__).resolve().parent.parent
    for folder in (package / "data" / "floors", package.parent / "fixtures" / "floors"):
        path = folder / f"{name}.yaml"
        if path.is_file():
            return yaml.safe_load(path.read_text(encoding="utf-8"))
    raise ShippedError(f"no list {name!r} in or beside {package}")
