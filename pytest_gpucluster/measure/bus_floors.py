"""Shipped floors of bus bandwidth, as data."""

from typing import Any

from pytest_gpucluster.measure import shipped as lists
from pytest_gpucluster.plain import folders


class FloorsError(Exception):
    """A list of floors that is not where it should be; the text is one line."""


def shipped(name: str) -> list[dict[str, Any]]:
    """Return the floors of a shipped list, such as `bus_bandwidth`.

    Raises:
        FloorsError: there is none of that name, in a checkout or in an installed package.
    """
    try:
        return [dict(one) for one in lists.load(name)]
    except lists.ShippedError:
        raise FloorsError(f"no list of floors {name!r} in {folders.shipped('floors')}") from None
