"""What follows from the facts: does the traffic between nodes go over RDMA with GPUDirect RDMA, on all ranks.

Only connection lines prove a transport. A line that says which network would be used proves nothing good; one that
names TCP is a violation all the same, since that rank has no other network. Silence is inconclusive.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.measure.nccl import advice, failing, gaps, networks
from pytest_gpucluster.measure.nccl.advice import Advice
from pytest_gpucluster.measure.nccl.facts import Facts
from pytest_gpucluster.measure.nccl.reasons import Reason, few, listed, wrong
from pytest_gpucluster.measure.nccl.reasons import networks as named
from pytest_gpucluster.plain import plurals

PASS = "pass"  # noqa: S105 - a verdict, no secret
FAIL = "fail"
INCONCLUSIVE = "inconclusive"


@dataclasses.dataclass(frozen=True)
class Decision:
    """Verdict with what led to it."""

    verdict: str
    reasons: tuple[Reason, ...]

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Return causes and fixes without repetition."""
        return tuple(dict.fromkeys(one for reason in self.reasons for one in reason.advice))


def decide(facts: Facts) -> Decision:
    """Decide whether RDMA with GPUDirect RDMA is used on all ranks over all nodes."""
    violations = tuple(_violations(facts))
    if violations:
        return Decision(FAIL, (*gaps.contradiction(facts), *violations))
    found = tuple(gaps.gaps(facts))
    return Decision(INCONCLUSIVE if found else PASS, found)


def with_adapters(facts: Facts) -> Decision:
    """Decide that, and whether the adapters are the expected ones, which is a violation of its own."""
    found = decide(facts)
    if hca_check(facts) != FAIL:
        return found
    used, listed_ = ", ".join(facts.hcas_used) or "unknown", ", ".join(facts.hcas_listed) or "none"
    wanted = ", ".join(facts.given.expected_hcas or ())
    text = f"the adapters are not the expected ones ({wanted}): used {used}; listed {listed_}"
    mine = wrong(text, (advice.ADAPTERS,))
    decisive = tuple(reason for reason in found.reasons if reason.decisive)
    others = tuple(reason for reason in found.reasons if not reason.decisive)
    return Decision(FAIL, (*decisive, mine, *others))


def doubts(facts: Facts) -> Iterator[Reason]:
    """Yield errors, warnings that nobody knows, and lines that cannot be read: what spoils any statement on a log."""
    yield from failing.violations(facts)
    yield from failing.not_good(facts)
    yield from gaps.unread(facts)


def question(facts: Facts) -> str:
    """Return what is decided: what goes between nodes, or, where there is one, what is used inside it."""
    other = gaps.other_nodes(facts)
    if other is not None:
        told = f"{plurals.count(facts.given.nodes or 0, 'node was', 'nodes were')} given and {other} are in the log"
        return f"undecided which job is meant: {told}; until they agree, nothing below is a pass"
    if not facts.alone:
        return "RDMA with GPUDirect RDMA on all ranks over all nodes"
    return "direct connections inside the one node; between nodes: not applicable, there is no traffic between nodes"


def hca_check(facts: Facts) -> str | None:
    """Say whether the adapters in use are the expected ones; None where none are expected."""
    expected = facts.given.expected_hcas
    if expected is None:
        return None
    wanted = set(expected)
    used = {_plain(name) for name in facts.hcas_used}
    listed = [{_plain(name) for name in names} for names in facts.listed.values()]
    if used - wanted or any(wanted - names for names in listed):
        return FAIL
    if used:
        return PASS
    if any(names - wanted for names in listed):
        return FAIL
    return INCONCLUSIVE


def proven_between_nodes(facts: Facts) -> bool | None:
    """Say whether connections between machines were seen; False where all pods sit on one machine."""
    return facts.between_nodes


def values(facts: Facts) -> dict[str, Any]:
    """Return facts and verdicts by the names that cases use."""
    return {
        **facts.values(),
        "inter_node_proven": proven_between_nodes(facts),
        "hca_check": hca_check(facts),
        "rdma_gdr_check": decide(facts).verdict,
    }


def _plain(name: str) -> str:
    return name.removesuffix("_dma")


def _violations(facts: Facts) -> Iterator[Reason]:
    yield from _over_tcp(facts)
    yield from _without_gdr(facts)
    apart = [name for name in facts.names if not networks.is_reduction(name)]
    if len(apart) > 1:
        who = "; ".join(f"{name} on {few(facts.names[name])}" for name in apart)
        yield wrong(f"ranks use different networks: {who}", (advice.MIXED_NETWORKS,))
    yield from _wrong_world(facts)
    yield from _wrong_figures(facts)
    yield from failing.violations(facts)


def _over_tcp(facts: Facts) -> Iterator[Reason]:
    if facts.alone:
        return
    why = _for_several_nodes(facts, advice.of_fallback(facts))
    fallen = facts.ranks_on(networks.TCP)
    names = sorted({p.name for p in facts.paths if p.carrier == networks.TCP})
    if fallen:
        yield wrong(f"connected over {named(names)}, which is TCP: {listed(fallen, facts)}", why)
    chosen = [
        n
        for n in facts.selected
        if facts.carriers.get(n, networks.UNKNOWN) == networks.TCP and n not in names
    ]
    if chosen:
        hosts = sorted({_at(facts, process.host) for process, name in facts.seen.selected if name in chosen})
        text = f"the network chosen on {few(hosts)} is {', '.join(chosen)}, which is TCP"
        yield wrong(f"{text}; no connection over it is seen" if not fallen else text, why)
    copied = facts.ranks_on(networks.GPUDIRECT_TCP)
    others = [
        name for name in {*facts.net, *facts.selected} if facts.carriers.get(name) == networks.GPUDIRECT_TCP
    ]
    if copied or others:
        who = f": {listed(copied, facts)}" if copied else ""
        text = f"{named(sorted(others))} is TCP with copies between NIC and GPU, not RDMA{who}"
        yield wrong(text, (advice.GPUDIRECT_TCP,))


def _for_several_nodes(facts: Facts, why: tuple[Advice, ...]) -> tuple[Advice, ...]:
    """Return advice about what goes between nodes; where one node was given, why a network is used at all."""
    if facts.given.nodes != 1:
        return why
    return () if gaps.other_nodes(facts) is not None else (advice.NO_P2P,)


def _without_gdr(facts: Facts) -> Iterator[Reason]:
    ranks = facts.no_gdr_ranks
    if ranks:
        directions = sorted(
            {p.way for p in facts.paths if p.carrier and p.carrier != networks.TCP and not p.gdr and p.way}
        )
        text = f"without GPUDirect RDMA ({' and '.join(directions) or 'no direction given'}): {listed(ranks, facts)}"
        yield wrong(text, _for_several_nodes(facts, advice.of_no_gdr(facts)))
    elif (
        facts.gdr == "none"
        and not facts.paths
        and {able for _, able, _ in facts.seen.adapters_gdr} == {False}
    ):
        hcas = sorted({hca for _, _, hca in facts.seen.adapters_gdr})
        yield wrong(
            f"GPUDirect RDMA is disabled for every adapter: {few(hcas)}",
            _for_several_nodes(facts, advice.of_no_gdr(facts)),
        )


def _wrong_world(facts: Facts) -> Iterator[Reason]:
    ranks = facts.given.ranks
    if ranks is None or facts.alone:
        return
    if facts.nranks is not None and facts.nranks != ranks and not facts.sub_worlds:
        several = f", and there are {facts.worlds} of them" if (facts.worlds or 0) > 1 else ""
        text = f"the largest communicator has {facts.nranks} ranks, not {ranks}{several}"
        yield wrong(text, (advice.SMALL_WORLD,))
        return
    factor = facts.factor
    if factor and not factor[0] <= ranks <= factor[1]:
        text = f"the factor between bus and algorithm bandwidth is that of {factor[0]} ranks, not {ranks}"
        yield wrong(text, (advice.SMALL_WORLD,))


def _wrong_figures(facts: Facts) -> Iterator[Reason]:
    figures = facts.seen.table
    if figures.wrong or figures.out_of_bounds or figures.failed:
        count = max(figures.wrong or 0, figures.out_of_bounds or 0)
        yield wrong(f"{count or 'some'} results of the test are wrong", (advice.WRONG_DATA,))
    if figures.below_minimum:
        yield wrong("the average bus bandwidth is below the minimum given to the test", (advice.SLOW,))
    if figures.zero:
        yield wrong("the bus bandwidth is 0: each process was its own world", (advice.NO_MPI,))
    elif figures.single_ranks():
        yield wrong("several processes are rank 0: each was its own world", (advice.NO_MPI,))
    if figures.not_finite:
        yield wrong("a figure of the test is not a number", (advice.WRONG_DATA,))


def _at(facts: Facts, host: str) -> str:
    return facts.given.pod_nodes.get(host, host).lstrip("?")
