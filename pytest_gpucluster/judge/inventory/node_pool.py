"""INV-008: the nodes of one pool are alike; the odd one is found by comparing it with its siblings."""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status, outages
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "the nodes of a pool agree in their devices (kind and number), in kernel, driver and runtime, and in the "
    "labels that describe them"
)

NOTHING = "nothing"
"""What a node that lacks a label or resource has of it."""

SYSTEM = {
    "architecture": "architecture",
    "osImage": "operating system",
    "kernelVersion": "kernel",
    "containerRuntimeVersion": "container runtime",
    "kubeletVersion": "kubelet",
}
"""Field of a node's nodeInfo -> what it is."""

_FIELDS = {text: field for field, text in SYSTEM.items()}

_DESCRIBES = re.compile(
    r"^(?:nvidia\.com/|amd\.com/|beta\.amd\.com/gpu|gpu\.intel\.com/|habana\.ai/|network\.nvidia\.com/|rdma"
    r"|feature\.node\.kubernetes\.io/(?:pci-|rdma|network-|cpu-model|kernel-version|memory-numa|custom-|amd-gpu|usb-)"
    r"|cloud\.google\.com/gke-(?:accelerator|gpu)|k8s\.amazonaws\.com/accelerator"
    r"|node\.kubernetes\.io/instance-type$)"
)
"""Labels that describe the machine: devices, drivers, adapters."""
_OWN = re.compile(
    r"timestamp|\.clique$|/uuid|gpu\.deploy\.|upgrade-state|\.state$|mps\.|node-feature|/serial|hostname|revision$"
)
"""Of these, the ones in which healthy siblings differ: times, places in a fabric, states of an operator."""

DIFFERENT = Cause(
    "the node was built, updated or repaired apart from its siblings",
    "bring it to the pool's state (image, driver, firmware), or take it out of the pool; a gang runs at the pace of "
    "its slowest member",
)
TWO_POOLS = Cause(
    "these are two kinds of machines, but no label separates them",
    "set `pool_label` in the profile to the label that separates the pools",
)


@dataclasses.dataclass(frozen=True)
class Odd:
    """A property in which the nodes of a pool differ.

    Attributes:
        pool: the pool.
        what: the property.
        usual: what most nodes have, None where no value has most.
        others: value -> the nodes that have it; all values where there is no usual one.
        when: for how long, "" where it is so at the end.
    """

    pool: str
    what: str
    usual: str | None
    others: Mapping[str, tuple[Machine, ...]]
    when: str = ""

    @property
    def told(self) -> str:
        """Return the difference in a few words."""
        parts = [
            f"{wording.listed([m.name for m in found], 4)} {'has' if len(found) == 1 else 'have'} {value}"
            for value, found in self.others.items()
        ]
        rest = f", the others {self.usual}" if self.usual is not None else ""
        return f"{self.what}: {'; '.join(parts)}{rest}{self.when}"


@subjects.judge
def nodes_alike(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-008."""
    label, grouped = _pools(evidence, given)
    silent = [m for pool in grouped.values() for m in pool if not m.reported]
    compared = {name: [m for m in pool if m.reported] for name, pool in grouped.items()}
    pairs = {name: pool for name, pool in compared.items() if len(pool) > 1}
    odd = [one for name, pool in sorted(pairs.items()) for one in _differences(name, pool)]
    count = sum(map(len, pairs.values()))
    if odd:
        return _unlike(odd, label, count)
    dips = [one for name, pool in sorted(pairs.items()) for one in _for_a_time(evidence, name, pool)]
    if dips:
        return _unlike(dips, label, count)
    if silent or not pairs:
        why = (
            f"{wording.listed([m.name for m in silent])} never reported their devices"
            if silent
            else "nothing to compare"
        )
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, why)
    unclear = _nothing_to_go_by(compared, given)
    if unclear:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, unclear)
    alone = [m.name for pool in compared.values() if len(pool) == 1 for m in pool]
    text = (
        f"{count} GPU nodes in {len(pairs)} {'pool' if len(pairs) == 1 else 'pools'} ({_by(label)}) are alike"
    )
    if alone:
        text += f"; {wording.listed(alone)} alone in a pool, so not compared"
    facts = {"pools": {name: len(pool) for name, pool in compared.items()}, "label": label}
    first = [pool[0].line.key for pool in pairs.values()]
    return wording.finding(Verdict.PASS, REQUIRED, text, evidence=tuple(first[: wording.MANY]), facts=facts)


def _nothing_to_go_by(compared: Mapping[str, Sequence[Machine]], given: subjects.Given) -> str:
    """Return why likeness says nothing: amounts that are no numbers of devices, or no node in service; "" otherwise."""
    declared = str(given.get("gpu_resource") or "nvidia.com/gpu")
    found = [machine for pool in compared.values() for machine in pool]
    odd = [f"{m.name}: {name} {said!r}" for m in found for name, said in m.untold(declared).items()]
    if odd:
        return f"alike in what is no number of devices: {wording.listed(odd, 4)}"
    return node_status.none_in_service(found)


def siblings(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether some pool has two nodes: one node has nothing to be compared with."""
    name = "two nodes of a pool"
    label, grouped = _pools(evidence, given)
    sizes = {pool: len(found) for pool, found in grouped.items()}
    if not grouped:
        return wording.presupposed(name, held=False, observed="no GPU node was seen")
    if max(sizes.values()) < 2:
        return wording.presupposed(
            name, held=False, observed=f"every pool ({_by(label)}) has one GPU node: nothing to compare"
        )
    return wording.presupposed(
        name, held=True, observed=f"pools of {wording.listed(sorted(map(str, sizes.values())))}"
    )


def _pools(evidence: Evidence, given: subjects.Given) -> tuple[str, dict[str, list[Machine]]]:
    declared = str(given.get("gpu_resource") or "nvidia.com/gpu")
    return node_status.pools(node_status.gpu_nodes(evidence, declared), str(given.get("pool_label") or ""))


def _by(label: str) -> str:
    return f"by label {label}" if label else "no label separates pools: all GPU nodes count as one"


def _differences(pool: str, found: Sequence[Machine]) -> Iterator[Odd]:
    """Yield what the nodes of one pool differ in."""
    for what in _properties(found):
        values: dict[str, list[Machine]] = {}
        for machine in found:
            values.setdefault(_value(machine, what), []).append(machine)
        if len(values) < 2:
            continue
        counts = Counter({value: len(nodes) for value, nodes in values.items()})
        (usual, most), *_ = counts.most_common(1)
        majority = most * 2 > len(found)
        yield Odd(
            pool,
            what,
            usual if majority else None,
            {value: tuple(nodes) for value, nodes in values.items() if not (majority and value == usual)},
        )


def _for_a_time(evidence: Evidence, pool: str, found: Sequence[Machine]) -> Iterator[Odd]:
    """Yield the devices of which a node offered another number for a time than its siblings did then.

    Nodes are alike when the evidence ends. A restart takes all devices for a while and makes nobody unlike; labels and
    versions follow an update of the whole pool, node by node.
    """
    at_the_end = found[0]
    lives = {machine.name: _states(evidence, machine) for machine in found}
    keys = {key for life in lives.values() for s in life for key in (*s.capacity, *s.allocatable)}
    for name in sorted(keys):
        what, (capacity, usual) = f"number of {name}", at_the_end.offers(name)
        for life in lives.values():
            for n, state in enumerate(life):
                if state.offers(name) == (capacity, usual):
                    continue
                until = life[n + 1].line.t if n + 1 < len(life) else evidence.end
                restarted = outages.restart_of(evidence, state, name, usual) is not None
                if not restarted and _sibling_differed(lives, state, until, what):
                    when = f" (at t={state.line.t:.1f} s)"
                    yield Odd(pool, what, _value(at_the_end, what), {_value(state, what): (state,)}, when)
                    break


def _states(evidence: Evidence, machine: Machine) -> list[Machine]:
    return [state for state in node_status.states(evidence, machine.name) if state.reported]


def _sibling_differed(
    lives: Mapping[str, Sequence[Machine]], state: Machine, until: float, what: str
) -> bool:
    """Report whether a sibling had another number while a node was in a state."""
    for name, life in lives.items():
        during = [s for s in life if s.line.t < until] if name != state.name else []
        first = max((n for n, s in enumerate(during) if s.line.t <= state.line.t), default=0)
        if any(_value(s, what) != _value(state, what) for s in during[first:]):
            return True
    return False


def _properties(found: Sequence[Machine]) -> list[str]:
    """Return the names of all properties that some node has: `capacity NAME`, `label NAME` or a part of the system."""
    names: dict[str, None] = {"CPUs": None}
    resources = sorted({key for m in found for key in (*m.capacity, *m.allocatable)})
    names.update({f"number of {resource}": None for resource in resources})
    names.update(dict.fromkeys(SYSTEM.values()))
    labels = {key for m in found for key in m.labels}
    names.update({f"label {key}": None for key in sorted(labels) if describes(key)})
    return list(names)


def describes(label: str) -> bool:
    """Report whether a label describes the machine, so that siblings must agree in it."""
    return bool(_DESCRIBES.match(label)) and not _OWN.search(label)


def _value(machine: Machine, what: str) -> str:
    kind, _, name = what.partition(" ")
    if kind == "label":
        return str(machine.labels.get(name, NOTHING))
    if kind == "number":
        resource = name.removeprefix("of ")
        if resource in machine.unreadable:
            return repr(machine.unreadable[resource])
        capacity, allocatable = machine.offers(resource)
        return str(capacity) if capacity == allocatable else f"{allocatable} of {capacity}"
    if what == "CPUs":
        amount = fields.sub(machine.line.object, "status", "capacity").get("cpu")
        return NOTHING if amount is None else _amount(str(amount))
    return str(machine.info.get(_FIELDS[what]) or NOTHING)


@functools.cache
def _amount(text: str) -> str:
    return str(fields.quantity(text))


def _unlike(odd: list[Odd], label: str, count: int) -> Finding:
    clear = [one for one in odd if one.usual is not None]
    named = {m.name: m for one in odd for nodes in one.others.values() for m in nodes}
    texts = [one.told for one in odd]
    # Two against two, and nothing but our guess that they are one pool: there may be two, each of them alike.
    guessed = not label and not clear
    worst = Counter(m.name for one in clear for nodes in one.others.values() for m in nodes).most_common()
    where = [f"Node/{name}: differs in {times}" for name, times in worst] or [
        f"Node/{name}" for name in named
    ]
    causes = (DIFFERENT,) if label else (DIFFERENT, TWO_POOLS)
    return wording.finding(
        Verdict.INCONCLUSIVE if guessed else Verdict.FAIL,
        REQUIRED,
        f"{'split evenly, so neither group is the exception: ' if guessed else ''}{wording.listed(texts, 6)} "
        f"({_by(label)})",
        violation=not guessed,
        where=wording.shown(where),
        causes=tuple(reversed(causes)) if guessed else causes,
        evidence=tuple(m.line.key for m in list(named.values())[: wording.MANY]),
        numbers=(Number("nodes that differ", len(named), "nodes", 0, f"siblings compared: {count}"),),
        repeat=tuple(f"kubectl get node {name} -o yaml" for name in list(named)[:2]),
        facts={"differences": texts[:50]},
    )
