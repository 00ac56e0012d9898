"""What follows from the facts: does the traffic between nodes go over RDMA with GPUDirect RDMA, on all ranks.

Only connection lines prove a transport. A line that says which network would be used proves nothing good; one that
names TCP is a violation all the same, since that rank has no other network. Silence is inconclusive.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.measure.nccl import advice, faults, networks, shapes
from pytest_gpucluster.measure.nccl.advice import Advice
from pytest_gpucluster.measure.nccl.facts import Facts

PASS = "pass"  # noqa: S105 - a verdict, no secret
FAIL = "fail"
INCONCLUSIVE = "inconclusive"
MANY = 8


@dataclasses.dataclass(frozen=True)
class Reason:
    """One thing that speaks against a pass.

    Attributes:
        decisive: whether it is a violation; else something that was not seen.
        text: what was seen, with ranks and hosts.
        advice: causes and fixes, likeliest first.
    """

    decisive: bool
    text: str
    advice: tuple[Advice, ...] = ()


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
        return Decision(FAIL, violations)
    gaps = tuple(_gaps(facts))
    return Decision(INCONCLUSIVE if gaps else PASS, gaps)


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
    machines = facts.given.pod_nodes
    if not machines:
        return None
    if len(set(machines.values())) < 2:
        return False
    over = {machines[host] for host in facts.net_hosts if host in machines}
    if not over and len(set(machines.values())) == len(machines):
        # Which pod lies where is not told, only that each has a machine of its own.
        return len(facts.net_hosts) > 1
    return len(over) > 1


def values(facts: Facts) -> dict[str, Any]:
    """Return facts and verdicts by the names that cases use."""
    return {
        **facts.values(),
        "inter_node_proven": proven_between_nodes(facts),
        "hca_check": hca_check(facts),
        "rdma_gdr_check": decide(facts).verdict,
    }


def listed(ranks: Sequence[int], facts: Facts) -> str:
    """Return ranks with their hosts, the first ones by name."""
    shown = ", ".join(facts.where(rank) for rank in ranks[:MANY])
    return shown + (f" and {len(ranks) - MANY} more" if len(ranks) > MANY else "")


def _wrong(text: str, why: tuple[Advice, ...]) -> Reason:
    return Reason(decisive=True, text=text, advice=why)


def _unseen(text: str, why: tuple[Advice, ...]) -> Reason:
    return Reason(decisive=False, text=text, advice=why)


def _plain(name: str) -> str:
    return name.removesuffix("_dma")


def _violations(facts: Facts) -> Iterator[Reason]:
    yield from _over_tcp(facts)
    yield from _without_gdr(facts)
    apart = [name for name in facts.names if not networks.is_reduction(name)]
    if len(apart) > 1:
        who = "; ".join(f"{name} on {_few(facts.names[name])}" for name in apart)
        yield _wrong(f"ranks use different networks: {who}", (advice.MIXED_NETWORKS,))
    yield from _wrong_world(facts)
    yield from _wrong_figures(facts)
    yield from _failures(facts)


def _over_tcp(facts: Facts) -> Iterator[Reason]:
    why = advice.of_fallback(facts)
    fallen = facts.ranks_on(networks.TCP)
    names = sorted({p.name for p in facts.paths if p.carrier == networks.TCP})
    if fallen:
        yield _wrong(f"connected over {_networks(names)}, which is TCP: {listed(fallen, facts)}", why)
    chosen = [
        n
        for n in facts.selected
        if facts.carriers.get(n, networks.UNKNOWN) == networks.TCP and n not in names
    ]
    if chosen:
        hosts = sorted({_at(facts, process.host) for process, name in facts.seen.selected if name in chosen})
        text = f"the network chosen on {_few(hosts)} is {', '.join(chosen)}, which is TCP"
        yield _wrong(f"{text}; no connection over it is seen" if not fallen else text, why)
    copied = facts.ranks_on(networks.GPUDIRECT_TCP)
    others = [
        name for name in {*facts.net, *facts.selected} if facts.carriers.get(name) == networks.GPUDIRECT_TCP
    ]
    if copied or others:
        who = f": {listed(copied, facts)}" if copied else ""
        text = f"{_networks(sorted(others))} is TCP with copies between NIC and GPU, no RDMA{who}"
        yield _wrong(text, (advice.GPUDIRECT_TCP,))


def _without_gdr(facts: Facts) -> Iterator[Reason]:
    ranks = facts.no_gdr_ranks
    if ranks:
        directions = sorted(
            {p.way for p in facts.paths if p.carrier and p.carrier != networks.TCP and not p.gdr and p.way}
        )
        text = f"without GPUDirect RDMA ({' and '.join(directions) or 'no direction told'}): {listed(ranks, facts)}"
        yield _wrong(text, advice.of_no_gdr(facts))
    elif (
        facts.gdr == "none"
        and not facts.paths
        and {able for _, able, _ in facts.seen.adapters_gdr} == {False}
    ):
        hcas = sorted({hca for _, _, hca in facts.seen.adapters_gdr})
        yield _wrong(f"GPUDirect RDMA is disabled for every adapter: {_few(hcas)}", advice.of_no_gdr(facts))


def _wrong_world(facts: Facts) -> Iterator[Reason]:
    ranks = facts.given.ranks
    if ranks is None:
        return
    if facts.nranks is not None and facts.nranks != ranks and not facts.sub_worlds:
        several = f", and there are {facts.worlds} of them" if (facts.worlds or 0) > 1 else ""
        text = f"the largest communicator has {facts.nranks} ranks, not {ranks}{several}"
        yield _wrong(text, (advice.SMALL_WORLD,))
        return
    factor = facts.factor
    if factor and not factor[0] <= ranks <= factor[1]:
        text = f"the factor between bus and algorithm bandwidth is that of {factor[0]} ranks, not {ranks}"
        yield _wrong(text, (advice.SMALL_WORLD,))


def _wrong_figures(facts: Facts) -> Iterator[Reason]:
    figures = facts.seen.table
    if figures.wrong or figures.out_of_bounds or figures.failed:
        count = max(figures.wrong or 0, figures.out_of_bounds or 0)
        yield _wrong(f"{count or 'some'} results of the test are wrong", (advice.WRONG_DATA,))
    if figures.zero:
        yield _wrong("the bus bandwidth is 0: each process was a world of its own", (advice.NO_MPI,))
    elif figures.single_ranks():
        yield _wrong("several processes are rank 0: each was a world of its own", (advice.NO_MPI,))
    if figures.not_finite:
        yield _wrong("a figure of the test is no number", (advice.WRONG_DATA,))


def _failures(facts: Facts) -> Iterator[Reason]:
    for kind in facts.errors:
        if kind not in faults.FATAL:
            continue
        fault, host = facts.fault.get(kind, (faults.Fault(kind), ""))
        said = f": {fault.detail}" if fault.detail else ""
        if kind == "mixed_versions":
            said = f": {', '.join(facts.versions)}"
        if kind == "watchdog_timeout" and facts.timeout_ranks:
            said = f" on {listed(facts.timeout_ranks, facts)}{said}"
        yield _wrong(f"{kind}{f' on {host}' if host else ''}{said}", advice.of_fault(fault))
    if facts.outcomes and not set(facts.errors) & faults.FATAL:
        yield _wrong(f"the program failed: {facts.outcomes[0]}", (advice.PROGRAM,))


def _gaps(facts: Facts) -> Iterator[Reason]:
    given = facts.given
    over = [path for path in facts.paths if path.carrier]
    if not over:
        yield _unseen(_why_no_connection(facts), advice.of_silence(facts))
    unknown = sorted({p.name for p in over if p.carrier == networks.UNKNOWN})
    if unknown:
        yield _unseen(f"nobody knows what carries {_networks(unknown)}", (advice.UNKNOWN_NETWORK,))
    if given.ranks is None or given.nodes is None:
        yield _unseen("how many ranks and nodes the job has was not told", (advice.TELL,))
    else:
        yield from _not_covered(facts, given.ranks, given.nodes)
    if proven_between_nodes(facts) is False:
        yield _unseen("the pods sit on one machine: nothing crossed a wire", (advice.SPREAD,))
    if facts.seen.folded:
        yield _unseen(
            "a launcher folded similar lines: what single ranks printed is not known", (advice.FOLDED,)
        )
    if facts.seen.cut:
        yield _unseen("the log ends in the middle of a record", (advice.CUT,))
    if facts.seen.long:
        yield _unseen("a line is too long to be one of a log", (advice.CUT,))
    if facts.seen.full:
        yield _unseen("the log states more than is kept of one job", (advice.ONE_JOB,))


def _not_covered(facts: Facts, ranks: int, nodes: int) -> Iterator[Reason]:
    missing = ranks - sum(rank < ranks for rank in facts.ranks)
    if missing:
        first = list(itertools.islice((rank for rank in range(ranks) if rank not in facts.ranks), MANY))
        shown = ", ".join(map(str, first)) + (f" and {missing - MANY} more" if missing > MANY else "")
        yield _unseen(f"nothing in the log identifies rank {shown}", (advice.ALL_RANKS,))
    over = [path for path in facts.paths if path.carrier]
    machines: Mapping[str, str] = facts.given.pod_nodes
    seen = {machines.get(host, host) for host in facts.net_hosts}
    if over and len(seen) < nodes:
        text = f"connections over a network are seen of {len(seen)} of {nodes} nodes ({_few(sorted(seen))})"
        yield _unseen(text, (advice.ALL_RANKS,))
    if facts.sub_worlds and facts.nranks != ranks:
        yield _unseen(
            f"only communicators split off are seen, of at most {facts.nranks} ranks",
            (advice.ALL_RANKS,),
        )


def _why_no_connection(facts: Facts) -> str:
    inside = [path for path in facts.paths if path.kind == shapes.INTRA]
    if facts.nnodes == 1 or inside:
        return "no connection over a network is seen: what is seen stays inside one node or NVLink domain"
    if facts.net:
        return (
            f"{_networks(facts.net)} was chosen, but no connection over it is seen: a choice proves nothing"
        )
    if not facts.seen.records:
        return "no line of NCCL at level INFO is in the log"
    return "no connection line is in the log"


def _at(facts: Facts, host: str) -> str:
    return facts.given.pod_nodes.get(host, host).lstrip("?")


def _networks(names: Sequence[str]) -> str:
    return ", ".join(f"NET/{name}" for name in names)


def _few(names: Sequence[str]) -> str:
    shown = [name or "?" for name in names[:MANY]]
    return (
        ", ".join(shown) + (f" and {len(names) - MANY} more" if len(names) > MANY else "") if shown else "?"
    )
