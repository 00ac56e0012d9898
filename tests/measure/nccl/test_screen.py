"""The screen lets through every line that says something, wherever chunks are cut."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.measure.nccl import cases, line_filter
from pytest_gpucluster.measure.nccl.line_filter import HEAD, LONGEST, Screen
from tests import amount, documents
from tests.measure.nccl import logs


def through(data: bytes, *sizes: int) -> list[tuple[bytes, bool]]:
    """Return what is let through of data in chunks of sizes, over and over."""
    sieve = Screen()
    found: list[tuple[bytes, bool]] = []
    at = 0
    turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)] if sizes else len(data)
        found += sieve.feed(data[at : at + size])
        at += size
        turn += 1
    found += sieve.close()
    return found


@amount.examples(60)
@given(st.data())
def test_where_chunks_are_cut_does_not_matter(data: st.DataObject) -> None:
    """Chunks of any size, also of one byte, give the same lines."""
    texts = [path.read_bytes() for path in (*logs.TWO_PODS, logs.ONE_NODE)]
    text = data.draw(st.sampled_from(texts))
    text = text[: data.draw(st.integers(0, len(text)))]
    sizes = data.draw(st.lists(st.integers(1, 700), min_size=1, max_size=5))
    assert through(text, *sizes) == through(text)


@pytest.mark.parametrize("where", ["head", "behind"])
@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST, 2 * LONGEST + 7])
def test_lines_of_any_length(where: str, length: int) -> None:
    """A line longer than a piece is read in the same pieces however it comes, and is told."""
    record = logs.record("Using network IB").encode()
    line = record + b" " + b"x" * (length - 2 * len(record) - 2) + b" " + record
    padding = b"" if where == "head" else b"step 1\n" * (HEAD // 7 + 10)
    data = padding + line + b"\n" + record + b"\n" + line
    expected = through(data)
    assert through(data, 65536) == expected
    assert through(data, 100_003, 7) == expected
    assert through(data, HEAD, 1) == expected
    straddles = length % LONGEST in range(1, len(record))
    assert b"".join(piece for piece, _ in expected).count(record) == (3 if straddles else 5)
    sieve = Screen()
    list(sieve.feed(data))
    list(sieve.close())
    assert sieve.long is (length > LONGEST)


def test_behind_the_head_the_same_lines_come_through() -> None:
    """Every line of every case, real log and case file, is let through behind a megabyte of steps as at the start.

    Halves of rows are not, and neither is a line that a launcher folded and that has no other sign.
    """
    padding = b"step 1\n" * (HEAD // 7 + 10)
    lines = [
        line
        for path in (*logs.TWO_PODS, logs.ONE_NODE, logs.SOCKETS)
        for line in path.read_text().splitlines()
    ]
    for file in logs.FOLDER.glob("*.yaml"):
        for case in cases.parse(documents.read(file)):
            if not case.id.startswith("table-with-tags"):
                lines += case.lines
    data = "".join(f"{line}\n" for line in lines).encode()
    assert through(padding + data, 65536) == through(data)


def test_chatter_is_not_let_through() -> None:
    """One line a collective and a step are what long logs are made of."""
    rest = "sendbuff 0x7 recvbuff (nil) count 9 datatype 7 op 0 root 0 comm 0x5 [nranks=2] stream 0x7"
    steps = [
        logs.record(f"AllReduce: opCount 1f {rest}"),
        logs.record(f"Send: opCount 0 {rest}"),
        logs.record("AllReduce: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"),
        "[default0]:2026-11-28T10:00:00Z step 7 loss 0.5123 grad_norm 0.1 lr 1.0e-05",
        "INFO:trainer:checkpoint written",
    ]
    padding = "step 1\n" * (HEAD // 7 + 10)
    assert through((padding + "\n".join(steps) + "\n").encode()) == []
    glued = steps[0] + logs.record("Using network Socket")
    assert len(through((padding + glued + "\n").encode())) == 1


def test_memory_is_bounded_by_distinct_lines() -> None:
    """A log of nothing but different lines leaves no trace."""
    draw = random.Random(3)  # noqa: S311 - no secret
    sieve = Screen()
    for _ in range(40):
        words = (
            "".join(draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZghijk") for _ in range(40)) for _ in range(2000)
        )
        list(sieve.feed("".join(f"{word}\n" for word in words).encode()))
    assert len(sieve._coarse._dull) <= line_filter._MEMO
    assert len(sieve._fine._dull) <= line_filter._MEMO
