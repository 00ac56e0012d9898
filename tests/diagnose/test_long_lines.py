"""A line that does not end is read in a time that grows with its length, not with its square."""

import time

import pytest

from tests.diagnose.planting import Dump

LENGTH = 100_000
"""Characters: what a rule that starts anew at each word takes half a minute for."""
MOST = 10.0
"""Seconds; a rule that reads the line once takes less than one."""


@pytest.mark.parametrize("word", ["lib", "connect ", "NCCL WARN ", "lookup ", "/a", "No such file: "])
def test_a_long_line_is_read_quickly(word: str):
    """One word over and over, of those with which rules begin."""
    dump = Dump()
    dump.say(dump.workers[0], word * (LENGTH // len(word))).end(dump.workers[0], 1)
    start = time.monotonic()
    dump.diagnose()
    assert time.monotonic() - start < MOST
