"""A good log with one thing that is no good news: what fails, what decides nothing, and what says nothing at all."""

import pytest

from pytest_gpucluster.measure.nccl import verdict
from pytest_gpucluster.measure.nccl.line_filter import HEAD
from tests.measure.nccl import logs

STEPS = "step 1 loss\n" * (HEAD // 12 + 10)
TAGS = (
    "[3]", "(w3)", "[mpi-0]", "px-0:", "px-0: ", "3: ", "[1,3]<stdout>:", "[rank3]:", "[pod/px-0/main] ", "px-0 main ",
    "(Worker pid=7, ip=10.0.0.1) ", "[Rank 3] ", "px-0 | ", "\x1b[32mpx-0\x1b[0m ", "2026-01-05T10:00:00.1Z ",
    "worker-0.train.svc: ", "rank 3: ", "<3> ",
)  # fmt: skip


def good(rest="NET/IB/0/GDRDMA", hosts=("a-0", "a-1"), nodes=None):
    """Return a log of one rank a host that passes over RDMA."""
    found = []
    for rank, host in enumerate(hosts):
        world = (
            f"rank {rank} nRanks {len(hosts)} nNodes {nodes or len(hosts)} localRanks 1 localRank 0 MNNVL 0"
        )
        found.append(logs.record(f"Using network {rest.split('/')[1]}", host=host, pid=11 + rank))
        found.append(logs.record(f"comm 0x{rank + 1}a {world}", host=host, pid=11 + rank))
    return found + logs.ring(hosts, rest)


def one_node(path="P2P/CUMEM"):
    """Return a log of two ranks of one node."""
    world = "nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0"
    return [
        logs.record(text, host="w", pid=11 + r)
        for r in (0, 1)
        for text in (
            f"comm 0x{r}a rank {r} {world}",
            f"Channel 00/0 : {r}[{r}] -> {1 - r}[{1 - r}] via {path}",
        )
    ]


def warning(text):
    """Return a warning of rank 1."""
    return f"a-1:12:20 [0] init.cc:7 NCCL WARN {text}"


def decide(lines, *, before="", ranks=2, nodes=2):
    """Return the decision on a log."""
    return verdict.decide(logs.facts(before + "\n".join(lines) + "\n", ranks=ranks, nodes=nodes))


def test_the_log_itself_is_good():
    """What is added to it below is what decides."""
    assert decide(good()).verdict == "pass"
    assert decide(one_node(), nodes=1).verdict == "pass"


FATAL = (
    "NET/OFI Request 0x7f completed with error. RC: 107. Error: 4115 (Unresponsive receiver). Completed length: 0",
    "NET/IB : mlx5_0:1 async fatal event: local catastrophic error",
    "NET/IB : mlx5_3:1 async fatal event on QP (0x7f) qpn=771 handle=2: local work queue catastrophic error",
    "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)",
    "NET/IB : Got async event : port error",
    "nvmlDeviceGetHandleByIndex(3) failed: GPU is lost",
    "nvmlInit_v2() failed: Driver/library version mismatch",
    "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000",
    "[Proxy Service 1] Failed to execute operation Connect from rank 1, retcode 3",
    "Message truncated : received 1024 bytes instead of 256",
    "NET/Socket : peer 10.0.0.2<4000> message truncated : receiving 1048576 bytes instead of 65536",
    "Cuda failure 2 'out of memory'",
    "HIP failure 'invalid argument'",
    "Call to ibv_create_qp failed with error Cannot allocate memory",
    "Call to ibv_alloc_pd failed",
    "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
    "Call to ibv_reg_dmabuf_mr failed with error Bad address",
    "ibv_post_send() failed with error Invalid argument, Bad WR 0x1, First WR 0x2",
    "Call to ibv_poll_cq() returned -12",
    "Mismatched NCCL version detected : rank 0 version 22105 rank 1 version 22304",
    "Bootstrap Root : rank 1 of 2 ranks has already checked in",
    "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 16777216 : CUDA error 401 'present state'",
    "Failed to CUDA calloc async 608 bytes",
    "communicator encountered a fatal error (detected in ncclCommGetAsyncError)",
    "NET/GPUDirectTCPX failed to connect to rxdm unix socket: Connection refused",
)


@pytest.mark.parametrize("before", ["", STEPS], ids=["head", "behind"])
@pytest.mark.parametrize("text", FATAL)
def test_a_fatal_warning_fails_and_is_quoted_with_its_rank(text, before):
    """Wherever it stands in the log."""
    decision = decide([*good(), warning(text)], before=before)
    assert decision.verdict == "fail"
    assert "rank 1 on a-1 (init.cc:7)" in decision.reasons[0].text
    assert text[:100] in decision.reasons[0].text
    assert decision.advice


@pytest.mark.parametrize(
    "text",
    [
        "P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case",
        "NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)",
        "TUNER/Plugin: the moon is in the wrong phase",
        "NET/OFI NIC group of device 3 looks odd",
        "NET/IB : Unable to open device mlx5_3",
        "Detected mixed local Net device counts across ranks (min 1, max 2). Set NCCL_IGNORE_NET_MISMATCH=1 to",
    ],
)
def test_a_warning_that_nobody_knows_decides_nothing(text):
    """It is quoted; with a call that failed, or a communicator that was aborted, it is fatal."""
    lines = [*good(), warning(text)]
    decision = decide(lines)
    assert decision.verdict == "inconclusive"
    assert text in decision.reasons[0].text
    assert "rank 1 on a-1" in decision.reasons[0].text
    if "Unable" in text or "mixed" in text:
        return
    for more in (
        "init.cc:99 -> 3",
        "comm 0x2a rank 1 nranks 2 cudaDev 0 busId 7000 - Abort COMPLETE",
    ):
        assert decide([*lines, logs.record(more, host="a-1", pid=12)]).verdict == "fail"


@pytest.mark.parametrize(
    "text",
    [
        'NUMA auto balancing enabled! Disable by "sudo sysctl kernel.numa_balancing=0"',
        'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
        "NET/IB : mlx5_0:1 GID table changed",
        "NET/IB : Got async event : client reregistration",
        "NET/Socket : NCCL_SOCKET_NTHREADS is greater than the maximum allowed, setting to 16",
    ],
)
def test_a_warning_that_is_known_to_say_nothing_passes(text):
    """Each is listed with its reason."""
    assert decide([*good(), warning(text)]).verdict == "pass"


def test_who_aborted_a_communicator():
    """Some ranks alone: a failure. All alike: PyTorch up to 2.5 ends so too. Destroyed: the usual end."""
    ends = [
        logs.record(
            f"comm 0x{r}a rank {r} nranks 2 cudaDev 0 busId 7000 - Abort COMPLETE", host=f"a-{r}", pid=11 + r
        )
        for r in (0, 1)
    ]
    assert decide([*good(), ends[1]]).verdict == "fail"
    assert decide([*good(), *ends]).verdict == "inconclusive"
    assert decide([*good(), *(end.replace("Abort", "Destroy") for end in ends)]).verdict == "pass"
    alone = decide([*good(), logs.record("transport/net.cc:99 -> 2", host="a-1", pid=12)])
    assert (alone.verdict, "unhandled system error" in alone.reasons[0].text) == ("inconclusive", True)


@pytest.mark.parametrize("before", ["", STEPS], ids=["head", "behind"])
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered", "fail"),
        ("RuntimeError: HIP error: invalid device function", "fail"),
        ("[ 881.2] NVRM: Xid (PCI:0000:1b:00): 79, pid=77, GPU has fallen off the bus.", "fail"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", "fail"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "fail"),
        ("[a-1:00012] *** Process received signal ***", "fail"),
        ("srun: error: node7: task 1: Killed", "fail"),
        ("E1005 09:23:20.4 1 torch/x.py:874] failed (exitcode: -9) local_rank: 0 (pid: 77)", "fail"),
        ("a-1: Test CUDA failure common.cu:891 'an illegal memory access was encountered'", "fail"),
        ("a-0: Test timeout (30s) common.cu:400", "fail"),
        ("Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f.", "fail"),
        ("[rank1]:[F1005 09:33:21.1 ProcessGroupNCCL.cpp:1554] Heartbeat monitor timed out!", "fail"),
        (
            "[rank1]:[E1005 09:33:21.1 x.cpp:1537] [PG 0 Rank 1] Timeout at NCCL work: 12, last enqueued",
            "fail",
        ),
        (
            "[rank1]:[E1005 09:33:21.1 x.cpp:7] Exception (either an error or timeout) detected by watchdog at work: 1",
            "fail",
        ),
        ("traceback : Signal 6 (SIGABRT) received by PID 211", "fail"),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "fail"),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
            "fail",
        ),
        ("/opt/run.sh: line 7:    12 Killed                  python train.py", "fail"),
        ("/opt/run.sh: line 31:   412 Illegal instruction     python train.py", "fail"),
        ("x/Indexing.cu:1553: block: [0,0,0], thread: [0,0,0] Assertion `at < size` failed.", "inconclusive"),
        ("python: csrc/ring.cc:12: int main(): Assertion `x == 1' failed.", "inconclusive"),
        ("a-1:12 NCCL DIAG [FAIL] ECC: 2 uncorrected volatile errors on rank 1", "inconclusive"),
        ("a-1:12 NCCL DIAG [WARN] NVLink: 17 of 18 link(s) active", "inconclusive"),
        ("a-1:12 NCCL DIAG [OK]   NVLink: found 18 link(s) per device, all active across 2 ranks", "pass"),
        ("a-1:12 NCCL DIAG NCCL diagnostics completed in 0.7 ms across 2 ranks", "pass"),
        ("a-1:12:12 [0] NCCL DIAG [OK]   ECC: no errors", "pass"),
        ("a-1:12:12 [0] NCCL DIAG [FAIL] ECC: 2 errors on rank 1", "inconclusive"),
        ("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 1.", "fail"),
        ("[2026-11-30 07:00:00,1] [ERROR] [launch.py:325] ['python'] exits with return code = -9", "fail"),
        ("2026-11-30 07:00:00,123 - ERROR - training failed", "inconclusive"),
        ("CRITICAL:root:giving up", "inconclusive"),
        ("pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error received: 0000:1b:00.0", "inconclusive"),
        ("mlx5_core 0000:5e:00.0 eth2: Link down", "inconclusive"),
        ("config.yaml: line 7: 12 Killed whales", "pass"),
        ("Assertion checks enabled: 12 passed, 0 failed", "pass"),
        ("ValueError: batch of 3 is not divisible", "inconclusive"),
        ("[rank1]: torch._C._SpecialError: hm", "inconclusive"),
        ("E1005 09:23:20.411000 1 some/file.py:874] something is off", "inconclusive"),
        ("step 3 loss 1.2 lr 0.1", "pass"),
        ("Epoch 3: 100%|####| 3/3 [00:01<00:00]", "pass"),
        ("UserWarning: the Error rate is low", "pass"),
        ("[W socket.cpp:601] [c10d] The client socket cannot connect to [a-0]:29500 (errno: 97)", "pass"),
    ],
)
def test_what_a_program_says_beside_nccl(text, right, before):
    """An error of any class is no good news; a warning of PyTorch and the words of a step are no error."""
    assert decide([*good(), text], before=before).verdict == right


@pytest.mark.parametrize("before", ["", STEPS], ids=["head", "behind"])
def test_what_pytorch_quotes_of_nccl_decides(before):
    """On the same line, on the next one of the rank, between lines of others, and of no known class."""
    quoted = "Call to ibv_reg_mr failed with error Cannot allocate memory"
    error = "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error"
    for lines in (
        [error, f"[rank1]: Last error: {quoted}"],
        [error, "[rank1]: Last error:", "[rank0]: step 4", f"[rank1]: {quoted}"],
        [f"a-1: Test NCCL failure common.cu:1005 'unhandled system error / {quoted}'"],
    ):
        decision = decide(lines, before=before)
        assert decision.reasons[0].text.startswith("memory_registration")
        assert "IPC_LOCK" in decision.advice[0].fix
    strange = decide([error, "[rank1]: Last error:", "[rank1]: the moon is off"], before=before)
    assert strange.reasons[0].text == "last_error on rank 1: the moon is off"


def row(tag, wrong):
    """Return a row of nccl-tests, with a launcher's tag in front of each of its three pieces."""
    return (
        f"{tag}     2097152        524288     float     sum      -1{tag}    118.4   17.71   17.71     {wrong}{tag}"
        f"    119.0   17.62   17.62     {wrong}"
    )


@pytest.mark.parametrize("before", ["", STEPS], ids=["head", "behind"])
@pytest.mark.parametrize("tag", TAGS)
def test_tags_inside_a_row_hide_nothing(tag, before):
    """Wrong data is wrong behind the tags of any launcher, and right data stays right."""
    assert decide([*good(), row(tag, 64)], before=before).verdict == "fail"
    assert decide([*good(), row(tag, 0)]).verdict == "pass"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("     2097152        524288     float     sum      -1     118.4   17.71", "inconclusive"),
        (
            "     2097152        524288     float     sum      -1[x y z q]     118.4   17.71  garbage  x",
            "inconclusive",
        ),
        (row("", 0).replace("118.4", "-118.4"), "inconclusive"),
        (row("", 0).replace("118.4", "0.00"), "inconclusive"),
        (row("", 0).replace("17.71   17.71", "17.71   77.71"), "inconclusive"),
        (row("", 0).replace("17.71   17.71", "nan   nan"), "fail"),
        ("# Avg bus bandwidth    : 1.2 FAILED", "fail"),
    ],
)
def test_rows_that_cannot_be_read_or_cannot_be(text, right):
    """They never count as good."""
    assert decide([*good(), text]).verdict == right


AVERAGES = {
    "-1.2": "inconclusive", "1e9": "inconclusive", "nan": "fail", "0": "fail", "17.66": "pass", "99.0": "inconclusive",
    "3.0": "inconclusive",
}  # fmt: skip


@pytest.mark.parametrize("average", AVERAGES)
def test_an_average_that_cannot_be(average):
    """Below zero, beyond any link, no number, or none of the rows that it is of."""
    assert decide([*good(), row("", 0), f"# Avg bus bandwidth    : {average}"]).verdict == AVERAGES[average]


@pytest.mark.parametrize(
    ("told", "right"), [("17.71", "pass"), ("27.71", "inconclusive"), ("9e9", "inconclusive")]
)
def test_a_bandwidth_that_its_own_time_does_not_give(told, right):
    """More went through than the size in that time."""
    text = row("", 0).replace("17.71   17.71", f"{told}   {told}")
    assert decide([*good(), text]).verdict == right


INFOS = {
    "NET/IB : mlx5_0:1 Got async fatal event: local catastrophic error": "inconclusive",
    "NET/IB : mlx5_0:1 async fatal event: local catastrophic error": "fail",
    "NET/IB : mlx5_1:1 Got async event : port error": "fail",
    "NET/IB : mlx5_1:1 Got non-fatal async event: port active(9)": "inconclusive",
    "NET/IB : mlx5_2:1 link flapping, 7 times in 60 s": "inconclusive",
    "NET/OFI link of rail 3 went down": "inconclusive",
    "NET/IB : port 1 of mlx5_3 is down": "inconclusive",
    "NVLink 4 of GPU 2 degraded": "inconclusive",
    "proxy progress thread is stuck": "inconclusive",
    "NET/IB : Got async event : client reregistration": "pass",
    "NET/IB : mlx5_0:1 GID table changed": "pass",
    "Connect to 10.0.0.2<4000> failed : Connection timed out - retrying": "pass",
    "NET/Plugin: Could not find: libnccl-net.so": "pass",
    "Topology detection : could not read /sys/devices/pci0/max_link_speed, ignoring": "pass",
    "NCCL_IB_TIMEOUT set by environment to 22.": "pass",
    "GIN/Plugin: Failed to initialize any GIN plugin": "pass",
    "P2P/CUMEM support enabled, 18 NVLinks per GPU": "pass",
}


@pytest.mark.parametrize("before", ["", STEPS], ids=["head", "behind"])
@pytest.mark.parametrize("text", INFOS)
def test_trouble_told_at_level_info(text, before):
    """An event of an adapter and a link that comes and goes are no good news at any level; what NCCL always says is."""
    lines = [*good(), logs.record(text, host="a-1", pid=12)]
    assert decide(lines, before=before).verdict == INFOS[text]


def test_a_communicator_that_nobody_saw_complete():
    """Begun and not ended, where others ended: the rank is named; ended on all is good."""

    def state(rank, phase):
        comm = f"ncclCommInitRank comm 0x{rank + 1}a rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 7000 commId 0x4dba"
        return logs.record(f"{comm} - Init {phase}", host=f"a-{rank}", pid=11 + rank)

    every = [state(rank, phase) for rank in (0, 1) for phase in ("START", "COMPLETE")]
    assert decide([*every, *good()]).verdict == "pass"
    decision = decide([*every[:3], *good()])
    assert decision.verdict == "inconclusive"
    assert any("complete on rank 1" in reason.text for reason in decision.reasons)
    split = (
        state(1, "START").replace("nranks 2", "nranks 1").replace("InitRank", "Split").replace("0x2a", "0x3a")
    )
    assert decide([*every, *good(), split]).verdict == "inconclusive"


def test_lines_without_host_and_process():
    """Sockets are sockets; RDMA of nobody knows whom is no pass, and the advice is about the prefix."""
    for cut in (
        lambda text: text.split(" ", 1)[1],
        lambda text: "NCCL" + text.split("NCCL", 1)[1],
        lambda text: f"[1,0]<stdout>:{text.split('INFO ', 1)[1]}",
    ):
        assert decide([cut(line) for line in good("NET/Socket/0")]).verdict == "fail"
        decision = decide([cut(line) for line in good()])
        assert decision.verdict == "inconclusive"
        assert any("stripped" in one.cause for one in decision.advice)
        assert not any("NCCL_DEBUG is WARN" in one.cause for one in decision.advice)


def test_nodes_of_the_log_and_nodes_that_were_told():
    """They agree, or nothing is decided."""
    three = good(hosts=("a", "b", "c"))
    assert decide(three, ranks=3, nodes=3).verdict == "pass"
    for lines, ranks, nodes in ((good(), 2, 4), (good(), 2, 1), (three, 3, 2), (good(nodes=1), 2, 2)):
        decision = decide(lines, ranks=ranks, nodes=nodes)
        assert decision.verdict == "inconclusive"
        assert any("nodes" in reason.text for reason in decision.reasons)


FALLEN = [
    (good("NET/Socket/0"), 2), (good("NET/IB/0"), 2), (good("NET/FasTrak/0"), 2), (good(hosts=("a", "b", "c", "d")), 4)
]  # fmt: skip


@pytest.mark.parametrize(("lines", "count"), FALLEN, ids=["sockets", "no GPUDirect", "GPUDirect-TCP", "good"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_one_node_that_was_given_and_several_in_the_log_is_said_first(lines, count, ranks):
    """Nobody knows which of the two is true, so nothing is advised about what goes between nodes; never a pass."""
    found = logs.facts("\n".join(lines) + "\n", ranks=ranks, nodes=1)
    decision = verdict.decide(found)
    assert decision.verdict != "pass"
    assert decision.reasons[0].text == f"1 node was given, but the log shows {count} nodes"
    assert "pods share a machine" in decision.advice[0].cause
    assert f"1 node was given and {count} are in the log" in verdict.question(found)
    said = " ".join(f"{one.cause} {one.fix}" for one in decision.advice)
    assert not [word for word in ("NCCL_NET to", "peermem", "PCIe switch", "/dev/infiniband") if word in said]


def test_a_network_within_the_one_node_that_was_given_is_asked_why():
    """Its ranks could reach each other directly; adapters have no part in it."""
    lines = [line.replace("] via", "] [send] via") for line in one_node("NET/Socket/0")]
    said = " ".join(one.cause for one in decide(lines, nodes=1).advice)
    assert "P2P is switched off" in said
    assert "next network" not in said


def test_one_node():
    """Nothing goes between nodes: what is used inside decides, and a choice of sockets is no fallback."""
    chosen = logs.record("Using network Socket", host="w")
    assert decide([chosen, *one_node()], nodes=1).verdict == "pass"
    assert decide([chosen, *one_node()], nodes=2).verdict == "fail"
    for lines in (one_node("SHM/direct/direct"), one_node()[::2], [*one_node(), warning("odd")]):
        assert decide(lines, nodes=1).verdict == "inconclusive"
    other = decide(one_node(), ranks=4, nodes=1)
    assert (other.verdict, "4 are expected" in other.reasons[0].text) == ("inconclusive", True)


@pytest.mark.parametrize("path", ["[send] via NET/IB/0/GDRDMA/NewThing", "via XYZ/foo", "via P2P/WARP"])
def test_a_path_of_an_unknown_shape_is_no_good_news(path):
    """It may be the one that matters."""
    decision = decide([*good(), logs.record(f"Channel 00/0 : 0[0] -> 1[0] {path}")])
    assert decision.verdict == "inconclusive"
    assert "1 line of NCCL cannot be read" in [reason.text for reason in decision.reasons]


@pytest.mark.parametrize("name", ["ROCM-IB", "IB-CAST", "RCCL-ANP"])
def test_networks_of_amd(name):
    """They are RDMA of RCCL's own."""
    assert decide(good(f"NET/{name}/0/GDRDMA")).verdict == "pass"


def test_rccl_without_gdr_gets_no_advice_of_nvidia():
    """Its own causes: the kernel's balancing on Hyper-V where the log shows it, candidates where it does not."""
    plain = ["RCCL version : 2.21.5-HEAD:4a9e2b7", *good("NET/IB/0")]
    both = [
        *plain,
        warning("NUMA auto balancing enabled which can lead to variability"),
        logs.record("NCCL_IB_PCI_RELAXED_ORDERING set by environment to 0."),
    ]
    azure = [*both, logs.record("Kernel version: 6.5.0-1031-azure")]
    for lines, said in ((plain, "peer memory"), (both, "bios_version"), (azure, "on Hyper-V RCCL")):
        decision = decide(lines)
        assert decision.verdict == "fail"
        assert said in decision.advice[0].cause
        assert "nvidia" not in str(decision.advice).lower()


@pytest.mark.parametrize(
    ("status", "said"),
    [(1, "length error"), (4, "protection"), (10, "remote access"), (12, "retries"), (99, "not known")],
)
def test_a_status_has_its_own_meaning(status, said):
    """As it is printed; one that nobody knows gets none."""
    text = f"NET/IB : Got completion from peer 10.0.0.2<3911> with status={status} opcode=128 len=0 vendor err 64"
    decision = decide([warning(text)])
    assert f"status={status} opcode=128 len=0 vendor err 64" in decision.reasons[0].text
    assert (said in decision.advice[0].cause, f"status {status}" in decision.advice[0].cause) == (True, True)


def test_what_comes_first_decides_and_the_rest_follows():
    """A GPU's error leads before the watchdogs of others, and where it is later than they are it does not."""
    watchdog = (
        "[rank0]:[E1005 {}:21.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
    )
    error = (
        "[rank1]: RuntimeError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error"
    )
    ended = "E1005 09:23:20.4 1 torch/x.py:874] failed (exitcode: 1) local_rank: 5 (pid: 77)"
    first = decide([watchdog.format("09:33"), error, ended])
    assert first.reasons[0].text.startswith("gpu_error on rank 1")
    assert [reason.text.partition(":")[0] for reason in first.reasons[1:]] == [
        "follows",
        "follows, 601 s later",
    ]
    assert "nvlink" in first.advice[0].fix
    assert len(first.advice) == 1
    later = decide([watchdog.format("09:03"), error, ended])
    assert later.reasons[0].text.startswith("watchdog_timeout on rank 0")


@pytest.mark.parametrize(
    "line",
    [
        "px-0:1:9 [0] NCCL ERROR quux failed",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Killed",
        "Bus error: nonexistent physical address",
        "Signal: Aborted (6)",
        "Fatal error in MPI_Init",
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***",
        "kernel: mlx5_core 0000:1a:00.0: mlx5_0: Port: 1 Link DOWN",
    ],
)
def test_words_in_which_others_end_something_are_no_good_news(line: str) -> None:
    """Shells, launchers, kernels and libraries tell in words of their own that something ended."""
    found = logs.facts("\n".join([*logs.ring(), line]) + "\n", ranks=2, nodes=2)
    assert verdict.decide(found).verdict != "pass"
