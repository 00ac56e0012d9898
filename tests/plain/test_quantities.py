"""Quantities are exact."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.plain.quantities import QuantityError, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), (9, 9), ("500m", Fraction(1, 2)), ("1Gi", 2**30), ("1.5Ki", 1536), ("1e3", 1000),
        ("2E", 2 * 10**18), ("3E2", 300), ("+1", 1), ("-2", -2), ("100n", Fraction(1, 10**7)), (".5", Fraction(1, 2)),
    ],
)  # fmt: skip
def test_a_quantity_has_the_value_that_kubernetes_gives_it(text, value):
    """Every notation of the API gives its exact value."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1GiB", "1K", "--1", "1e", True, "Gi", "1.2.3"])
def test_what_is_no_quantity_is_refused_and_named(text):
    """A text that is no quantity is an error that shows it."""
    with pytest.raises(QuantityError, match="not a quantity"):
        parse_quantity(text)


@given(st.integers(min_value=-(10**15), max_value=10**15), st.sampled_from(["", "m", "k", "Ki", "Mi", "G"]))
def test_formatting_keeps_the_value(number, suffix):
    """A parsed quantity, formatted and parsed again, is the same to a thousandth."""
    exact = parse_quantity(f"{number}{suffix}")
    assert parse_quantity(format_quantity(exact)) == exact


@given(st.fractions(min_value=0, max_value=1000))
def test_formatting_never_understates(value):
    """A fraction finer than a thousandth is rounded up: asking for less than needed would be wrong."""
    assert parse_quantity(format_quantity(value)) >= value


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_clean_error(text):
    """No text makes the parser fail in another way."""
    value: Fraction | None = None
    with contextlib.suppress(QuantityError):
        value = parse_quantity(text)
    assert value is None or parse_quantity(format_quantity(value)) >= value
