"""Label selectors in both notations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.plain.selectors import SelectorError, matches_labels, parse_selector

LABELS = {"app": "train", "tier": "gpu", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=train", True), ("app==train", True), ("app!=train", False), ("nosuch!=x", True), ("app", True),
        ("!app", False), ("!nosuch", True), ("tier in (cpu, gpu)", True), ("tier notin (cpu,gpu)", False),
        ("app=train,tier=gpu,!x", True), ("app=train,tier=cpu", False), ("empty=", True), ("", True),
    ],
)  # fmt: skip
def test_a_query_selects_what_kubectl_would(text, matches):
    """Every operator of the query notation."""
    assert matches_labels(parse_selector(text), LABELS) is matches


@pytest.mark.parametrize("text", ["=x", "a in b", "a=b=c", "a,,b", "a=b c"])
def test_a_broken_query_is_one_clear_error(text):
    """What is no selector is refused with its text."""
    with pytest.raises(SelectorError, match="not a label selector"):
        parse_selector(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.from_regex(r"[a-z]{0,5}", fullmatch=True)
    )
)
def test_equality_terms_select_exactly_their_labels(wanted):
    """A query made of a label set matches that set and no set that lacks one of it."""
    selector = parse_selector(",".join(f"{k}={v}" for k, v in wanted.items()))
    assert matches_labels(selector, wanted)
    for key in wanted:
        assert not matches_labels(selector, {k: v for k, v in wanted.items() if k != key})
