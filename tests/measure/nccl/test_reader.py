"""What the reader keeps, and what it makes of single lines."""

import tracemalloc

import pytest

from pytest_gpucluster.measure import nccl
from pytest_gpucluster.measure.nccl import faults, line_patterns, networks, table, verdict
from tests.measure.nccl import logs


def test_memory_does_not_grow_with_the_log() -> None:
    """Megabytes of steps, channels and errors that all differ leave little more than a part of them."""

    def connected(n: int) -> str:
        pair = f"{n % 16}[0] -> {(n + 1) % 16}[0]"
        return logs.record(f"Channel {n % 32:02d}/0 : {pair} [send] via NET/IB/{n % 8}/GDRDMA")

    def broken(number: int, n: int) -> str:
        return logs.record(
            f"NET/IB: Got completion from peer 10.0.{n % 256}.{number}<{n}> with status=12", level="WARN"
        )

    def part(number: int) -> bytes:
        lines = [
            f"{connected(n)}\n"
            f"step {number}{n} loss 0.{n}\n{logs.record(f'AllReduce: opCount {number}{n:x} sendbuff 0x{n:x}')}\n"
            f"2026-11-28T10:00:{n % 60:02d}Z {broken(number, n)}\n"
            for n in range(1500)
        ]
        return "".join(lines).encode()

    def peak(parts: int) -> int:
        tracemalloc.start()
        reader = nccl.Reader()
        for number in range(parts):
            reader.feed(part(number))
        reader.end()
        assert nccl.draw(reader.seen).fault["ib_completion_error"][0].status == 12
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(8) < 1.5 * peak(2) + 8_000_000


@pytest.mark.parametrize(
    "line", ["Channel 00/24 : 0 1 2 3", "Channel 01 : 0 1", "Ring 23 : 0 -> 1 -> 0", "Ring 00 : -1 -> 0 -> 1"]
)
def test_the_order_of_a_ring_is_no_connection_that_cannot_be_read(line: str) -> None:
    """NCCL lists rings beside the connections that it makes of them."""
    found = logs.facts("\n".join([*logs.ring(), f"px-0:1:9 [0] NCCL INFO {line}"]) + "\n", ranks=2, nodes=2)
    assert found.values()["torn_lines"] == 0


def test_statements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that states more than is kept never passes."""
    from pytest_gpucluster.measure.nccl import observations

    monkeypatch.setattr(observations, "MOST", 3)
    found = logs.facts("\n".join(logs.ring()) + "\n", ranks=2, nodes=2)
    assert found.seen.full
    assert verdict.decide(found).verdict == "inconclusive"


def test_a_pod_stands_for_the_host() -> None:
    """Pods of different jobs may share a host name: the name of the log's pod takes its place."""
    reader = nccl.Reader()
    lines = logs.ring(hosts=("same", "same"))
    for pod, part in (("pod-a", lines[:4]), ("pod-b", lines[4:])):
        reader.start(pod)
        reader.feed("".join(f"{line}\n" for line in part).encode())
    reader.end()
    found = nccl.draw(reader.seen, nccl.Given(2, 2))
    assert found.ranks == {0: "pod-a", 1: "pod-b"}
    assert verdict.decide(found).verdict == "pass"


def test_the_first_warning_goes_by_its_clock() -> None:
    """Later lines of the log may be earlier in time; without clocks the order counts."""
    late = "[2026-01-05 10:00:09] " + logs.record("later", level="WARN")
    soon = "[2026-01-05 10:00:01] " + logs.record("sooner", host="a-1", level="WARN")
    first = logs.facts(f"{late}\n{soon}\n").seen.first
    assert first is not None
    assert first.text == "sooner"
    first = logs.facts(
        logs.record("one", level="WARN") + "\n" + logs.record("two", level="WARN") + "\n"
    ).seen.first
    assert first is not None
    assert first.text == "one"


def test_a_stall_says_rank_and_collective() -> None:
    """Which collective of which rank did not end, and how far it had come."""
    text = (
        "[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds "
        "before timing out.\n[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 0] Exception detected "
        "by watchdog at work: 1, last enqueued NCCL work: 1, last completed NCCL work: -1.\n"
    )
    found = logs.facts(text)
    assert found.stalls == (faults.Stall(0, "ALLREDUCE", 1, 600.06, -2),)
    assert found.seen.works == {(1, -1)}


def test_settings_by_host() -> None:
    """A setting that differs between hosts is kept with both values."""
    text = "\n".join(
        [
            logs.record("NCCL_IB_HCA set by environment to =mlx5_0,mlx5_1."),
            logs.record("NCCL_IB_HCA set to mlx5", host="a-1"),
            logs.record("NCCL_NET_GDR_LEVEL set by environment to PHB"),
        ]
    )
    found = logs.facts(text + "\n").settings
    assert found["NCCL_IB_HCA"] == {"=mlx5_0,mlx5_1": ("a-0",), "mlx5": ("a-1",)}
    assert found["NCCL_NET_GDR_LEVEL"] == {"PHB": ("a-0",)}


def test_what_a_program_says_of_its_end() -> None:
    """An error of NCCL without a warning of it is a failure all the same."""
    text = "n0: Test NCCL failure common.cu:958 'unhandled system error / Last error:'\n"
    found = logs.facts(text, ranks=2, nodes=2)
    assert (found.kind, found.errors) == ("failed", ())
    assert verdict.decide(found).verdict == "fail"


def test_a_log_in_utf16() -> None:
    """A collector's wide characters read as the text that they are."""
    text = "\n".join(logs.ring()) + "\n"
    assert (
        logs.facts(text.encode("utf-16"), ranks=2, nodes=2).values()
        == logs.facts(text, ranks=2, nodes=2).values()
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("IB", "rdma"), ("ib", "rdma"), ("IBext", "rdma"), ("IBext_v6", "rdma"), ("IBext_v11", "rdma"),
        ("UCX", "rdma"),
        ("UCX-UCT", "rdma"), ("SHARP", "rdma"), ("gIB", "rdma"), ("Socket", "tcp"), ("FastSocket", "tcp"),
        ("GPUDirectTCPX_v7", "gpudirect_tcp"), ("FasTrak", "gpudirect_tcp"), ("Acme", "unknown"), ("IBex", "unknown"),
        ("AWS Libfabric", "unknown"), ("OFI", "unknown"),
    ],
)  # fmt: skip
def test_networks_by_name(name: str, kind: str) -> None:
    """The name is free text of whoever wrote the plugin."""
    assert networks.of(name) == kind


@pytest.mark.parametrize(
    ("providers", "kind"),
    [
        (("efa",), "rdma"),
        (("cxi",), "rdma"),
        (("verbs;ofi_rxm",), "rdma"),
        (("tcp;ofi_rxm",), "tcp"),
        (("sockets",), "tcp"),
        (("efa", "tcp"), "tcp"),
        (("acme",), "unknown"),
        ((), "unknown"),
    ],
)
def test_libfabric_is_its_provider(providers: tuple[str, ...], kind: str) -> None:
    """The slowest of several counts."""
    assert networks.of("Libfabric", providers) == kind


@pytest.mark.parametrize(
    "text",
    [
        "Channel 00/02 :    0   1   2   3", "Channel 00/0 : 0[0] -> 1[1]", "Channel 00/0 : 0[0] -> 1[1] [send] via",
        "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB", "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDR",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUME", "Channel 00/0 : 0[0] -> 1[1] via NET/IB/0",
        "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GD0[0] -> 1[1] [send] via NET/IB/0/GDRDMA", "CC Off",
    ],
)  # fmt: skip
def test_no_connection_line(text: str) -> None:
    """Lists of rings, and pieces of connection lines, are no connections."""
    assert line_patterns.channel(text, clean=True) is None


def test_ranks_from_a_factor_within_its_digits() -> None:
    """Large worlds cannot be told apart by two digits: the bounds hold the true number, and a wrong one is outside."""
    for ranks in (2, 3, 8, 16, 64, 512, 1024):
        read = table.Table()
        for algorithm in (233.04, 401.77, 97.31):
            bus = algorithm * 2 * (ranks - 1) / ranks
            half = f"1.0  {algorithm:.2f}  {bus:.2f}  0"
            read.read(f"  1073741824  268435456  float  sum  -1  {half}  {half}")
        bounds = read.ranks()
        assert bounds is not None
        assert bounds[0] <= ranks <= bounds[1]
        assert not bounds[0] <= ranks * 2 <= bounds[1] or ranks > 256
