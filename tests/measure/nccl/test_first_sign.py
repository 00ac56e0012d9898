"""What went wrong first is told before what only waited for it, in whatever words; and messages are read whole."""

import re

import pytest

from pytest_gpucluster.measure import nccl
from pytest_gpucluster.measure.nccl import faults, remedies, verdict
from tests.measure.nccl import logs

STALLED = [
    f"[rank{r}]:[E1005 09:43:21.103 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600010 milliseconds"
    for r in (0, 1)
]  # fmt: skip
AT = "[2026-10-05 09:33:11] "
WHO = "w-1:9:9 [3]"


def first(*lines: str) -> nccl.verdict.Decision:
    """Return what is decided of a job over RDMA that stalled after some lines."""
    return verdict.decide(logs.facts("\n".join([*logs.ring(), *lines, *STALLED]) + "\n", ranks=2, nodes=2))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{AT}{WHO} transport/nvls.cc:254 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2",
         "nvls on w-1"),
        (f"{AT}{WHO} transport/nvls.cc:60 NCCL WARN NVLS: cannot allocate multicast buffer", "nvls on w-1"),
        (f"{AT}{WHO} x.cc:6 NCCL WARN cuMulticastBindMem failed: CUDA error 2 'out of memory'", "nvls on w-1"),
        (f"{WHO} NCCL INFO NVLS buffer registration failed", "NVLS buffer registration failed"),
        (f"{WHO} NCCL INFO NVLink 4 is down", "NVLink 4 is down"),
        (f"{AT}{WHO} ras/client.cc:9 NCCL WARN RAS: connection to peer 10.0.0.3 lost", "RAS: connection"),
        (f"{AT}{WHO} gin.cc:9 NCCL WARN GIN: the queue is full", "GIN: the queue is full"),
        (f"{AT}{WHO} NCCL WARN SHARP: Cannot connect to SHArP daemon (sharpd)", "SHArP daemon"),
        ("Oct  5 09:33:11 w-1 kernel: mlx5_core 0000:17:00.0: Port module event[error]: module 0, Cable error",
         "Cable error"),
        ("[123.4] mlx5_core 0000:17:00.0 ens1: Link down", "Link down"),
        ("[pod/w-1/tcpxo-daemon] E1005 09:33:02.731190 1 rxdm.cc:200] failed to open /dev/nvidia0: no such device",
         "plugin_daemon on w-1"),
        (f"{AT}{WHO} transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_2:1 Got async event : port error",
         "ib_port_error on w-1"),
        ("[123.4] NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error detected on link 6", "Xid"),
    ],
)  # fmt: skip
def test_the_first_sign_comes_before_the_watchdog(line: str, words: str) -> None:
    """An error of a plugin, of NVLS, of a daemon or of a link is the first reason; the time-out follows."""
    decision = first(line)
    assert decision.verdict == "fail"
    assert words in decision.reasons[0].text, decision.reasons
    assert any("watchdog_timeout" in reason.text for reason in decision.reasons[1:])


@pytest.mark.parametrize(
    "line",
    [
        (f"{WHO} NCCL INFO NET/Plugin: dlerror=libfabric.so.1: cannot open shared object file: No such file or "
        "directory"),
        f"{WHO} NCCL INFO NET/IB : No device found.",
        "step 4 loss 2.1",
    ],
)  # fmt: skip
def test_what_did_not_matter_is_no_first_sign(line: str) -> None:
    """A network that did not start is no sign where another carried the traffic."""
    assert first(line).reasons[0].text.startswith("watchdog_timeout")


def test_a_warning_after_the_watchdog_is_no_first_sign() -> None:
    """What is printed while a job is torn down explains nothing."""
    late = f"[2026-10-05 09:50:11] {WHO} gin.cc:9 NCCL WARN GIN: the queue is full"
    assert first(late).reasons[0].text.startswith("watchdog_timeout")


FILLER = "a b " * 400


@pytest.mark.parametrize(
    ("text", "level", "cause"),
    [
        (f"{FILLER}Call to ibv_reg_mr failed with error Cannot allocate memory", "WARN", "locked-memory"),
        (f"{FILLER}CUDA error: uncorrectable ECC error encountered", "", "cannot be corrected"),
        (f"{FILLER}CUDA error: an illegal memory access was encountered", "", "foreign memory"),
        (f"Connect to 10.0.0.1<5> failed : {FILLER}Connection refused", "WARN", "nothing listens"),
        (f"Error while creating shared memory segment /dev/shm/nccl-x {FILLER}: No space left on device", "WARN",
         "too small"),
        (f"Error while attaching to shared memory segment /dev/shm/nccl-x {FILLER}: No such file or directory", "WARN",
         "not to be seen"),
    ],
)  # fmt: skip
def test_messages_are_read_whole(text: str, level: str, cause: str) -> None:
    """The words that decide may stand at the end of a long message."""
    fault = faults.of(text, level)
    assert fault is not None
    assert fault.detail == text
    assert cause in remedies.of(fault)[0].cause


@pytest.mark.parametrize(
    ("text", "words", "not_words"),
    [
        ("Error: network Foo not found.", "NCCL_NET demands", "not even sockets"),
        ("Failed to initialize any NET plugin", "not even sockets", "NCCL_NET demands"),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 9): Permission denied", "may not use",
         "64 MiB"),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 9)", "or may not be used", ""),
        ("CUDA driver version is insufficient for CUDA runtime version", "too old", "update without a restart"),
        ("driver/library version mismatch", "do not match", "too old"),
        ("Failed to CUDA malloc 2097152 bytes", "memory of the GPU", ""),
        ("Failed to malloc 2097152 bytes", "of the container or of the host", "GPU"),
    ],
)  # fmt: skip
def test_one_class_has_several_causes(text: str, words: str, not_words: str) -> None:
    """Where the words tell them apart, the cause is theirs; else several are told."""
    fault = faults.of(text, "WARN")
    assert fault is not None
    (advice,) = remedies.of(fault)
    assert words in advice.cause
    assert not not_words or not_words not in advice.cause


@pytest.mark.parametrize(
    ("text", "level", "kind", "words"),
    [
        ("HIP failure 'out of memory'", "WARN", "out_of_memory", "amd-smi"),
        (
            "RuntimeError: HIP error: an illegal memory access was encountered",
            "",
            "gpu_error",
            "AMD_SERIALIZE_KERNEL",
        ),
        ("RuntimeError: HIP error: unspecified launch failure", "", "gpu_error", "amdgpu"),
        ("hipErrorOutOfMemory", "", "gpu_error", "amd-smi"),
        ("[123.4] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!", "", "gpu_error", "amdgpu"),
        ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout", "", "gpu_error", "amdgpu"),
    ],
)
def test_an_error_of_hip_is_amds_without_a_banner(text: str, level: str, kind: str, words: str) -> None:
    """A log of which only the end is left has no banner of RCCL; the words of the error tell whose GPU it is."""
    fault = faults.of(text, level)
    assert fault is not None
    assert fault.kind == kind
    (advice,) = remedies.of(fault)
    assert words in advice.fix
    assert not re.search(r"nvidia|\bxid\b|\bcuda", f"{advice.cause} {advice.fix}", re.IGNORECASE), advice


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NET/IB : Got async event : local catastrophic error", "ib_async_fatal"),
        ("NET/IB : mlx5_3:1 Got async event : local work queue catastrophic error", "ib_async_fatal"),
        ("NET/IB : Got async event : CQ error", "ib_async_fatal"),
        ("NET/IB : mlx5_7:1 Got async event : GID table change", None),
        (
            "socketPollConnect: connect returned Connection refused, exceeded error retry count (35)",
            "socket_connect",
        ),
        ("socketStartConnect: exceeded retries (20000)", "socket_connect"),
    ],
)
def test_a_class_has_the_words_of_several_versions(text: str, kind: str | None) -> None:
    """Each version of NCCL says it in its own words."""
    fault = faults.of(text, "WARN")
    assert (fault.kind if fault else None) == kind


def test_a_rank_that_ended_ten_minutes_earlier_comes_before_the_watchdog() -> None:
    """Where all errors usually follow from others, the earliest is told first, and what the rank raised before it."""
    ended = (
        "E1005 09:33:20.411000 1 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1)"
    )
    raised = ["[rank5]: Traceback (most recent call last):", "[rank5]: ValueError: batch 7 is empty", ended]
    lines = [*logs.ring(), *STALLED, *raised]
    decision = verdict.decide(logs.facts("\n".join(lines) + "\n", ranks=2, nodes=2))
    told = [reason.text for reason in decision.reasons]
    assert "ValueError: batch 7 is empty" in told[0], told
    assert told[1].startswith("process_ended"), told
    assert told[2].startswith("watchdog_timeout"), told


def test_the_head_of_a_trace_is_not_what_it_says() -> None:
    """The last line of a trace tells the error; its first line alone is told where the rest is missing."""
    head, end = "[rank1]: Traceback (most recent call last):", "[rank1]: KeyError: layers.0"
    for lines, words in (([head, end], "KeyError"), ([head], "Traceback")):
        text = "\n".join([*logs.ring(), *lines]) + "\n"
        reasons = verdict.decide(logs.facts(text, ranks=2, nodes=2)).reasons
        unknown = [reason.text for reason in reasons if "unknown meaning" in reason.text]
        assert len(unknown) == 1, unknown
        assert words in unknown[0]


@pytest.mark.parametrize(
    ("number", "whose"),
    [
        (79, "fell off"),
        (48, "memory"),
        (74, "NVLink"),
        (119, "firmware"),
        (31, "program"),
        (9999, "unknown meaning"),
    ],
)
def test_an_xid_is_told_by_its_number(number: int, whose: str) -> None:
    """The number says whose error it is; one that is not known says nothing."""
    fault = faults.of(f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=1, name=python")
    assert fault is not None
    assert whose in remedies.of(fault)[0].cause


ONLY_NVIDIA = {"imex", "nvls", "daemon_gpus"}
"""Classes whose words only NCCL and its plugins print."""


@pytest.mark.parametrize("kind", sorted(set(faults.KNOWN) - ONLY_NVIDIA))
@pytest.mark.parametrize(
    "detail",
    ["", "HIP error: no kernel image is available", "HIP error: invalid device ordinal", "HIP error: x"],
)
def test_rccl_gets_no_advice_for_nccls_devices(kind: str, detail: str) -> None:
    """Where AMD's library is at work, no tool of NVIDIA is named."""
    for advice in remedies.of(faults.Fault(kind, detail, status=4), amd=True):
        assert not re.search(r"nvidia|\bxid\b|\bcuda", f"{advice.cause} {advice.fix}", re.IGNORECASE), advice


@pytest.mark.parametrize(
    "line", ["[1.2] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!", "ERROR:root:no upload"]
)
def test_a_kernel_or_a_program_that_complains_is_no_pass(line: str) -> None:
    """A line of nobody in particular is told without a place, and is read like those of NVIDIA's driver."""
    decision = verdict.decide(logs.facts("\n".join([*logs.ring(), line]) + "\n", ranks=2, nodes=2))
    assert decision.verdict != "pass"
    assert line in decision.reasons[0].text
    assert " : " not in decision.reasons[0].text
