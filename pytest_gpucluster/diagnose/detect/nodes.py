"""Nodes that have what a gang waits for and do not give it: closed ones, and those whose devices are ill."""

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose import machines, reckoning
from pytest_gpucluster.diagnose.detect.limits import amount
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note
from pytest_gpucluster.diagnose.machines import Machine
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import quarantines
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.objects.pods import pods as every_pod
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause


def waits(s: Situation) -> bool:
    """Report whether a gang waits for places, for longer than a scheduler may take."""
    if (s.gang is None and len(s.loose) != 1) or s.ended or s.whole or s.minimum <= 0:
        return False
    if s.unbound:
        return s.now - min(p.created for p in s.unbound) > s.patience
    if s.pods or s.reading is None or s.group is None:
        return False
    phases = s.group.phases
    held = bool(phases) and phases[-1][1] == "Pending" and s.now - phases[-1][0] > s.silent
    return bool(s.reading.enqueue) or held


def shut(s: Situation) -> tuple[str, tuple[Machine, ...], bool] | None:
    """Return (resource, closed nodes, whether they would make the gang fit) where closed nodes have what it waits for.

    None where it would fit as it is, or where no closed node has anything to give.
    """
    if "shut" not in s.reckoned:
        s.reckoned["shut"] = _shut(s)
    found: tuple[str, tuple[Machine, ...], bool] | None = s.reckoned["shut"]
    return found


def _shut(s: Situation) -> tuple[str, tuple[Machine, ...], bool] | None:
    if not waits(s):
        return None
    needed = machines.lacking(s)
    for resource in machines.scarce(s):
        nodes = [n for n in machines.machines(s, resource) if n.fits_selector]
        out = tuple(n for n in nodes if n.shut and n.free)
        open_ = [n for n in nodes if not n.shut]
        if out and not (needed and machines.fits(open_, needed, resource)):
            return resource, out, bool(needed) and machines.fits(nodes, needed, resource)
    found = reckoning.reckon(s)
    if found is None or found.fits or found.opened <= found.now:
        return None
    # Members without devices: a closed node has the cpu that they, or one of their roles, need.
    out = tuple(n for n in machines.machines(s, "cpu") if n.fits_selector and n.shut and n.free)
    return ("cpu", out, found.opened >= len(found.members)) if out else None


def closed_nodes(s: Situation) -> Iterator[Suspect]:
    """Nodes that have what the gang waits for are cordoned, not Ready or tainted."""
    found = shut(s)
    if found is None:
        return
    resource, out, enough = found
    alike: dict[str, list[Machine]] = {}
    for node in out:
        alike.setdefault(_why(node), []).append(node)
    parts = [f"{_amounts(same, resource)} {_many(why, same)}" for why, same in alike.items()]
    cause = Cause(
        wording.listed(parts, 4),
        "; ".join(dict.fromkeys(_opening(same[0], resource) for same in alike.values())),
    )
    needs = sum((fields.demands(one).get(resource, Fraction(0)) for one in machines.lacking(s)), Fraction(0))
    open_ = [n for n in machines.machines(s, resource) if not n.shut]
    seen = (
        f"{s.who} lacks {amount(needs)} {resource}; suitable nodes have " if needs else "suitable nodes have "
    )
    seen += f"{amount(sum((n.free for n in open_), Fraction(0)))} free"
    if resource == "cpu" and (found_ := reckoning.reckon(s)) is not None:
        members = wording.count(len(found_.members), "member")
        seen = f"{found_.now} of {members} without a place would find one on open nodes"
    seen += "" if enough else "; these nodes alone would not suffice"
    stage = Stage.PLACE if s.unbound else Stage.ENQUEUE
    code = "no-node-taint" if all("the taint" in n.shut for n in out) else "node-closed"
    yield fault(
        code, stage, cause, seen, SURE if enough else LIKELY, where=tuple(f"Node/{n.name}" for n in out[:8]),
        evidence=tuple(n.line.key for n in out[:4]), rows=("INV-002",) if any(n.ill for n in out) else (),
        look=tuple(f"kubectl describe node {n.name}" for n in out[:2]),
    )  # fmt: skip


def _amounts(nodes: list[Machine], resource: str) -> str:
    return wording.listed(
        [f"{n.name} with {amount(n.free)} free of {amount(n.allocatable)} {resource}" for n in nodes], 4
    )


def _many(why: str, nodes: list[Machine]) -> str:
    if len(nodes) == 1:
        return why
    return (
        why.replace("is cordoned", "are cordoned")
        .replace("is not Ready", "are not Ready")
        .replace("carries", "carry")
    )


def _why(node: Machine) -> str:
    return f"{node.shut}; it reports {wording.listed(list(node.ill), 3)}" if node.ill else node.shut


def _opening(node: Machine, resource: str) -> str:
    """Return how a closed node is opened, if it is well."""
    if node.ill:
        text = f"look {machines.check(resource, node.name)}; reset or replace the unhealthy device"
        return f"{text}, then kubectl uncordon {node.name}" if node.cordoned else text
    if node.cordoned:
        return f"find out why {node.name} was cordoned; once it is healthy: kubectl uncordon {node.name}"
    if "not Ready" in node.shut:
        return f"check the kubelet and the network of {node.name}"
    if quarantines.UNWELL.search(node.shut):
        return (
            f"find out why {node.name} was given the taint (look {machines.check(resource, node.name)}); once it is "
            "healthy, remove the taint (kubectl taint nodes)"
        )
    return f"add the toleration to every task template, or remove the taint from {node.name} (kubectl taint nodes)"


def ill_devices(s: Situation) -> Iterator[Suspect]:
    """Devices that members hold, or that the gang waits for, are ill."""
    mine = machines.unhealthy(s.pods)
    if mine and not s.ended:
        yield _held_ill(s, mine)
    if not waits(s):
        return
    needed = machines.lacking(s)
    for resource in machines.scarce(s):
        nodes = [n for n in machines.machines(s, resource) if n.fits_selector and not n.shut]
        lost = [n for n in nodes if n.allocatable < n.capacity]
        if not lost or (needed and machines.fits(nodes, needed, resource)):
            continue
        yield _waited_for(s, resource, nodes, lost, needed)
        return


def _held_ill(s: Situation, mine: Sequence[tuple[PodStory, str, str, str]]) -> Suspect:
    parts = [f"{pod.name} on {pod.node} holds {device}, {health}" for pod, _, device, health in mine]
    pod, resource, _, _ = mine[0]
    cause = Cause(
        f"a device of a member is unhealthy: {wording.listed(parts, 4)} (allocatedResourcesStatus)",
        f"look {machines.check(resource, pod.node)}; cordon the node and restart the gang elsewhere",
    )
    sure = SURE if all(health == "Unhealthy" for *_, health in mine) else LIKELY
    return fault(
        "device-ill", Stage.NODE, cause, f"its kubelet reports this for {wording.count(len(mine), 'device')}", sure,
        where=wording.places([p for p, *_ in mine]), rows=("HLT-004",),
        look=(f"kubectl get pod{s.space} {pod.name} -o yaml",),
    )  # fmt: skip


def _waited_for(
    s: Situation, resource: str, nodes: list[Machine], lost: list[Machine], needed: list[fields.Object]
) -> Suspect:
    names = {n.name for n in lost}
    others = machines.unhealthy(p for p in every_pod(s.evidence) if p.node in names)
    told = [
        f"{device} is {health} and held by {pod.name}" for pod, r, device, health in others if r == resource
    ]
    parts = [
        f"{n.name} offers {amount(n.allocatable)} of {amount(n.capacity)} {resource}"
        + (f" and reports {wording.listed(list(n.ill), 2)}" if n.ill else "")
        for n in lost
    ]
    whole = [_whole(n) for n in nodes]
    enough = bool(needed) and machines.fits(whole, needed, resource)
    cause = Cause(
        f"devices are unhealthy: {wording.listed(parts, 4)}"
        + (f"; {wording.listed(told, 4)}" if told else ""),
        f"look {machines.check(resource, lost[0].name)}; reset or replace the device, or the node",
    )
    seen = f"{s.who} waits for {resource}"
    seen += (
        "; with these devices it would fit" if enough else "; with these devices alone it would still not fit"
    )
    more = {
        "where": tuple(f"Node/{n.name}" for n in lost[:8]), "rows": ("INV-002",),
        "evidence": tuple(n.line.key for n in lost[:4]), "look": (f"kubectl describe node {lost[0].name}",),
    }  # fmt: skip
    stage = Stage.PLACE if s.unbound else Stage.ENQUEUE
    if enough:
        return fault("device-ill", stage, cause, seen, SURE, **more)
    return note("device-ill", stage, cause, seen, **more)


def _whole(node: Machine) -> Machine:
    return dataclasses.replace(node, allocatable=node.capacity)
