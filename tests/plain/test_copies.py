"""A copy of a JSON value is equal to it and shares nothing that can be changed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.plain.copies import clone

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner))


def holders(value: Any) -> list[int]:
    """Return which dicts and lists a value is made of."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [id(value), *(each for one in inner for each in holders(one))]


@given(JSON)
def test_a_copy_is_equal_and_its_own(value: Any) -> None:
    """At any depth."""
    copied = clone(value)
    assert copied == value
    assert not {*holders(copied)} & {*holders(value)}
