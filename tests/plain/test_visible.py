"""Characters that steer a terminal are shown, and JSON stays what it says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.plain import visible

STEERING = [
    "\x00",
    "\x07",
    "\x08",
    "\r",
    "\x1b",
    "\x7f",
    "\x9b",
    "\x9d",
    "\xad",
    "\u200b",
    "\u200f",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\ud800",
    "\udfff",
    "\U000e0041",
]


@pytest.mark.parametrize("character", STEERING)
def test_a_character_that_steers_is_shown(character):
    """As Python writes it; in JSON as JSON does."""
    shown = visible.text(f"a{character}b")
    assert character not in shown
    assert shown.isprintable()
    assert shown[1:-1].encode().decode("unicode_escape") == character
    said = visible.json_text(json.dumps([f"a{character}b"], ensure_ascii=False))
    assert character not in said
    assert json.loads(said) == [f"a{character}b"]


def test_ordinary_text_is_kept():
    """Letters of every language, tabs, ends of lines, signs and pictures."""
    text = "a\tb\nc \u00e9 \u4f60\u597d \u0645\u0631\u062d\u0628\u0627 \u2713 \U0001f600 <>&"
    assert visible.text(text) == text
    assert visible.data({"a": [text, 1, None, {"b": text}]}) == {"a": [text, 1, None, {"b": text}]}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_shown_once_is_shown_for_good(value):
    """A record that is read and written again stays the same, and JSON says the same as before."""
    once = visible.data(value)
    assert visible.data(once) == once
    assert json.loads(visible.json_text(json.dumps(value, ensure_ascii=False))) == json.loads(
        json.dumps(value)
    )
