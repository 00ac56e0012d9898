"""What nodes offered over time: devices that came and went, restarts, and nodes that left."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status, outages
from pytest_gpucluster.evidence.objects.node_status import Absence, Machine
from pytest_gpucluster.evidence.objects.outages import Outage
from pytest_gpucluster.requirement import Cause

_Answer = TypeVar("_Answer")

FLAPS = Cause(
    "devices come and go: their health changes, or the device plugin starts again and again",
    "look at the restarts and the log of the device plugin's pod on the node, and for Xid errors in its kernel log",
)


def wrong(evidence: Evidence, name: str, declared: str, wanted: int) -> list[Machine]:
    """Return a node as it was each time that it offered another number than it must."""
    return [
        m
        for m in node_status.states(evidence, name)
        if m.reported and not m.untold(declared) and m.offers(declared) != (wanted, wanted)
    ]


def dips(evidence: Evidence, declared: str, wanted: int) -> list[Machine]:
    """Return the GPU nodes that offered another number for a time, as they were then, without those that restarted.

    A node that has left since is among them: that it is gone does not undo what it offered.
    """
    left = [one.last.name for one in _absences(evidence, declared)]
    found = [m.name for m in node_status.gpu_nodes(evidence, declared)]
    return [
        dip for name in sorted({*found, *left}) if (dip := _dip(evidence, name, declared, wanted)) is not None
    ]


def _dip(evidence: Evidence, name: str, declared: str, wanted: int) -> Machine | None:
    odd = [
        m
        for m in wrong(evidence, name, declared, wanted)
        if outages.restart_of(evidence, m, declared, wanted) is None
    ]
    return min(odd, key=lambda m: m.offers(declared)[1], default=None)


def at_any_time(
    evidence: Evidence, found: Sequence[Machine], ask: Callable[[Machine], _Answer | None]
) -> list[tuple[Machine, _Answer]]:
    """Return the nodes of which a question has an answer, at the end or at any time before, as they were then last."""
    told: list[tuple[Machine, _Answer]] = []
    for machine in found:
        for state in reversed(node_status.states(evidence, machine.name)):
            answer = ask(state) if state.reported else None
            if answer:
                told.append((state, answer))
                break
    return told


def restarting(evidence: Evidence, machine: Machine, declared: str, wanted: int) -> Outage | None:
    """Return the restart in the middle of which the evidence of a node ends."""
    out = outages.restart_of(evidence, machine, declared, wanted)
    return out if out is not None and evidence.end - out.start <= outages.REGISTERED else None


def restarts(evidence: Evidence, found: Sequence[Machine], declared: str, wanted: int) -> list[str]:
    """Return what is to be known of the nodes that restarted, one text for each."""
    return [
        away(out)
        for m in found
        for dip in wrong(evidence, m.name, declared, wanted)[:1]
        if (out := outages.restart_of(evidence, dip, declared, wanted)) is not None
    ]


def away(out: Outage) -> str:
    """Return how long a node that restarted offered nothing."""
    until = "none yet" if out.end is None else f"none until t={out.end:.0f} s"
    return f"{out.node} restarted ({out.why} at t={out.start:.0f} s) and offered {until}"


def _absences(evidence: Evidence, declared: str) -> list[Absence]:
    return [
        one
        for one in node_status.absences(evidence)
        if any(m.has_gpus(declared) for m in (one.last, *node_status.states(evidence, one.last.name)))
    ]


def unexplained(evidence: Evidence, declared: str) -> list[Absence]:
    """Return the GPU nodes that left while they were watched, and nobody had announced it."""
    return [one for one in _absences(evidence, declared) if not (one.decided or one.restarted)]


def explained(evidence: Evidence, declared: str) -> list[str]:
    """Return what is to be known of the GPU nodes that left by decision or restarted, one text for each."""
    return [gone(one) for one in _absences(evidence, declared) if one.decided or one.restarted]


def gone(one: Absence) -> str:
    """Return when a node left the cluster, and when it came back."""
    back = "" if one.back is None else f" and came back at t={one.back.line.t:.0f} s"
    return f"{one.last.name} left the cluster at t={one.start:.0f} s{back}"
