"""Larger than the cluster: what would not fit even if nothing else ran, whatever the scheduler waits for now."""

from collections.abc import Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose import machines, reckoning
from pytest_gpucluster.diagnose.detect import nodes
from pytest_gpucluster.diagnose.detect.limits import Refused, amount
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, refusal
from pytest_gpucluster.diagnose.model import Suspect
from pytest_gpucluster.diagnose.reckoning import Reckoning
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause


def larger_than_the_cluster(s: Situation, short: Sequence[str], said: Refused) -> Suspect | None:
    """Return that the job asks for more than all nodes that take its pods have, in sum or by the way it is divided."""
    where = (s.title, *((f"Queue/{s.queue_name}",) if s.queue_name else ()))
    for resource in dict.fromkeys((*short, *s.wanted)):
        told = _sum(s, resource)
        if told is not None:
            return _never(s, told, said, where)
    found = reckoning.reckon(s)
    if found is None or not found.never or not found.usable:
        return None
    if found.short:
        resource, asked, has = found.short[0]
        told = f"it asks for {amount(asked)} {resource}, but {_which(s, found, resource)} together have {amount(has)}"
        return _never(s, told, said, where)
    each = wording.listed([f"{amount(n)} {r}" for r, n in _largest(found) if "/" in r or r in short], 3)
    apart = (
        " (its anti-affinity lets a node take only one)" if any(map(reckoning.alone, found.members)) else ""
    )
    told = (
        f"with nothing else running, {wording.count(_offering(s, found), 'usable node')} would take "
        f"{found.empty} of its {len(found.members)} members{apart}"
        + (f"; the largest asks for {each}" if each else "")
    )
    alike = len({str(sorted(fields.demands(one).items())) for one in found.members}) == 1
    return _never(s, told, said, where, sure=alike)


def _offering(s: Situation, found: Reckoning) -> int:
    """Return how many usable nodes have some of each device that the job asks for; all, if these are none."""
    devices = [resource for resource in s.wanted if "/" in resource]
    having = [
        node for node in found.usable if all((reckoning.has(node, device) or 0) > 0 for device in devices)
    ]
    return len(having) or len(found.usable)


def _sum(s: Situation, resource: str) -> str | None:
    """Return that the sum of what is asked for is above what all open nodes have."""
    if resource not in s.advertised:
        return None
    every = machines.machines(s, resource)
    open_ = every if nodes.shut(s) else [node for node in every if not node.shut]
    asked = s.wanted.get(resource, Fraction(0))
    total = sum((node.allocatable for node in open_), Fraction(0))
    healed = sum((max(node.allocatable, node.capacity) for node in open_), Fraction(0))
    if asked <= (healed if "/" in resource else total):
        return None
    which = "all nodes, closed ones included," if nodes.shut(s) else "all usable nodes"
    return f"it asks for {amount(asked)} {resource}, but {which} together have {amount(total)}"


def _which(s: Situation, found: Reckoning, resource: str) -> str:
    """Return which nodes are meant, where not all that have a resource take the pods."""
    having = [n for n in machines.machines(s, resource) if n.allocatable]
    names = [line.name for line in found.usable if (reckoning.has(line, resource) or 0) > 0]
    if len(names) >= len(having):
        return "all usable nodes"
    return (
        f"the nodes that take its pods ({wording.listed(names, 3) or 'none'}; {len(names)} of {len(having)})"
    )


def _largest(found: Reckoning) -> list[tuple[str, Fraction]]:
    asked = fields.demands(found.members[0])
    return sorted(asked.items(), key=lambda one: "/" not in one[0])


def _never(s: Situation, told: str, said: Refused, where: tuple[str, ...], *, sure: bool = True) -> Suspect:
    never = "can never be whole" if s.held else "will never start"
    cause = Cause(f"{s.who} {never}: {told}", f"{s.fewer}, or add nodes; the scheduler is right to hold it")
    return refusal(
        "over-cluster", said.stage, cause, said.text, SURE if sure else LIKELY, where=where, evidence=said.keys,
        rows=("REF-001",), forever=True,
    )  # fmt: skip
