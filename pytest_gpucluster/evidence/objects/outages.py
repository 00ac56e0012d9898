"""When nodes were restarting: a kubelet that begins has no devices until their plugin has registered again."""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status, owners
from pytest_gpucluster.evidence.objects.node_status import Machine

REGISTERED = 300.0
"""Seconds after the node reports again in which its device plugin must have registered: as long as a kubelet keeps the
devices of one that has left."""
BEGAN = frozenset({"Rebooted", "Starting"})
"""Reasons of a kubelet's events by which it says that it, or its machine, has begun anew."""


@dataclasses.dataclass(frozen=True)
class Outage:
    """A restart of a node: from when it was seen to be away, to when it offered its devices again; None: not seen."""

    node: str
    start: float
    end: float | None
    why: str


def restart_of(evidence: Evidence, dip: Machine, resource: str, wanted: int) -> Outage | None:
    """Return the restart that explains that a node offered no devices at a time, None where there was none.

    A restart takes all devices at once, and gives them back soon. Some that are missing are no restart.

    Args:
        evidence: what was seen.
        dip: the node as it was then.
        resource: the devices' name.
        wanted: how many it offers otherwise.
    """
    states = node_status.states(evidence, dip.name)
    at = next(n for n, state in enumerate(states) if state.line is dip.line)
    if dip.offers(resource)[1]:
        return None
    before = [
        n for n in range(at) if states[n].offers(resource)[1] >= wanted and states[n].ready is not False
    ]
    since = before[-1] if before else 0
    away = next((state for state in states[since : at + 1] if state.ready is False), None)
    began = _began(evidence, dip, states[since].line.t)
    boot = _boot(states[since]) != _boot(dip)
    if away is None and began is None and not boot:
        return None
    start = away.line.t if away is not None else began if began is not None else dip.line.t
    why = "NotReady" if away is not None else "another boot id" if boot else "its kubelet began anew"
    back = next((state.line.t for state in states[at:] if state.offers(resource)[1] >= wanted), None)
    reports = next((state.line.t for state in states[since:] if state.line.t >= start and state.ready), None)
    if back is not None and reports is not None and back - reports > REGISTERED:
        return None
    return Outage(dip.name, start, back, why)


def _boot(machine: Machine) -> str:
    return str(machine.info.get("bootID") or "")


def _began(evidence: Evidence, dip: Machine, since: float) -> float | None:
    """Return when a kubelet said, between a time and the dip, that it began anew."""
    for said in owners.all_said(evidence):
        own = said.obj.partition("/")[2] == dip.name and said.obj.startswith("Node/")
        if own and said.reason in BEGAN and since <= said.t <= dip.line.t + 1.0:
            return said.t
    return None
