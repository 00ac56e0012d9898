"""What a log does not show: without it nothing passes."""

import itertools
from collections.abc import Iterator, Mapping

from pytest_gpucluster.measure.nccl import advice, failing, line_patterns, networks
from pytest_gpucluster.measure.nccl.facts import Facts
from pytest_gpucluster.measure.nccl.reasons import MANY, Reason, few, listed, unseen
from pytest_gpucluster.measure.nccl.reasons import networks as named
from pytest_gpucluster.plain import plurals


def gaps(facts: Facts) -> Iterator[Reason]:
    """Return what was not seen, or cannot be understood."""
    yield from contradiction(facts)
    yield from _connections(facts)
    yield from _gdr_denied(facts)
    yield from _world(facts)
    yield from failing.not_good(facts)
    yield from unread(facts)


def _connections(facts: Facts) -> Iterator[Reason]:
    over = [path for path in facts.paths if path.carrier]
    if facts.alone:
        yield from _inside(facts)
    elif not over:
        yield unseen(why_no_connection(facts), advice.of_silence(facts))
    unknown = sorted({p.name for p in over if p.carrier == networks.UNKNOWN})
    if unknown:
        yield unseen(f"the transport of {named(unknown)} is not known", (advice.UNKNOWN_NETWORK,))


def _inside(facts: Facts) -> Iterator[Reason]:
    """Return what is not seen of ranks that are all on one node."""
    inside = [path for path in facts.paths if path.kind == line_patterns.INTRA]
    slow = sorted({path.rank for path in inside if path.name.startswith("SHM")})
    if slow:
        text = f"over shared memory of the host, not from GPU to GPU: {listed(slow, facts)}"
        yield unseen(text, (advice.NO_P2P,))
    joined = {path.rank for path in inside} | {path.peer for path in inside}
    lone = [rank for rank in sorted(facts.ranks) if rank not in joined]
    if (not inside or lone) and facts.nvls != "used" and facts.nranks != 1:
        who = f" of {listed(lone, facts)}" if inside else ""
        yield unseen(f"no connection inside the node is seen{who}", (advice.LAZY,))


def _gdr_denied(facts: Facts) -> Iterator[Reason]:
    """Return that a host says of all its adapters that GPUDirect RDMA is off, and of a connection that it is on."""
    said: dict[str, set[bool]] = {}
    for process, able, _ in facts.seen.adapters_gdr:
        said.setdefault(process.host, set()).add(able)
    denied = {host for host, able in said.items() if able == {False}}
    hosts = sorted({facts.host_of(path.rank) for path in facts.paths if path.gdr} & denied)
    if hosts:
        text = f"on {few(hosts)} GPUDirect RDMA is disabled for every adapter, but connections are said to use it"
        yield unseen(text, (advice.TORN, advice.PEERMEM))


def _world(facts: Facts) -> Iterator[Reason]:
    given = facts.given
    if given.ranks is None or given.nodes is None:
        yield unseen("the number of ranks and nodes of the job was not given", (advice.TELL,))
    else:
        yield from _not_covered(facts, given.ranks, given.nodes)
    if facts.between_nodes is False:
        yield unseen("the pods are on one machine: nothing crossed a wire", (advice.SPREAD,))


def _not_covered(facts: Facts, ranks: int, nodes: int) -> Iterator[Reason]:
    if facts.alone and facts.nranks is not None and facts.nranks != ranks:
        text = (
            f"the largest communicator has {facts.nranks} ranks, but {ranks} are expected: nothing is known of "
            "the others"
        )
        yield unseen(text, (advice.SMALL_WORLD, advice.ALL_RANKS))
    missing = ranks - sum(rank < ranks for rank in facts.ranks)
    if missing:
        first = list(itertools.islice((rank for rank in range(ranks) if rank not in facts.ranks), MANY))
        shown = ", ".join(map(str, first)) + (f" and {missing - MANY} more" if missing > MANY else "")
        yield unseen(
            f"nothing in the log identifies {'rank' if missing == 1 else 'ranks'} {shown}",
            (advice.ALL_RANKS,),
        )
    over = [path for path in facts.paths if path.carrier]
    machines: Mapping[str, str] = facts.given.pod_nodes
    seen = {machines.get(host, host) for host in facts.net_hosts}
    if over and len(seen) < nodes:
        text = f"connections over a network are seen on {len(seen)} of {nodes} nodes ({few(sorted(seen))})"
        yield unseen(text, (advice.ALL_RANKS,))
    if over and nodes == 1:
        yield unseen(
            "one node was given: network traffic within it crosses no wire between nodes",
            (advice.SPREAD,),
        )
    if facts.sub_worlds and facts.nranks != ranks:
        yield unseen(
            f"only split communicators are seen, with at most {facts.nranks} ranks", (advice.ALL_RANKS,)
        )


def other_nodes(facts: Facts) -> int | None:
    """Return the number of nodes that the log shows where it is another than the one that was given, None otherwise.

    Nodes are hosts for NCCL, and pods of one machine are several; where the machines of pods are given, they count.
    """
    given = facts.given
    if given.nodes is None or given.pod_nodes or facts.mnnvl:
        return None
    certain = facts.nnodes is not None and (facts.nranks == given.ranks or facts.nnodes > given.nodes)
    if certain:
        return None if facts.nnodes == given.nodes else facts.nnodes
    seen = len(set(facts.net_hosts))
    return seen if seen > given.nodes else None


def contradiction(facts: Facts) -> Iterator[Reason]:
    """Return that the log shows another number of nodes than was given: what follows stands on one of the two."""
    count = other_nodes(facts)
    if count is not None:
        given = plurals.count(facts.given.nodes or 0, "node was", "nodes were")
        yield unseen(f"{given} given, but the log shows {plurals.count(count, 'node')}", (advice.NODES,))


def why_no_connection(facts: Facts) -> str:
    """Return what is there in place of a connection over a network."""
    inside = [path for path in facts.paths if path.kind == line_patterns.INTRA]
    if facts.nnodes == 1 or inside:
        return (
            "no connection over a network is seen: all seen connections stay inside one node or NVLink domain"
        )
    if facts.net:
        return f"{named(facts.net)} was chosen, but no connection over it is seen: a choice proves nothing"
    if not facts.seen.records:
        return "no line of NCCL at level INFO is in the log"
    return "no connection line is in the log"


def unread(facts: Facts) -> Iterator[Reason]:
    """Return what of the log cannot be read, or was left out."""
    seen, figures = facts.seen, facts.seen.table
    if seen.headless:
        text = f"{_lines(seen.headless)} of NCCL without host and process in front: their origin is not known"
        yield unseen(text, (advice.STRIPPED,))
    if seen.torn:
        yield unseen(f"{_lines(seen.torn)} of NCCL cannot be read", (advice.TORN,))
    if figures.torn:
        yield unseen(f"{_lines(figures.torn)} of the test's table cannot be read", (advice.TORN,))
    if figures.odd:
        yield unseen(f"impossible figures: {figures.odd[0]}", (advice.ODD_FIGURES,))
    if seen.folded:
        yield unseen(
            "a launcher folded similar lines: the output of single ranks is not known", (advice.FOLDED,)
        )
    if seen.cut:
        yield unseen("the log ends in the middle of a record", (advice.CUT,))
    if seen.long:
        yield unseen("a line is too long for a log", (advice.CUT,))
    if seen.full:
        yield unseen("the log has more facts than are kept for one job", (advice.ONE_JOB,))


def _lines(count: int) -> str:
    return plurals.count(count, "line")
