"""Time stamps and durations."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.plain import times


@given(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001
def test_a_time_stamp_survives_the_round_trip(when):
    """A formatted time stamp reads back as the same instant, to the second or the microsecond."""
    when = when.replace(tzinfo=UTC)
    assert times.parse_time(times.format_time(when, micro=True)) == when
    assert when - times.parse_time(times.format_time(when)) < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("5s", 5), ("250ms", 0.25), ("1h30m", 5400), ("0.5s", 0.5)]
)
def test_a_duration_is_read_in_seconds(text, seconds):
    """The notations that people write."""
    assert times.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5 s", "s5", "1x", "-5s"])
def test_what_is_no_duration_is_refused_with_examples(text):
    """A wrong duration is answered with right ones."""
    with pytest.raises(ValueError, match="examples"):
        times.parse_duration(text)
