"""Whatever a log holds, reading it ends with a verdict, and neither a cut nor another order makes it better."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.measure import nccl
from pytest_gpucluster.measure.nccl import cases, verdict
from tests import amount, documents
from tests.measure.nccl import logs

CASES = [case for file in sorted(logs.FOLDER.glob("*.yaml")) for case in cases.parse(documents.read(file))]
LINES = sorted({line for case in CASES for line in case.lines})
PIECES = (
    "trainer-0:11:12 [0] NCCL INFO ", "trainer-1:11:12 [3] NCCL WARN ", "Channel 00/0 : ", "0[0] -> 1[0] ",
    "[send] ", "via NET/IB/0", "/GDRDMA", "(PCI)", "/Shared", "via NET/Socket/0", "via P2P/CUMEM", "comm 0x5 rank ",
    "nranks 4 ", "nNodes 2 ", "- Init START", "Using network ", "IB", "NET/IB : Using [0]mlx5_0:1/IB ", "={[0] ",
    "; OOB", "\x1b[31m", '{"log":"', '\\n"}', "\n", "\r", "\0", "[repeated 5x across cluster]",
    " 1048576 262144 float sum -1 ", "1.5 2.5 3.5 0 ", "N/A ", "# Avg bus bandwidth : ", "nan", "9" * 30, "é", "\ud800",
    "# Out of bounds values : ", "#  Rank  0 Pid 1 on h device 0 ", "Got completion with status=", "IBV_WC_X(", "12)",
    "Call to ibv_modify_qp failed with ", "Rank 3] Watchdog caught collective operation timeout", "MNNVL 1", "٣",
    "set by environment to ", "NCCL_IB_DISABLE ", "COLLNET/SHARP/0", "CollNet 00 : 0 [receive] ",
)  # fmt: skip


def whole(case: cases.Case) -> str:
    """Return the log of a case."""
    return "".join(f"{line}\n" for line in case.lines)


@amount.examples(120)
@given(
    st.one_of(st.binary(max_size=3000), st.lists(st.sampled_from(PIECES), max_size=60).map("".join)),
    st.data(),
)
def test_no_input_raises(text: bytes | str, data: st.DataObject) -> None:
    """Bytes of any kind, and pieces of records in any order."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    given_ = nccl.Given(
        ranks=data.draw(st.one_of(st.none(), st.integers(1, 9))), nodes=2, expected_hcas=("mlx5_0",)
    )
    found = nccl.draw(logs.read(raw), given_)
    values = verdict.values(found)
    assert values["rdma_gdr_check"] in {"pass", "fail", "inconclusive"}
    assert nccl.draw(logs.read(raw, chunk=data.draw(st.integers(1, 64))), given_).values() == found.values()


@amount.examples(80)
@given(st.sampled_from(CASES), st.data())
def test_where_chunks_are_cut_does_not_matter(case: cases.Case, data: st.DataObject) -> None:
    """Each case, in chunks of any size."""
    text = whole(case)
    expected = nccl.draw(logs.read(text), case.given).values()
    assert nccl.draw(logs.read(text, chunk=data.draw(st.integers(1, 200))), case.given).values() == expected


@amount.examples(80)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(case: cases.Case, draw: random.Random) -> None:
    """Lines of ranks come interleaved in any way; a table is one rank's, and stays in its order."""
    lines = [line for line in case.lines if "#" not in line and " float " not in line]
    table = [line for line in case.lines if line not in lines]
    expected = verdict.values(logs.facts(whole(case), **vars(case.given)))
    places = sorted(draw.randrange(len(lines) + 1) for _ in table)
    draw.shuffle(lines)
    for place, line in reversed(list(zip(places, table, strict=True))):
        lines.insert(place, line)
    assert verdict.values(logs.facts("".join(f"{line}\n" for line in lines), **vars(case.given))) == expected


def prefixes(text: str) -> list[str]:
    """Return the prefixes of a log that end in each line's middle, near its end and at it."""
    found, at = [], 0
    for line in text.splitlines(keepends=True):
        found += [text[: at + n] for n in {len(line) // 2, len(line) - 9, len(line) - 1} if n > 0]
        at += len(line)
        found.append(text[:at])
    return found


FAILING = [c for c in CASES if verdict.decide(nccl.draw(logs.read(whole(c)), c.given)).verdict == "fail"]


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.id)
def test_no_prefix_of_a_failing_log_passes(case: cases.Case) -> None:
    """A log that is cut passes only if all that was demanded stands in what is left, and nothing that forbids it."""
    text = whole(case)
    for prefix in prefixes(text):
        assert verdict.decide(logs.facts(prefix, **vars(case.given))).verdict != "pass", prefix[-80:]


@pytest.mark.parametrize("paths", [logs.TWO_PODS, (logs.SOCKETS,), (logs.ONE_NODE,)])
def test_no_prefix_of_a_real_log_that_fails_passes(paths: Any) -> None:
    """Cut anywhere, a real log of sockets does not pass."""
    text = "".join(path.read_text() for path in paths)
    for at in range(0, len(text), 1201):
        assert verdict.decide(logs.facts(text[:at], ranks=4, nodes=2)).verdict != "pass"


@amount.examples(80)
@given(st.data())
def test_what_fails_stays_failed(data: st.DataObject) -> None:
    """A rank on TCP, without GPUDirect RDMA or with an error is not made good by anything that follows it.

    What is demanded of one log is demanded of each that begins with it: more lines can only add violations.
    """
    bad = data.draw(
        st.sampled_from(
            [
                logs.record("Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"),
                logs.record("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"),
                logs.record("Using network Socket"),
                logs.record("NET/IB: Got completion from peer 1<2> with status=12 opcode=0", level="WARN"),
                "[rank1]: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=X)",
                "# Out of bounds values : 1 FAILED",
            ]
        )
    )
    around = data.draw(st.lists(st.sampled_from(LINES + logs.ring()), max_size=25))
    place = data.draw(st.integers(0, len(around)))
    lines = [*around[:place], bad, *around[place:]]
    assert verdict.decide(logs.facts("".join(f"{x}\n" for x in lines), ranks=2, nodes=2)).verdict == "fail"


@amount.examples(100)
@given(st.integers(1, 60), st.data())
def test_a_cut_inside_the_last_record_never_passes(cut: int, data: st.DataObject) -> None:
    """The last rank's only connection, cut anywhere in its line: whether it has GPUDirect RDMA is not known."""
    first = "\n".join(logs.ring()[:4]) + "\n"
    tail = data.draw(
        st.sampled_from(["NET/IB/0/GDRDMA", "NET/IB/0", "NET/Socket/0", "NET/IB/0/GDRDMA/Shared"])
    )
    last = logs.record(f"Channel 00/0 : 0[0] -> 1[0] [receive] via {tail}", host="a-1")
    text = first + last[: max(0, len(last) - cut)]
    found = verdict.decide(logs.facts(text, ranks=2, nodes=2)).verdict
    complete = text.endswith("GDRDMA")
    assert (found == "pass") == complete


@amount.examples(20)
@given(st.data())
def test_lines_of_two_ranks_torn_into_each_other(data: st.DataObject) -> None:
    """Blocks of two processes, cut anywhere: halves may join to a record that nobody printed, but none on TCP."""
    one = "".join(f"{line}\n" for line in logs.ring()[:4])
    two = "".join(f"{line}\n" for line in logs.ring()[4:])
    text = ""
    while one or two:
        size = data.draw(st.integers(1, 200))
        text, one = text + one[:size], one[size:]
        size = data.draw(st.integers(1, 200))
        text, two = text + two[:size], two[size:]
    found = logs.facts(text, ranks=2, nodes=2)
    assert not found.ranks_on("tcp")
