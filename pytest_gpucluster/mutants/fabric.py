"""Departures of the traffic between ranks."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import words
from pytest_gpucluster.mutants import base


def _first_device(evidence: Evidence) -> Evidence:
    """Let all ranks of one member name the device of its first."""
    told = words(evidence).of("who")
    last = max((word.pod for word in told), default="")
    first = next((word for word in told if word.pod == last), None)
    if first is None:
        return evidence
    return base.on("who", lambda w: w.update(uuid=first.data.get("uuid")), alone=True)(evidence)


def _on_one_node(evidence: Evidence) -> Evidence:
    """Let all members that told their ranks lie on one node, each rank on a device of its own there."""
    told = words(evidence).of("who")
    node = next((str(word.data.get("node")) for word in told), "")
    if not node:
        return evidence
    uids = {word.uid for word in told}

    def move(pod: dict[str, Any]) -> None:
        if pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = node

    moved = base.each(evidence, lambda ln: ln.kind == "Pod" and ln.uid in uids, move)

    def settle(word: dict[str, Any]) -> None:
        word["node"] = node
        # Ids that a device plugin made up are unique on their node only.
        if word.get("uuid_by") != "driver":
            word["uuid"] = f"GPU-fake-{word.get('rank')}"

    return base.on("who", settle)(moved)


def floors(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes the first floor that is declared."""

    def mutant(evidence: Evidence) -> Evidence:
        given = dict(evidence.header.get("given") or {})
        fabric = dict(given.get("fabric") or {})
        listed = [dict(one) for one in fabric.get("floors") or []]
        if not listed:
            return evidence
        change(listed[0])
        header = {**evidence.header, "given": {**given, "fabric": {**fabric, "floors": listed}}}
        return Evidence(evidence.lines, header=header, spans=evidence.spans)

    return mutant


def _slower(word: dict[str, Any], times: float = 3.0) -> None:
    """Let all that a line tells have taken longer."""
    for one in word.get("results") or []:
        if "busbw" in one:
            one.update(mean=one["mean"] * times, algbw=one["algbw"] / times, busbw=one["busbw"] / times)


def _slow_rail(word: dict[str, Any]) -> None:
    if word.get("local_rank") == 1:
        _slower(word, 2.0)


def log_lines(change: Callable[[str], str | None], *, role: str = "") -> base.Act:
    """Return the mutant that rewrites lines of NCCL logs, of all pods or of a gang of a role; None drops a line."""

    def mutant(evidence: Evidence) -> Evidence:
        listed = (evidence.given.get("roles") or {}).get(role) or []
        gangs = tuple(f"{one['name']}-" for one in listed)
        lines = []
        for line in evidence.lines:
            text = str(line.data.get("line") or "")
            chosen = not role or str(line.data.get("pod") or "").startswith(gangs)
            if line.type != "LOG" or not text.startswith("[rank") or not chosen:
                lines.append(line)
                continue
            told = change(text)
            if told is not None:
                lines.append(
                    line if told == text else dataclasses.replace(line, data={**line.data, "line": told})
                )
        return base.with_lines(evidence, lines)

    return mutant


def _breaks(word: dict[str, Any]) -> None:
    """Let a rank tell an error in the place of its end."""
    error = "DistBackendError: NCCL error: invalid usage, Failed to initialize any NET plugin"
    word.update(event="failed", error=error)


def _log(change: Callable[[str], str | None]) -> base.Act:
    """Return the mutant that rewrites lines of the logs of the run that users get."""
    return base.only("collectives", log_lines(change))


def _of_second(change: Callable[[str], str | None]) -> base.Act:
    """Return the same for the logs of the second member alone."""
    return _log(lambda text: change(text) if "-worker-1:" in text else text)


def _of_first_rank(change: Callable[[str], str | None]) -> base.Act:
    """Return the same for the log of rank 0 alone."""
    return _log(lambda text: change(text) if text.startswith("[rank0]") else text)


_LOGGED = ("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-017", "FAB-018")
"""Rows that are judged by the NCCL logs of the run that users get."""

_UNPLACED = dict.fromkeys(("FAB-006", "FAB-010", "FAB-012", "FAB-019", "FAB-020", "FAB-021"), "environment")
"""Rows that stand on a device of its own for each rank."""


MUTANTS: base.Table = {
    "fabric.another-interface": base.Mutant(
        "one member is connected over an interface that was not declared",
        base.on("reduced", lambda w: w.update(interfaces={"net1": 1}), alone=True),
        {"FAB-013": "fail"},
    ),
    "fabric.wrong-sum": base.Mutant(
        "one member's all-reduce gave a different sum",
        base.on("reduced", lambda w: w.update(got=-1.0, ok=False), alone=True),
        {"FAB-013": "fail"},
    ),
    "fabric.two-ranks-on-one-gpu": base.Mutant(
        "the ranks of one member have the same device", _first_device, {**_UNPLACED, "FAB-014": "fail"}
    ),
    "fabric.a-node-is-missing": base.Mutant(
        "all members lie on one node", _on_one_node, {**_UNPLACED, "FAB-014": "fail", "FAB-018": "fail"}
    ),
    "fabric.ranks-unheard": base.Mutant(
        "one member's ranks do not say who they are",
        base.drop("who", alone=True),
        {
            **dict.fromkeys((*_UNPLACED, "FAB-011", "FAB-014"), "inconclusive"),
            **dict.fromkeys(
                ("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-016", "FAB-017", "FAB-018"),
                "inconclusive",
            ),
        },
    ),
    "fabric.wrong-element": base.Mutant(
        "one element of an all-reduce is wrong on the ranks of one member",
        base.on("measured", lambda w: w["results"][0].update(wrong=1), alone=True),
        {"FAB-006": "fail", "FAB-019": "inconclusive"},
    ),
    "fabric.below-the-floor": base.Mutant(
        "all measurements show a third of the speed",
        base.on("measured", _slower),
        {"FAB-006": "fail", "FAB-019": "inconclusive"},
    ),
    "fabric.not-a-number": base.Mutant(
        "a rank reports NaN for its bandwidth",
        base.on("measured", lambda w: w["results"][0].update(busbw=float("nan")), alone=True),
        dict.fromkeys(_UNPLACED, "inconclusive"),
    ),
    "fabric.slow-link": base.Mutant(
        "the ranks with local rank 1 exchange data at half the speed",
        base.on("pairs", _slow_rail),
        {"FAB-012": "fail"},
    ),
    "fabric.forced-network-fails": base.Mutant(
        "the ranks of one member cannot use the forced network",
        base.only("forced-transport", base.on("done", _breaks, alone=True)),
        {"FAB-010": "fail"},
    ),
    "fabric.forced-and-ignored": base.Mutant(
        "the network is forced, but one rank still uses sockets",
        base.only(
            "forced-transport",
            log_lines(
                lambda text: text.replace("NET/IB/0/GDRDMA", "NET/Socket/0") if "[rank0]" in text else text
            ),
        ),
        {"FAB-010": "fail"},
    ),
    "fabric.force-unseen": base.Mutant(
        "the ranks' processes lack the variable that forces the network",
        base.only("forced-transport", base.on("who", lambda w: w["env"].pop("NCCL_NET"))),
        {"FAB-010": "inconclusive"},
    ),
    "fabric.stall-unbounded": base.Mutant(
        "a collective stalls for ten times its bound",
        base.on("stalled", lambda w: w.update(waited=10.0 * w["bound"])),
        {"FAB-011": "fail"},
    ),
    "fabric.stall-unnamed": base.Mutant(
        "one member's ranks do not say which rank they waited for",
        base.on("stalled", lambda w: w.update(absent=[], absent_count=0), alone=True),
        {"FAB-011": "fail"},
    ),
    "fabric.stall-unheard": base.Mutant(
        "one member's ranks end without a message about the collective",
        base.drop("stalled", alone=True),
        {"FAB-011": "fail"},
    ),
    "fabric.one-rank-on-sockets": base.Mutant(
        "one rank is connected over sockets",
        _of_first_rank(lambda text: text.replace("NET/IB/0/GDRDMA", "NET/Socket/0")),
        {"FAB-001": "fail", "FAB-002": "fail", "FAB-003": "fail"},
    ),
    "fabric.another-network": base.Mutant(
        "one rank is connected over a fast network that is not the declared one",
        _of_first_rank(lambda text: text.replace("NET/IB/", "NET/UCX/")),
        {"FAB-001": "fail"},
    ),
    "fabric.sockets-chosen": base.Mutant(
        "one member chose sockets and printed no connection",
        _of_second(
            lambda text: (
                None if " via NET/" in text else text.replace("Using network IB", "Using network Socket")
            )
        ),
        {
            "FAB-003": "fail",
            **base.all_to("inconclusive", "FAB-001 FAB-002 FAB-004 FAB-005 FAB-017 FAB-018"),
        },
    ),
    "fabric.no-gdr": base.Mutant(
        "one rank sends without GPUDirect RDMA",
        _of_first_rank(lambda text: text.replace("/GDRDMA", "") if "[send]" in text else text),
        {"FAB-002": "fail"},
    ),
    "fabric.worlds-apart": base.Mutant(
        "each member has a communicator of its own",
        _of_second(lambda text: text.replace("commId 0x4dba", "commId 0x7777")),
        {"FAB-004": "fail"},
    ),
    "fabric.another-adapter": base.Mutant(
        "one member uses an adapter that is not declared",
        _of_second(lambda text: text.replace("[2]mlx5_2:1/IB", "[2]mlx5_12:1/IB")),
        {"FAB-005": "fail"},
    ),
    "fabric.another-setting": base.Mutant(
        "an image sets another list of adapters than declared",
        _of_second(lambda text: re.sub(r"(NCCL_IB_HCA set by environment to ).*", r"\1mlx5", text)),
        {"FAB-017": "fail"},
    ),
    "fabric.shared-memory": base.Mutant(
        "ranks of one member reach each other through the host's memory",
        _of_second(lambda text: text.replace("/0 :", " :").replace("P2P/CUMEM", "SHM/direct/direct")),
        {"FAB-018": "fail"},
    ),
    "fabric.log-cut": base.Mutant(
        "the logs of one member end before the connections",
        _of_second(lambda text: None if "Channel" in text or "Destroy" in text else text),
        dict.fromkeys(_LOGGED, "inconclusive"),
    ),
    "fabric.not-switched-off": base.Mutant(
        "traffic still uses the fabric after it was switched off",
        log_lines(lambda text: text.replace("NET/Socket/0", "NET/IB/0/GDRDMA"), role="contrast"),
        {"FAB-016": "inconclusive", "FAB-019": "fail"},
    ),
    "fabric.floor-without-shape": base.Mutant(
        "a floor does not say for how many nodes it holds",
        floors(lambda floor: floor.pop("nodes", None)),
        {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    ),
    "fabric.floor-above-the-wires": base.Mutant(
        "a floor is more than its links carry: Gbit/s instead of GB/s",
        floors(lambda floor: floor.update(busbw=8.0 * floor["busbw"])),
        {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    ),
    "fabric.unseen": base.Mutant(
        "one member does not report its connections",
        base.drop("reduced", alone=True),
        {"FAB-013": "inconclusive"},
    ),
}
