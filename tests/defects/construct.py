"""Evidence of a fabric that was not at hand: `python -m tests.defects.construct` writes `fixtures/recorded/host`.

The life of the pods is that of a recorded run of the same scenario on the embedded cluster; what the ranks print is
made up here: two nodes of four GPUs, an adapter a GPU. The shapes of NCCL's lines follow real logs of version 2.28.9
and, for NET/IB, public ones. The header says that the evidence is constructed.
"""

import argparse
import dataclasses
import datetime as dt
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.measure import collective, switches
from tests.defects import matrix

NODES, GPUS = 2, 4
WORLD = NODES * GPUS
HCAS = tuple(f"mlx5_{n}" for n in range(GPUS))
SIZES = (64 << 10, 16 << 20, 1 << 30)
FABRIC: Mapping[str, Any] = {
    "device": "gpu",
    "nodes": NODES,
    "pods_per_node": 1,
    "transport": "NET/IB",
    "network": None,
    "hcas": list(HCAS),
    "gdr": "required",
    "intra_node": "P2P",
    "nics_per_node": GPUS,
    "nic_gbps": 400.0,
    "link_gbs": 450.0,
    "settings": {"NCCL_IB_HCA": "=" + ",".join(HCAS), "NCCL_SOCKET_IFNAME": "eth0"},
    "env": {"NCCL_IB_HCA": "=" + ",".join(HCAS), "NCCL_SOCKET_IFNAME": "eth0"},
    "floors": [
        {
            "collective": name, "size": 1 << 30, "busbw": 150.0, "nodes": NODES, "gpus": GPUS, "device": "H100",
            "origin": "constructed: three quarters of the adapters' sum", "of": "profile",
        }
        for name in ("all_reduce", "all_gather", "reduce_scatter")
    ],
    "floor_file": None,
    "slow_share": 0.7,
    "seconds": 30.0,
    "stall_bound": 60.0,
}  # fmt: skip
RATES = {
    "all_reduce": 188.0,
    "all_gather": 182.0,
    "reduce_scatter": 181.0,
    "all_to_all": 44.0,
    "sendrecv": 45.0,
}
"""Bus bandwidth in GB/s at the largest size."""
BASE = "collectives"
"""The scenario whose run on the embedded cluster lends the pods' life."""
SOCKETS = 0.03
"""What is left of it over sockets."""


@dataclasses.dataclass(frozen=True)
class Pod:
    """A pod of the recorded run."""

    name: str
    uid: str
    node: str
    ip: str
    member: int


@dataclasses.dataclass(frozen=True)
class Wire:
    """What carries the traffic between nodes in a constructed run.

    Attributes:
        sockets: TCP over eth0 instead of NET/IB.
        env: variables in force beside those of the profile.
        inside: the path between ranks of a node.
        gdr: whether adapters read and write GPU memory themselves.
        share: what is left of the bandwidth.
        version: of NCCL.
        reports: whether NCCL was asked to try its own paths.
    """

    sockets: bool = False
    env: tuple[tuple[str, str], ...] = ()
    inside: str = "P2P/CUMEM"
    gdr: bool = True
    share: float = 1.0
    version: str = "2.28.9"
    reports: bool = False


def pods_of(evidence: Evidence, prefix: str) -> list[Pod]:
    """Return the pods of a gang as they were bound, by name."""
    last: dict[str, Any] = {}
    for line in evidence.lines:
        if line.kind == "Pod" and line.name.startswith(prefix) and line.object["spec"].get("nodeName"):
            last[line.name] = line.object
    return [
        Pod(
            name,
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            pod["status"].get("podIP", "10.0.0.1"),
            member,
        )
        for member, (name, pod) in enumerate(sorted(last.items()))
    ]


def word(event: str, pod: Pod, **fields: object) -> str:
    """Return a line as payloads print it."""
    told = {"run": "", "attempt": 0, "event": event, "pod": pod.name, "container": "main", "t": 0.0, **fields}
    return f"GPUCONF1 {json.dumps(told, separators=(',', ':'))}"


def who(pod: Pod, local: int) -> dict[str, Any]:
    """Return who a rank is."""
    return {
        "rank": pod.member * GPUS + local, "world": WORLD, "local_rank": local, "local_world": GPUS,
        "group_rank": pod.member, "host": pod.name, "node": pod.node, "backend": "nccl",
    }  # fmt: skip


def uuid(pod: Pod, local: int) -> str:
    """Return the UUID of a GPU."""
    return f"GPU-{pod.member:04x}{local:04x}-5d3f-4e29-9f0a-c0ffee000000"


def identity(pod: Pod, local: int, wire: Wire | None = None) -> dict[str, Any]:
    """Return the device of a rank, and the variables in its pod."""
    return {
        "env": {**FABRIC["env"], **dict(wire.env if wire is not None else ())},
        "handed": [uuid(pod, n) for n in range(GPUS)], "handed_count": GPUS, "torch": "2.11.0+cu130",
        "device": "cuda", "device_name": "NVIDIA H100 80GB HBM3", "memory": 85017034752, "uuid": uuid(pod, local),
        "uuid_by": "driver", "visible": "0,1,2,3", "nccl": "2.28.9",
    }  # fmt: skip


def figure(name: str, size: int, factor: float, rate: float) -> dict[str, Any]:
    """Return the figures of one collective at one size: latency and bandwidth, as they lie beside each other."""
    mean = size * factor / (rate * 1e9) * 1e6 + 25.0
    told = {
        "collective": name,
        "size": size,
        "iters": 20,
        "mean": round(mean, 2),
        "min": round(mean * 0.97, 2),
    }
    algorithm = size / (mean / 1e6) / 1e9
    return {
        **told, "p50": round(mean, 2), "p90": round(mean * 1.02, 2), "p99": round(mean * 1.05, 2),
        "algbw": round(algorithm, 4), "busbw": round(algorithm * factor, 4), "factor": round(factor, 6), "wrong": 0,
    }  # fmt: skip


def measured(pod: Pod, local: int, wire: Wire) -> list[str]:
    """Return the lines in which a rank tells its figures, and those of its exchange with the other member."""
    share = SOCKETS if wire.sockets else wire.share
    results = [
        figure(name, size, collective.factor(name, WORLD) or 1.0, rate * share)
        for name, rate in RATES.items()
        if name != "sendrecv"
        for size in SIZES
    ]
    parts = [results[n : n + 8] for n in range(0, len(results), 8)]
    first = {"first_process": 14.2, "first_pod": 19.6, "first_t": 0.0}
    lines = [
        word("measured", pod, part=n, parts=len(parts), results=part, **who(pod, local), **first)
        for n, part in enumerate(parts, start=1)
    ]
    peer = (1 - pod.member) * GPUS + local
    pair = {**figure("sendrecv", 64 << 20, 1.0, RATES["sendrecv"] * share), "peer": peer}
    return [*lines, word("pairs", pod, part=1, parts=1, results=[pair], **who(pod, local))]


def nccl(pods: list[Pod], pod: Pod, local: int, wire: Wire) -> list[str]:
    """Return the NCCL log of a rank; each GPU has a ring of its own over the adapter beside it."""
    rank, process = pod.member * GPUS + local, 100 + local
    head = f"{pod.name}:{process}:{process} [{local}] NCCL INFO "
    net = "Socket" if wire.sockets else "IB"
    listed = " ".join(f"[{n}]{hca}:1/IB" for n, hca in enumerate(HCAS))
    oob = f"eth0:{pod.ip}<0>"
    env = {**FABRIC["env"], **dict(wire.env)}
    lines = [
        "ENV/Plugin: Could not find: libnccl-env.so",
        "NCCL_SOCKET_IFNAME set by environment to eth0",
        f"Bootstrap: Using {oob}",
        "cudaDriverVersion 13000",
        f"NCCL version {wire.version}+cuda13.0",
        "NET/Plugin: Could not find: libnccl-net.so",
        # NCCL reads NCCL_NET, and never logs it.
        *[f"{name} set by environment to {value}" for name, value in env.items() if name != "NCCL_NET"],
    ]
    if wire.sockets:
        lines += [f"NET/Socket : Using [0]{oob}", "Initialized NET plugin Socket"]
    else:
        lines += [f"NET/IB : Using {listed} [RO]; OOB {oob}", "Initialized NET plugin IB"]
    bus = f"{0x60 + 0x10 * local:x}"
    comm = f"comm 0x{0x40884600 + rank:x}"
    start = f"ncclCommInitRankConfig {comm} rank {rank} nranks {WORLD} cudaDev {local} nvmlDev {local} busId {bus}"
    identity_ = "commId 0x4dba73aa1c4b6897"
    lines += [
        f"Assigned NET plugin {net} to comm",
        f"Using network {net}",
        f"{start} {identity_} - Init START",
        f"{comm} rank {rank} nRanks {WORLD} nNodes {NODES} localRanks {GPUS} localRank {local} MNNVL 0",
        f"{start} {identity_} - Init COMPLETE",
    ]
    for channel in range(GPUS):
        lines += links(pod.member, local, channel, net, wire)
    lines += ["Connected all rings, use ring PXN 0 GDR 1" if net == "IB" else "Connected all rings"]
    lines += [f"{comm} rank {rank} nranks {WORLD} cudaDev {local} busId {bus} - Destroy COMPLETE"]
    assert len(pods) == NODES
    return [head + line for line in lines]


def links(member: int, local: int, channel: int, net: str, wire: Wire) -> list[str]:
    """Return the connection lines of a rank in one ring: it leaves a node at the GPU of the channel's number."""
    order = [(channel + 1 + n) % GPUS for n in range(GPUS)]
    place = order.index(local)
    number = member * GPUS + local
    name = f"{number}[{local}]"
    via = "NET/Socket/0" if net == "Socket" else f"NET/IB/{channel}{'/GDRDMA' if wire.gdr else ''}"
    head = f"Channel {channel:02d}" if wire.inside.startswith("SHM") else f"Channel {channel:02d}/0"
    other = 1 - member
    found = []
    if place == 0:
        before = f"{other * GPUS + order[-1]}[{order[-1]}]"
        found.append(f"Channel {channel:02d}/0 : {before} -> {name} [receive] via {via}")
    if place == GPUS - 1:
        after = f"{other * GPUS + order[0]}[{order[0]}]"
        found.append(f"Channel {channel:02d}/0 : {name} -> {after} [send] via {via}")
    else:
        after = f"{member * GPUS + order[place + 1]}[{order[place + 1]}]"
        found.append(f"{head} : {name} -> {after} via {wire.inside}")
    return found


def shown(pod: Pod, rank: int, log: list[str]) -> list[str]:
    """Return an NCCL log as a rank prints it."""
    begin = word("nccl-log", pod, rank=rank, part="begin", lines=len(log), cut=0)
    end = word("nccl-log", pod, rank=rank, part="end", lines=len(log))
    return [begin, *(f"[rank{rank}]: {line}" for line in log), end]


def healthy(pods: list[Pod], wire: Wire) -> dict[str, list[str]]:
    """Return pod uid -> what its ranks print in a run in which all is well."""
    said: dict[str, list[str]] = {}
    for pod in pods:
        lines = said.setdefault(pod.uid, [])
        ranks = range(GPUS)
        lines += [word("who", pod, since_process=9.1, **who(pod, n), **identity(pod, n, wire)) for n in ranks]
        for local in ranks:
            lines += measured(pod, local, wire)
            lines.append(word("done", pod, code=0, **who(pod, local)))
        lines += reports(pods, pod) if wire.reports and pod.member == 0 else []
        for local in ranks:
            lines += shown(pod, who(pod, local)["rank"], nccl(pods, pod, local, wire))
    return said


def reports(pods: list[Pod], pod: Pod) -> list[str]:
    """Return what rank 0 prints of NCCL's diagnostics: shapes of 2.31.2, and of the network check of what came later.

    Each rank has a log of its own, so that its variable differs.
    """
    edges, comm = len(pods) * GPUS * (GPUS - 1), "comm 0x4dba73aa1c4b6897"
    across = f"across {WORLD} ranks in {comm}"
    ranks = "{" + ",".join(map(str, range(1, WORLD))) + "}"
    told = [
        "=== RAS Diagnostics ===",
        "=== NCCL Diagnostics ===",
        f"[OK]   GPU inventory: {GPUS}x NVIDIA H100 80GB HBM3 per node consistent {across}",
        f"[OK]   CUDA driver version: 13000 consistent {across}",
        f"[OK]   ECC: no uncorrected volatile errors {across}",
        f"[OK]   NVLink: found 18 link(s) per device, all active {across}",
        f"[INFO] NCCL environment: mismatch {across} for NCCL_DEBUG_FILE",
        "[INFO] NCCL environment: NCCL_DEBUG_FILE=/tmp/gpucluster-nccl-100-0.log on rank(s) {0}",
        f"[INFO] NCCL environment: NCCL_DEBUG_FILE=/tmp/gpucluster-nccl-101-1.log on rank(s) {ranks}",
        f"[INFO] NCCL environment: 1 NCCL_* env var(s) differ across ranks in {comm}",
        f"RAS diagnostics completed in 11.4 ms across {WORLD} ranks",
        f"[OK]   p2p: all {edges} directed GPU P2P edges verified",
        f"[OK] net bw: 391.1/392.4/393.0 Gbit/s min/median/max same-nic bw (across {WORLD} ranks) in {comm}",
        f"NCCL diagnostics completed in 812.0 ms across {WORLD} ranks",
    ]
    return [f"{pod.name}:100 NCCL DIAG {line}" for line in told]


def stalled(pods: list[Pod], absent: int, bound: float) -> dict[str, list[str]]:
    """Return what the ranks print when one does not enter a collective."""
    said: dict[str, list[str]] = {}
    for pod in pods:
        lines = said.setdefault(pod.uid, [])
        ranks = [(who(pod, n), identity(pod, n, Wire())) for n in range(GPUS)]
        lines += [word("who", pod, since_process=9.1, **one, **device) for one, device in ranks]
        for local in range(GPUS):
            me = who(pod, local)
            lines.append(
                word(
                    "stalled", pod, collective="all_reduce", size=65536, sequence=2, bound=bound,
                    waited=round(bound + 0.2, 3), entered=me["rank"] != absent, absent=[absent], absent_count=1,
                    transport="NET/IB/0, P2P/CUMEM", **me,
                )
            )  # fmt: skip
            lines += shown(pod, me["rank"], nccl(pods, pod, local, Wire())[:-1])
    return said


def spoken(evidence: Evidence, said: Mapping[str, list[str]]) -> Evidence:
    """Return an evidence in whose pods other lines were printed."""
    ends = {}
    for line in evidence.lines:
        if line.type == "LOG" and line.data.get("uid") in said:
            ends[str(line.data["uid"])] = line
    kept = [line for line in evidence.lines if not (line.type == "LOG" and str(line.data.get("uid")) in said)]
    more: list[Line] = []
    for uid, texts in said.items():
        last = ends[uid]
        for n, text in enumerate(texts):
            t = last.t - 2.0 + 2.0 * n / len(texts)
            more.append(dataclasses.replace(last, t=t, data={**last.data, "line": text}))
    lines = sorted([*kept, *more], key=lambda line: line.t)
    fresh = [dataclasses.replace(line, index=n) for n, line in enumerate(lines)]
    return Evidence(fresh, header=evidence.header, spans=evidence.spans)


def titled(evidence: Evidence, scenario: str, **given: object) -> Evidence:
    """Return an evidence with the header of a constructed one."""
    own = {**evidence.given, "nproc": GPUS, "world": WORLD, "fabric": dict(FABRIC), **given}
    text = "what the ranks print is made up: no such fabric was at hand; the pods' life is of an embedded cluster"
    header = {**evidence.header, "scenario": scenario, "given": own, "constructed": text}
    return Evidence(evidence.lines, header=header, spans=evidence.spans)


def slim(evidence: Evidence) -> Evidence:
    """Return an evidence without the text of the payload, which every ConfigMap of it has."""
    lines = [
        dataclasses.replace(line, object={**line.object, "data": {}}) if line.kind == "ConfigMap" else line
        for line in evidence.lines
    ]
    return Evidence(lines, header=evidence.header, spans=evidence.spans)


def write(name: str, evidence: Evidence) -> None:
    """Write an evidence file; its objects are called as the scenario is."""
    matrix.HOST.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in ingest.lines_of(slim(evidence)))
    for before, after in ((f"{BASE}-", f"{name}-"), (f'"{BASE}"', f'"{name}"'), (f"{BASE}/", f"{name}/")):
        text = text.replace(before, after)
    (matrix.HOST / f"{name}.jsonl").write_text(text + "\n", encoding="utf-8")


UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")


STAMP = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=(\.\d+)?Z)")


def _moved(text: str, after: float) -> str:
    """Return a text whose times are later: what objects say of themselves goes with when they were told of."""

    def move(found: re.Match[str]) -> str:
        return (dt.datetime.fromisoformat(found[0]) + dt.timedelta(seconds=int(after))).isoformat()

    return STAMP.sub(move, text)


OFF = "0ff0ff00"
"""How the uids of a second run begin."""


def twin(evidence: Evidence, after: float, label: str = "off", mark: str = OFF) -> Evidence:
    """Return the same run once more: later, under another name, with uids of its own, in the role `contrast`."""
    lines = []
    for line in ingest.lines_of(evidence):
        if line["type"] in ("HEADER", "SPAN"):
            continue
        text = UID.sub(rf"{mark}\1", json.dumps(line))
        text = text.replace(f"{BASE}-worker", f"{BASE}-{label}-worker").replace(
            f'"name": "{BASE}"', f'"name": "{BASE}-{label}"'
        )
        text = text.replace('"subject"', '"contrast"').replace(f'"{BASE}"', f'"{BASE}-{label}"')
        told = json.loads(_moved(text, after))
        lines.append({**told, "t": round(told["t"] + after, 6)})
    made = [ingest.make_line(float(o["t"]), o["type"], o, n) for n, o in enumerate(lines)]
    return Evidence(made, header=evidence.header, spans=evidence.spans)


def both(first: Evidence, second: Evidence, label: str = "off", mark: str = OFF) -> Evidence:
    """Return one evidence of the runs of the first and of a later one, watched to its end."""
    lines = [line for line in first.lines if line.data.get("note") != "end"]
    merged = [*lines, *second.lines]
    roles = dict(first.given.get("roles") or {})
    roles["contrast"] = [
        *roles.get("contrast", []),
        *(
            {**one, "name": f"{BASE}-{label}", "uid": UID.sub(rf"{mark}\1", one["uid"])}
            for one in roles.get("subject", [])
        ),
    ]
    # Those of the first run: later ones begin with a mark of their own.
    own = [each for each in roles.get("payload", []) if not each["uid"].startswith(OFF[:-1])]
    roles["payload"] = [
        *roles.get("payload", []),
        *({**each, "uid": UID.sub(rf"{mark}\1", each["uid"])} for each in own),
    ]
    header = {**first.header, "given": {**first.given, "roles": roles}}
    spans = tuple(dataclasses.replace(span, end=max(span.end, second.end)) for span in first.spans)
    return Evidence(
        (dataclasses.replace(line, index=n) for n, line in enumerate(merged)), header=header, spans=spans
    )


def main() -> str:
    """Write the evidence of every scenario of the fabric."""
    base = read(matrix.RECORDED / f"{BASE}.jsonl")
    pods = pods_of(base, f"{BASE}-worker")
    write(BASE, titled(spoken(base, healthy(pods, Wire())), BASE))
    alone = Wire(env=(("NCCL_NET", "IB"),))
    write("forced-transport", titled(spoken(base, healthy(pods, alone)), "forced-transport", forced="IB"))
    absent = WORLD - 1
    ended = failed(spoken(base, stalled(pods, absent, FABRIC["stall_bound"])))
    write(
        "stalled-collective",
        titled(ended, "stalled-collective", absent=absent, stall_bound=FABRIC["stall_bound"]),
    )
    asked = Wire(
        env=(("NCCL_RUN_DIAGNOSTICS", "1"), ("NCCL_RUN_RAS_DIAGNOSTICS", "1")), version="2.32.3", reports=True
    )
    write("nccl-diagnostics", titled(spoken(base, healthy(pods, asked)), "nccl-diagnostics"))
    off = twin(base, base.end + 0.5)
    without = Wire(
        sockets=True, env=(("NCCL_NET", "Socket"), ("NCCL_IB_DISABLE", "1"), ("NCCL_NET_PLUGIN", "none"))
    )
    quiet = spoken(off, healthy(pods_of(off, f"{BASE}-off-worker"), without))
    write("sockets", titled(both(spoken(base, healthy(pods, Wire())), quiet), "sockets"))
    write("switches", switched(base, pods))
    return str(matrix.HOST)


SWITCHED = {
    "p2p": Wire(inside="SHM/direct/direct", share=0.4, env=(("NCCL_P2P_DISABLE", "1"),)),
    "rdma": Wire(sockets=True, env=tuple(switches.WITHOUT_FABRIC.items())),
    "gpudirect": Wire(gdr=False, share=0.55, env=(("NCCL_NET_GDR_LEVEL", "LOC"),)),
}
"""Switch, in small letters -> what a run without it is like."""


def switched(base: Evidence, pods: list[Pod]) -> Evidence:
    """Return a run with everything on, and one after the other those with one switch off."""
    names = {name.lower(): name for name in switches.SWITCHES}
    whole = spoken(base, healthy(pods, Wire()))
    for number, (label, wire) in enumerate(SWITCHED.items(), start=1):
        mark = f"0ff0ff0{number}"
        # Each later than the one before by the length of a run.
        off = twin(base, number * (base.end + 0.5), label, mark)
        said = spoken(off, healthy(pods_of(off, f"{BASE}-{label}-worker"), wire))
        whole = both(whole, said, label, mark)
    labels = {f"switches-{label}": names[label] for label in SWITCHED}
    return titled(whole, "switches", switched=labels)


def failed(evidence: Evidence) -> Evidence:
    """Return an evidence whose pods end with the exit code of a rank that stood still, and whose Job has failed."""
    lines = []
    for line in evidence.lines:
        status = line.object.get("status") or {}
        if line.kind == "Pod" and status.get("phase") == "Succeeded":
            lines.append(dataclasses.replace(line, object={**line.object, "status": _fallen(status)}))
        elif line.kind.startswith("Job.batch"):
            text = json.dumps(line.object).replace("Completed", "Failed").replace("Completing", "Failed")
            lines.append(dataclasses.replace(line, object=json.loads(text)))
        else:
            lines.append(line)
    return Evidence(lines, header=evidence.header, spans=evidence.spans)


def _fallen(status: Mapping[str, Any]) -> dict[str, Any]:
    containers = []
    for one in status.get("containerStatuses") or []:
        ended = {**(one.get("state") or {}).get("terminated", {}), "exitCode": 1, "reason": "Error"}
        containers.append({**one, "state": {"terminated": ended}})
    return {**status, "phase": "Failed", "containerStatuses": containers}


if __name__ == "__main__":
    argparse.ArgumentParser("python -m tests.defects.construct", description=__doc__).parse_args()
    sys.stdout.write(main() + "\n")
