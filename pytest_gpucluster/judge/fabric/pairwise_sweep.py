"""FAB-012: a sweep over all pairs names slow links and slow nodes.

Links are compared with each other; where there is one only, with the wire that the profile declares. A node is slow
when its links to most of the others are.
"""

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Mapping

from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import bus_bandwidth, plausibility, shared
from pytest_gpucluster.measure import collective
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = "all pairs exchange data at about the same speed; a slower link or node is named"

SHARE = 0.7
NODE = Cause(
    "the node's adapter, its port, its PCIe slot or its cable is degraded, or its GPUs are",
    "on the node: ibstat (rate, state), lspci -vv (LnkSta), nvidia-smi topo -m, mlxlink; swap cable and port in turn",
)
LINK = Cause(
    "one path through the fabric is slow: a switch port, a congested or down link of a rail, adaptive routing off",
    "follow the path of the pair (ibtracert, the switch's counters), and check whether other pairs on its "
    "rail are slow",
)
RAIL = Cause(
    "one rail is slow on all nodes: its switch, or the adapter in the same slot of each node",
    "look at the rail's switch, and at the same adapter on each node",
)


@dataclasses.dataclass(frozen=True)
class Link:
    """One pair of ranks that exchanged data.

    Attributes:
        a: one rank.
        b: the other.
        rate: GB/s of the slower direction.
    """

    a: Rank
    b: Rank
    rate: float

    @property
    def nodes(self) -> tuple[str, str]:
        """Return both nodes, in order."""
        first, second = sorted((self.a.node, self.b.node))
        return first, second

    @property
    def text(self) -> str:
        """Return the pair in a few words."""
        return f"{self.a.where} - {self.b.where} {self.rate:.4g} GB/s"


@subjects.judge
def names_slow(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-012."""
    heard = shared.heard_on_gpus(evidence, given, REQUIRED)
    if isinstance(heard, Finding):
        return heard
    gang, told, found = heard
    unfinished = bus_bandwidth.incomplete(evidence, given, told, gang, REQUIRED)
    if unfinished is not None:
        return unfinished
    odd = plausibility.unchecked(told, pairs=True) or plausibility.impossible(told, pairs=True)
    if odd:
        return found.inconclusive(odd, plausibility.UNCHECKED, plausibility.CONTRADICTS)
    links, unpaired = _links(told)
    if unpaired:
        return found.inconclusive(f"not all pairs were measured: {wording.listed(unpaired, 4)}")
    if not links:
        return found.inconclusive("no pair exchanged data: there is only one rank, or the sweep was skipped")
    own = shared.fabric(given)
    share = subjects.seconds(own, "slow_share") or SHARE
    rates = [link.rate for link in links]
    middle, origin = statistics.median_high(rates), f"{share:g} of the median of {len(links)} links"
    wire = _wire(given, told, links)
    if len(links) == 1:
        if wire is None:
            text = f"only one link was measured, {links[0].text}, and no declared rate to compare it with"
            return found.inconclusive(text, numbers=(Number("link", links[0].rate, "GB/s"),))
        middle, origin = wire, f"{share:g} of the declared rate of its adapter"
    least = middle * share
    numbers = (
        Number("slowest link", min(rates), "GB/s", round(least, 4), origin, floor=True),
        Number("median link", round(statistics.median_high(rates), 4), "GB/s"),
    )
    slow = [link for link in links if link.rate < least]
    if not slow:
        odd = plausibility.unlike(told, pairs=True) or _too_fast(given, told, links)
        if odd:
            return found.inconclusive(odd, plausibility.CONTRADICTS, numbers=numbers)
        between = f"{wording.count(len(links), 'link')} between {wording.count(len(_nodes(links)), 'node')}"
        text = f"{between}, none below {least:.4g} GB/s"
        return found.passed(text, numbers=numbers)
    nodes = _slow_nodes(links, slow)
    rails = _slow_rails(links, slow)
    causes = (NODE, LINK) if nodes else (RAIL, LINK) if rails else (LINK, NODE)
    who = (
        f"slow node {wording.listed(nodes)}; "
        if nodes
        else f"slow rail {wording.listed(rails)}; "
        if rails
        else ""
    )
    listed = wording.listed([link.text for link in sorted(slow, key=lambda one: one.rate)], 4)
    where = tuple(
        dict.fromkeys(
            [f"Node/{name}" for name in nodes] + [w for ln in slow for w in (ln.a.where, ln.b.where)]
        )
    )
    return found.fail(f"{who}{len(slow)} of {len(links)} links below {least:.4g} GB/s: {listed}", numbers=numbers,
        causes=causes, where=where[: wording.MANY],
    )  # fmt: skip


def _links(told: Told) -> tuple[list[Link], list[str]]:
    """Return the links, and the pairs of which one side or both told nothing."""
    by_rank = {rank.rank: rank for rank in told.ranks}
    said: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for rank in told.ranks:
        for one in rank.pairs:
            if one.peer is not None and one.busbw is not None and not one.skipped:
                pair = (min(rank.rank, one.peer), max(rank.rank, one.peer))
                said[pair][rank.rank] = min(one.busbw, said[pair].get(rank.rank, one.busbw))
    expected = {(min(r, p), max(r, p)) for r in by_rank for p in _peers(by_rank[r], told)}
    lacking = sorted(pair for pair in expected | set(said) if len(said.get(pair, {})) < 2)
    links = [
        Link(by_rank[a], by_rank[b], min(rates.values()))
        for (a, b), rates in sorted(said.items())
        if len(rates) == 2
    ]
    swept = any(rank.pairs for rank in told.ranks)
    return links, [f"rank {a} and {b}" for a, b in lacking] if swept else []


def _peers(rank: Rank, told: Told) -> list[int]:
    """Return the ranks that a rank exchanges data with: those of its place in other members, or of its only member."""
    world, each = rank.world or len(told.ranks), rank.word.number("local_world") or 1
    if world <= each:
        return [n for n in range(world) if n != rank.rank]
    return [n for n in range(rank.rank % each, world, each) if n != rank.rank]


def _nodes(links: list[Link]) -> set[str]:
    return {node for link in links for node in link.nodes}


def _wire(given: subjects.Given, told: Told, links: list[Link]) -> float | None:
    """Return what the adapters of one rank carry, where traffic crosses nodes and the profile says it."""
    shape = shared.shape(given, told)
    if shape is None or not all(link.nodes[0] != link.nodes[1] for link in links):
        return None
    return None if not shape.by_nics or shape.wires is None else shape.wires / shape.gpus


def _too_fast(given: subjects.Given, told: Told, links: list[Link]) -> str:
    """Return a link that is faster than all adapters of a node together, or than any link; "" for none."""
    shape = shared.shape(given, told)
    wires = shape.wires if shape is not None and shape.by_nics else None
    for link in links:
        most = wires if wires is not None and link.nodes[0] != link.nodes[1] else collective.BEYOND
        if link.rate > most * 1.02:
            return f"{link.text}, the wires carry {most:.4g}"
    return ""


def _slow_nodes(links: list[Link], slow: list[Link]) -> list[str]:
    """Return the nodes that reach most others slowly; of two nodes neither can be told from the other."""
    total: dict[str, set[str]] = defaultdict(set)
    bad: dict[str, set[str]] = defaultdict(set)
    for found, into in ((links, total), (slow, bad)):
        for link in found:
            one, other = link.nodes
            if one != other:
                into[one].add(other)
                into[other].add(one)
    return sorted(n for n, others in total.items() if len(others) > 1 and len(bad[n]) * 2 > len(others))


def _slow_rails(links: list[Link], slow: list[Link]) -> list[str]:
    """Return the places in a member (rails) whose links are all slow, where those of others are not."""

    def places(found: list[Link]) -> Mapping[int, int]:
        counts: dict[int, int] = defaultdict(int)
        for link in found:
            if link.nodes[0] != link.nodes[1]:
                counts[link.a.word.number("local_rank") or 0] += 1
        return counts

    every, bad = places(links), places(slow)
    rails = [place for place, n in bad.items() if n == every[place]]
    return [str(place) for place in sorted(rails)] if 0 < len(rails) < len(every) else []
