"""Rows that are judged by connection lines: on constructed logs, on real ones, and on what logs lack."""

import dataclasses
import json
import re

import pytest

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.judge.fabric import (
    communicator,
    forced_transport,
    intra_node,
    nccl_settings,
    transport,
)
from pytest_gpucluster.mutants import base
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.defects import construct, matrix

ROWS = {
    "FAB-001": transport.on_declared,
    "FAB-002": transport.with_gdr,
    "FAB-003": transport.nobody_on_tcp,
    "FAB-004": communicator.holds_all,
    "FAB-005": communicator.declared_adapters,
    "FAB-017": nccl_settings.as_declared,
    "FAB-018": intra_node.on_declared_path,
}


@pytest.fixture(scope="module")
def good():
    """Return the constructed evidence of two nodes of four GPUs over NET/IB."""
    return read(matrix.HOST / "collectives.jsonl")


def declared(evidence, **more):
    """Return the evidence under another declaration of the fabric."""
    given = {**evidence.given, "fabric": {**evidence.given["fabric"], **more}}
    return Evidence(evidence.lines, header={**evidence.header, "given": given}, spans=evidence.spans)


def logged(evidence, change):
    """Return the evidence with lines of NCCL logs changed; None drops a line and its log says so."""
    lines = []
    for line in evidence.lines:
        text = str(line.data.get("line") or "")
        if line.type == "LOG" and text.startswith("[rank"):
            told = change(text)
            if told is None:
                continue
            lines.append(dataclasses.replace(line, data={**line.data, "line": told}))
        else:
            lines.append(line)
    return base.with_lines(evidence, lines)


def judge(row, evidence):
    """Return the finding of a row."""
    return ROWS[row](evidence, evidence.given)


def verdicts(evidence):
    """Return row -> verdict."""
    return {row: str(judge(row, evidence).verdict) for row in ROWS}


def test_a_declared_fabric_that_is_used_passes_all_rows(good):
    """NET/IB with GPUDirect RDMA on all ranks, P2P inside the nodes."""
    assert verdicts(good) == dict.fromkeys(ROWS, "pass")


def test_on_cpus_no_row_applies():
    """Gloo has no connection lines."""
    assert set(verdicts(recordings.embedded("collectives")).values()) == {"not_applicable"}


def test_what_is_not_declared_is_measured_and_not_judged(good):
    """Transport, GPUDirect RDMA, adapters and settings need a declaration; the communicator and P2P do not."""
    bare = declared(good, transport=None, gdr=None, hcas=[], settings={})
    found = verdicts(bare)
    assert {row for row, verdict in found.items() if verdict == "not_applicable"} == {
        "FAB-001", "FAB-002", "FAB-003", "FAB-005", "FAB-017",
    }  # fmt: skip
    assert "connections between nodes use IB" in judge("FAB-001", bare).observed


def test_ranks_on_tcp_are_named_with_their_nodes(good):
    """One rank of eight."""
    fallen = logged(good, lambda t: re.sub(r"NET/IB/\d/GDRDMA", "NET/Socket/0", t) if "[rank6]" in t else t)
    for row in ("FAB-001", "FAB-002", "FAB-003"):
        finding = judge(row, fallen)
        assert finding.verdict is Verdict.FAIL
        assert finding.violation
        assert finding.where == ("rank 6 on Pod/collectives-worker-1 on gpu-1",)
    assert "ranks 6 on gpu-1 are on TCP" in judge("FAB-003", fallen).observed


def test_a_disabling_variable_is_the_first_cause(good):
    """An image that sets NCCL_IB_DISABLE: the settings say it, and the transport rows name it first."""

    def off(text):
        if "NCCL_IB_HCA set" in text:
            return (
                text.replace(
                    "NCCL_IB_HCA set by environment to", "NCCL_IB_DISABLE set by environment to 1 #"
                )[: text.index("NCCL_IB_HCA")]
                + "NCCL_IB_DISABLE set by environment to 1."
            )
        return re.sub(r"NET/IB/\d/GDRDMA", "NET/Socket/0", text)

    found = declared(logged(good, off), settings={"NCCL_SOCKET_IFNAME": "eth0"})
    assert "NCCL_IB_DISABLE" in judge("FAB-003", found).causes[0].text
    settings = judge("FAB-017", found)
    assert settings.verdict is Verdict.FAIL
    assert "NCCL_IB_DISABLE=1 is in effect" in settings.observed


def test_gdr_in_one_direction_is_not_enough(good):
    """Receiving without GPUDirect RDMA, on some ranks."""
    half = logged(good, lambda t: t.replace("/GDRDMA", "") if "[receive]" in t else t)
    finding = judge("FAB-002", half)
    assert finding.verdict is Verdict.FAIL
    assert "receive over IB" in finding.observed
    assert verdicts(half) == {**dict.fromkeys(ROWS, "pass"), "FAB-002": "fail"}


def test_libfabric_over_tcp_is_not_what_was_declared(good):
    """By name it is the declared plugin, by its provider it is TCP."""

    def plugin(provider):
        def change(text):
            text = text.replace("Using network IB", "Using network AWS Libfabric")
            if "NET/IB : Using" in text:
                head = text.partition("NCCL INFO ")[0]
                return f"{head}NCCL INFO NET/OFI Selected Provider is {provider} (found 4 nics)"
            return text.replace("NET/IB/", "NET/AWS Libfabric/")

        return change

    efa = declared(logged(good, plugin("efa")), transport="NET/OFI", hcas=[])
    assert judge("FAB-001", efa).verdict is Verdict.PASS
    assert judge("FAB-003", efa).verdict is Verdict.PASS
    tcp = declared(logged(good, plugin("tcp")), transport="NET/OFI", hcas=[])
    assert judge("FAB-001", tcp).verdict is Verdict.FAIL
    assert judge("FAB-003", tcp).verdict is Verdict.FAIL


def test_a_plugin_is_known_by_its_declared_name(good):
    """The adapters' plugin calls the network otherwise."""
    other = logged(
        good, lambda t: t.replace("NET/IB/", "NET/IBext_v8/").replace("network IB", "network IBext_v8")
    )
    assert judge("FAB-001", other).verdict is Verdict.PASS
    assert judge("FAB-001", declared(other, network="IBext_v8")).verdict is Verdict.PASS
    assert judge("FAB-001", declared(other, network="IB")).verdict is Verdict.FAIL


def test_in_one_nvlink_domain_nothing_is_on_adapters(good):
    """MNNVL is declared: connections between nodes are P2P/MNNVL; any network is a departure."""
    joined = declared(
        logged(good, lambda t: re.sub(r"(\[send\]|\[receive\]) via NET/IB/\d/GDRDMA", "via P2P/MNNVL", t)),
        transport="MNNVL", gdr=None, hcas=[],
    )  # fmt: skip
    assert judge("FAB-001", joined).verdict is Verdict.PASS
    assert judge("FAB-003", joined).verdict is Verdict.PASS
    assert judge("FAB-001", declared(good, transport="MNNVL")).verdict is Verdict.FAIL


@pytest.mark.parametrize("row", ["FAB-001", "FAB-002", "FAB-003", "FAB-005"])
def test_silence_is_no_pass(good, row):
    """A node without any connection line; the log of a rank that is cut; the logs of one member missing."""
    mute = logged(good, lambda t: re.sub(r" via NET/.*", "", t) if "-worker-1:" in t else t)
    assert judge(row, mute).verdict is Verdict.INCONCLUSIVE
    cut = logged(good, lambda t: None if "[rank3]" in t and "Destroy" in t else t)
    finding = judge(row, cut)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 3 of 8 is missing or incomplete" in finding.observed


def test_several_worlds_are_no_world(good):
    """Two communicators of eight that know nothing of each other; one of four ranks where eight are."""
    apart = logged(good, lambda t: t.replace("0x4dba", "0x7777") if "-worker-1:" in t else t)
    assert judge("FAB-004", apart).verdict is Verdict.FAIL
    small = logged(good, lambda t: t.replace("nranks 8", "nranks 4").replace("nRanks 8", "nRanks 4"))
    finding = judge("FAB-004", small)
    assert finding.verdict is Verdict.FAIL
    assert "4 of 8" in finding.observed


def test_an_adapter_that_a_pod_does_not_see(good):
    """One member lists three of four adapters."""
    lacks = logged(good, lambda t: t.replace(" [3]mlx5_3:1/IB", "") if "-worker-1:" in t else t)
    finding = judge("FAB-005", lacks)
    assert finding.verdict is Verdict.FAIL
    assert "collectives-worker-1 lacks mlx5_3" in finding.observed


def test_settings_that_differ_between_ranks(good):
    """A launcher passed the variable to one member only; nobody's log tells it; another value."""
    uneven = logged(good, lambda t: None if "NCCL_IB_HCA set" in t and "-worker-1:" in t else t)
    told = base.words(
        uneven,
        lambda _, w: (
            {**w, "lines": w["lines"] - 1} if w.get("event") == "nccl-log" and w["pod"].endswith("-1") else w
        ),
    )
    finding = judge("FAB-017", told)
    assert finding.verdict is Verdict.FAIL
    assert "not on 4, 5, 6, 7" in finding.observed
    unset = declared(good, settings={"NCCL_CROSS_NIC": "0"})
    finding = judge("FAB-017", unset)
    assert finding.verdict is Verdict.FAIL
    assert "neither in the environment nor in the log" in finding.observed
    for env in ({"NCCL_CROSS_NIC": "0"}, None):
        unread = base.words(unset, lambda _, w, env=env: {**w, "env": env} if w.get("event") == "who" else w)
        assert judge("FAB-017", unread).verdict is Verdict.INCONCLUSIVE
    other = declared(good, settings={"NCCL_SOCKET_IFNAME": "ib0"})
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 have eth0" in judge("FAB-017", other).observed


def test_inside_a_node_only_what_is_declared(good):
    """Shared memory is a fail unless it is declared; NVLS must be in use where it is declared."""
    shared = logged(good, lambda t: t.replace("/0 :", " :").replace("P2P/CUMEM", "SHM/direct/direct"))
    finding = judge("FAB-018", shared)
    assert finding.verdict is Verdict.FAIL
    assert "on their node over SHM" in finding.observed
    assert judge("FAB-018", declared(shared, intra_node="SHM")).verdict is Verdict.PASS
    assert judge("FAB-018", declared(good, intra_node="NVLS")).verdict is Verdict.INCONCLUSIVE


def test_two_pods_on_one_node_are_two_nodes_to_nccl(good):
    """Their traffic goes over the network: found, and named as what it is."""
    moved = base.each(
        good,
        lambda line: line.kind == "Pod" and bool(line.object["spec"].get("nodeName")),
        lambda pod: pod["spec"].update(nodeName="gpu-0"),
    )
    finding = judge("FAB-018", moved)
    assert finding.verdict is Verdict.FAIL
    assert "over NET/IB" in finding.observed
    assert "different pods" in finding.causes[0].text
    assert judge("FAB-018", declared(moved, intra_node="NET")).verdict is Verdict.PASS


NCCL = recordings.FOLDER / "nccl"


def real(good, files, each, env=(), **fabric):
    """Return an evidence whose ranks printed real logs: pod -> file, `each` ranks a pod, with further variables."""
    pods = construct.pods_of(good, "collectives-worker")
    world = len(files) * each
    said = {}
    for pod, path in zip(pods, files, strict=False):
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()
        own = [line for line in text if " NCCL INFO " in line]
        # A line's rank is told by its process; those of helper threads belong to the process's rank.
        processes = sorted({int(line.split(":")[1]) for line in own})
        lines = said.setdefault(pod.uid, [])
        for local, _ in enumerate(processes):
            me = {
                **construct.who(pod, local),
                "rank": pod.member * each + local,
                "world": world,
                "local_world": each,
            }
            lines.append(
                construct.word(
                    "who", pod, **{**construct.identity(pod, local, construct.Wire(env=env)), **me}
                )
            )
            figures = construct.measured(pod, local, construct.Wire(sockets=True))
            lines += [
                f"GPUCONF1 {json.dumps({**json.loads(one.partition(' ')[2]), **me})}" for one in figures
            ]
            lines.append(construct.word("done", pod, code=0, **me))
        for local, process in enumerate(processes):
            log = [line for line in own if int(line.split(":")[1]) == process]
            lines += construct.shown(pod, pod.member * each + local, log)
    gone = {pod.uid: ["nothing"] for pod in pods[len(files) :]}
    evidence = construct.spoken(good, {**said, **gone})
    nodes = len(files)
    given = {**evidence.given, "world": world, "nproc": each, "nodes": nodes, "members": nodes}
    header = {**evidence.header, "given": given}
    return declared(
        Evidence(evidence.lines, header=header, spans=evidence.spans), hcas=[], settings={}, **fabric
    )


def test_real_logs_of_two_pods_over_sockets(good):
    """Four H100, two pods: P2P inside, sockets between; a profile that declares NET/IB finds every rank on TCP."""
    folder = NCCL / "h100x4-nccl2.28.9-two-pods"
    evidence = real(good, [folder / "pod-0.log", folder / "pod-1.log"], 2)
    found = verdicts(evidence)
    assert found["FAB-001"] == found["FAB-002"] == found["FAB-003"] == "fail"
    assert found["FAB-004"] == found["FAB-018"] == "pass"
    finding = judge("FAB-003", evidence)
    assert "gpu-0, gpu-1" in finding.observed
    sockets = declared(evidence, transport="NET/Socket", gdr=None)
    assert judge("FAB-001", sockets).verdict is Verdict.PASS
    assert judge("FAB-003", sockets).verdict is Verdict.NOT_APPLICABLE


def test_real_logs_of_two_kubelets_over_sockets(good):
    """Two H200 of two nodes of a real cluster: every rank is on TCP, and fine where sockets are declared."""
    folder = NCCL / "h200x2-nccl2.28.9-two-kubelets"
    evidence = real(good, [folder / "pod-0.log", folder / "pod-1.log"], 1)
    found = verdicts(evidence)
    assert found["FAB-001"] == found["FAB-002"] == found["FAB-003"] == "fail"
    assert found["FAB-004"] == "pass"
    sockets = declared(evidence, transport="NET/Socket", gdr=None)
    assert judge("FAB-001", sockets).verdict is Verdict.PASS


def test_a_forced_network_is_told_by_the_ranks_for_nccl_never_logs_it(good):
    """Real logs of two kubelets, whose ranks used sockets: the process says what it was held to."""
    folder = NCCL / "h200x2-nccl2.28.9-two-kubelets"
    logs = [folder / "pod-0.log", folder / "pod-1.log"]
    found = {}
    for value in ("Socket", "socket", "IB", ""):
        env = (("NCCL_NET", value),) if value else ()
        evidence = real(good, logs, 1, env, transport="NET/Socket", gdr=None)
        found[value] = forced_transport.forms(evidence, {**evidence.given, "forced": "Socket"})
    assert found["Socket"].verdict is found["socket"].verdict is Verdict.PASS
    for value, text in (("IB", "in effect is IB"), ("", "does not have it")):
        assert found[value].verdict is Verdict.INCONCLUSIVE
        assert text in found[value].observed
        assert "entrypoint" in found[value].causes[0].text
    held = real(good, logs, 1, (("NCCL_NET", "IB"),))
    finding = forced_transport.forms(held, {**held.given, "forced": "IB"})
    assert finding.verdict is Verdict.FAIL
    assert [cause.text.partition(" (")[0] for cause in finding.causes] == ["an environment plugin of NCCL"]


@pytest.mark.parametrize("row", ["FAB-010", "FAB-017"])
def test_ranks_that_do_not_tell_their_variables_pass_nothing_that_rests_on_one(good, row):
    """Who is silent may have any network forced on it."""
    forced = read(matrix.HOST / "forced-transport.jsonl")
    evidence = {"FAB-010": forced, "FAB-017": good}[row]
    judged = {"FAB-010": forced_transport.forms, "FAB-017": nccl_settings.as_declared}[row]
    assert judged(evidence, evidence.given).verdict is Verdict.PASS
    silent = base.words(
        evidence, lambda _, w: {k: v for k, v in w.items() if k != "env"} if w.get("rank") == 3 else w
    )
    finding = judged(silent, silent.given)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "payloads of this version" in finding.causes[0].fix


@pytest.mark.parametrize("ranks", [{0, 1, 2, 3, 4, 5, 6, 7}, {5}])
def test_sockets_that_the_image_forces_are_named_though_nccl_logs_nothing(good, ranks):
    """NCCL_NET=Socket in the environment of some ranks, and in no log."""

    def force(_, told):
        if told.get("event") == "who" and told["rank"] in ranks:
            told["env"]["NCCL_NET"] = "Socket"
        return told

    spoiled = base.words(good, force)
    finding = judge("FAB-017", spoiled)
    assert finding.verdict is Verdict.FAIL
    assert "NCCL_NET=Socket is in effect" in finding.observed
    fallen = logged(
        spoiled, lambda t: re.sub(r"NET/IB/\d/GDRDMA", "NET/Socket/0", t) if "[rank5]" in t else t
    )
    assert judge("FAB-001", fallen).causes[0].text == "NCCL_NET names Socket"


@pytest.mark.parametrize(
    ("value", "verdict"), [("IB", Verdict.PASS), ("OFI", Verdict.FAIL), (None, Verdict.FAIL)]
)
def test_a_declared_network_is_read_from_the_ranks(good, value, verdict):
    """fabric.settings may name NCCL_NET, which no log shows."""

    def have(_, told):
        if told.get("event") == "who" and value:
            told["env"]["NCCL_NET"] = value
        return told

    evidence = declared(base.words(good, have), settings={"NCCL_NET": "IB"})
    assert judge("FAB-017", evidence).verdict is verdict


def test_real_logs_of_one_node(good):
    """Four H200 in one pod: P2P inside; nothing goes between nodes."""
    evidence = real(good, [NCCL / "h200x4-nccl2.28.9" / "p2p.log"], 4)
    found = verdicts(evidence)
    assert found["FAB-001"] == found["FAB-002"] == found["FAB-003"] == found["FAB-005"] == "not_applicable"
    assert found["FAB-004"] == found["FAB-018"] == "pass"
    assert json.dumps(judge("FAB-018", evidence).as_dict())


def test_a_second_communicator_of_the_whole_world_is_no_second_world(good):
    """Programs make process groups of all ranks beside the first one."""
    lines = []
    for line in good.lines:
        lines.append(line)
        text = str(line.data.get("line") or "")
        if line.type == "LOG" and "Init COMPLETE" in text:
            again = text.replace("commId 0x4dba", "commId 0x7777").replace("comm 0x4", "comm 0x5")
            lines.append(dataclasses.replace(line, data={**line.data, "line": again}))
    evidence = base.words(base.with_lines(good, lines), lambda _, told: _longer(told))
    assert judge("FAB-004", evidence).verdict is Verdict.PASS
    apart = logged(evidence, lambda t: t.replace("commId 0x4dba", "commId 0x1111") if "worker-1:" in t else t)
    apart = logged(apart, lambda t: t.replace("commId 0x7777", "commId 0x2222") if "worker-1:" in t else t)
    assert judge("FAB-004", apart).verdict is Verdict.FAIL


def _longer(told):
    """Return what a rank says of its log when it has one line more."""
    if told.get("event") == "nccl-log" and isinstance(told.get("lines"), int):
        told["lines"] += 1
    return told


def test_a_network_that_nobody_knows_may_be_tcp(good):
    """Neither a plugin without a known name nor libfabric without a provider is shown to be no TCP."""
    acme = logged(good, lambda t: t.replace("NET/IB/", "NET/Acme/"))
    assert judge("FAB-001", acme).verdict is Verdict.FAIL
    assert judge("FAB-003", acme).verdict is Verdict.INCONCLUSIVE
    named = declared(acme, network="Acme")
    assert judge("FAB-001", named).verdict is Verdict.PASS
    assert judge("FAB-003", named).verdict is Verdict.PASS
    libfabric = declared(
        logged(good, lambda t: re.sub(r"NET/IB/(\d)/GDRDMA", r"NET/Libfabric/\1", t)),
        transport="NET/OFI",
        gdr=None,
    )
    assert judge("FAB-003", libfabric).verdict is Verdict.INCONCLUSIVE


def strayed(evidence, text):
    """Return the evidence with a line in a pod's output that stands in no rank's log."""
    at, line = next(
        (n, one) for n, one in enumerate(evidence.lines)
        if one.type == "LOG" and "NCCL INFO Channel" in str(one.data.get("line"))
    )  # fmt: skip
    more = dataclasses.replace(line, data={**line.data, "line": text})
    return base.with_lines(evidence, [*evidence.lines[:at], more, *evidence.lines[at:]])


@pytest.mark.parametrize(
    "text",
    [
        "collectives-worker-0:100:100 [0] NCCL INFO Channel 00/0 : 0[0] -> 5[1] [send] via NET/Socket/0",
        "[0] NCCL INFO Channel 00/0 : 0[0] -> 5[1] [send] via NET/Socket/0",
        "[default0]:Channel 00/0 : 0[0] -> 5[1] [send] via NET/Socket/0",
    ],
)
def test_a_connection_outside_of_the_ranks_logs_counts(good, text):
    """A process that wrote past its file is on sockets all the same."""
    finding = judge("FAB-003", strayed(good, text))
    assert finding.verdict is Verdict.FAIL
    assert "ranks 0" in finding.observed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a:1:2 [0] misc/x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
            "ibv_reg_mr",
        ),
        ("a:1:2 [0] transport/x.cc:1 NCCL WARN NET/IB : Got async event : port error", "port error"),
        ("a:1:2 [0] tuner.cc:1 NCCL WARN the moon is in the wrong phase", "the moon"),
        (
            "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 5[1] [send] via NET/IB/0/GDRDMA/Other",
            "cannot be read",
        ),
    ],
)
def test_a_log_with_an_error_or_a_riddle_is_no_pass(good, text, said):
    """Rows that stand on the whole logs of all ranks do not pass beside it, and quote it."""
    for row in ("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-018"):
        finding = judge(row, strayed(good, text))
        assert finding.verdict is Verdict.INCONCLUSIVE, row
        assert said in finding.observed
