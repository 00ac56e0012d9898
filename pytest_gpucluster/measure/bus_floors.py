"""Shipped floors of bus bandwidth, as data."""

import pathlib
from typing import Any

import yaml


class FloorsError(Exception):
    """A list of floors that is not where it should be; the text is one line."""


def shipped(name: str) -> list[dict[str, Any]]:
    """Return the floors of a shipped list, such as `bus_bandwidth`.

    Raises:
        FloorsError: there is none of that name, in a checkout or in an installed package.
    """
    package = pathlib.Path(__file__).resolve().parent.parent
    for folder in (package / "data" / "floors", package.parent / "fixtures" / "floors"):
        path = folder / f"{name}.yaml"
        if path.is_file():
            listed = yaml.safe_load(path.read_text(encoding="utf-8"))
            return [dict(one) for one in listed]
    raise FloorsError(f"no list of floors {name!r} in or beside {package}")
