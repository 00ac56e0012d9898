"""FAB-001, FAB-002, FAB-003: the declared transport between nodes, GPUDirect RDMA on it, and nobody on TCP."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import connections, rank_logs, shared
from pytest_gpucluster.judge.fabric.connections import Ground, cause
from pytest_gpucluster.measure import transports
from pytest_gpucluster.measure.nccl import advice, networks
from pytest_gpucluster.measure.nccl.facts import Path
from pytest_gpucluster.requirement import Cause, Finding, Number

DECLARED = "all connections between nodes use the declared transport, on every node"
GDR = "every connection to another node uses GPUDirect RDMA, in both directions"
NO_TCP = "no rank is connected to another node over TCP, and every rank has another network than TCP"

UNNAMED = Cause(
    "the network plugin is unknown to this suite, or libfabric does not report the provider it chose",
    "declare the plugin's network (fabric.network with its transport), or set NCCL_DEBUG_SUBSYS=INIT,NET",
)
JOINED = "P2P/MNNVL"


@subjects.judge
def on_declared(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-001."""
    transport = _transport(given)
    ground = connections.of(evidence, given, DECLARED, between=True)
    if isinstance(ground, Finding):
        return ground
    if not transport:
        seen = wording.listed(sorted({path.name for path in ground.between})) or "no network"
        text = f"no transport is declared (fabric.transport); connections between nodes use {seen}"
        return ground.found.not_applicable(text)
    strays = [path for path in ground.between if not _fits(path, transport, given)]
    if strays:
        ranks = sorted({path.rank for path in strays})
        listed = wording.listed(sorted({f"{_label(path)}" for path in strays}))
        who = wording.listed([str(rank) for rank in ranks])
        text = f"{transport} is declared; ranks {who} are connected over {listed}"
        return ground.fail(text, ranks, *_causes(ground, strays))
    right = _joined(ground) if transport == transports.NVLINK else list(ground.between)
    gap = ground.gap(right)
    if gap is not None:
        return gap
    ranks = sorted({path.rank for path in right})
    over = wording.listed(sorted({_label(path) for path in right}))
    text = f"{len(ranks)} ranks on {wording.count(len(ground.nodes), 'node')} are connected over {over}"
    return ground.found.passed(text, numbers=(Number("ranks on it", float(len(ranks)), "ranks"),))


@subjects.judge
def with_gdr(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-002."""
    ground = connections.of(evidence, given, GDR, between=True)
    if isinstance(ground, Finding):
        return ground
    if shared.fabric(given).get("gdr") != "required":
        text = (
            f"GPUDirect RDMA is not declared as required (fabric.gdr); ranks that use it: {ground.facts.gdr}"
        )
        return ground.found.not_applicable(text)
    without = [path for path in ground.between if not path.gdr]
    if without:
        ranks = sorted({path.rank for path in without})
        ways = wording.listed(sorted({f"{path.way} over {path.name}" for path in without}))
        text = f"ranks {wording.listed([str(rank) for rank in ranks])} do not use it: {ways}"
        causes = advice.of_no_gdr(ground.facts) if any(p.carrier != networks.TCP for p in without) else ()
        more = (advice.FORCE,) if any(p.carrier == networks.TCP for p in without) else ()
        return ground.fail(text, ranks, *(cause(one) for one in (*causes, *more)))
    # Who prints both directions of a connection is known of each node.
    for way in ("send", "receive"):
        gap = ground.gap(path for path in ground.between if path.way == way)
        if gap is not None:
            return gap
    ranks = sorted({path.rank for path in ground.between})
    text = f"all connections of {wording.count(len(ranks), 'rank')} to other nodes use it, in both directions"
    return ground.found.passed(text)


@subjects.judge
def nobody_on_tcp(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-003."""
    transport = _transport(given)
    ground = connections.of(evidence, given, NO_TCP, between=True)
    if isinstance(ground, Finding):
        return ground
    on_tcp = sorted({path.rank for path in ground.between if path.carrier == networks.TCP})
    only = [
        name
        for name in ground.facts.names
        if ground.facts.carriers.get(name) == networks.TCP and not networks.is_reduction(name)
    ]
    if not transport or transport == transports.SOCKETS:
        what = "no transport is declared (fabric.transport)" if not transport else "sockets are declared"
        seen = f"; ranks {wording.listed([str(r) for r in on_tcp])} are on TCP" if on_tcp else ""
        return ground.found.not_applicable(what + seen)
    if on_tcp:
        nodes = wording.listed(sorted({ground.node(rank) for rank in on_tcp}))
        text = (
            f"{transport} is declared; ranks {wording.listed([str(r) for r in on_tcp])} on {nodes} are on TCP"
        )
        strays = [path for path in ground.between if path.carrier == networks.TCP]
        return ground.fail(text, on_tcp, *_causes(ground, strays))
    if only and transport != transports.NVLINK:
        hosts = sorted({host for name in only for host in ground.facts.names[name]})
        text = (
            f"ranks in {wording.listed(hosts)} have chosen {wording.listed(only)}: they have no other network"
        )
        chosen = [rank.rank for rank in ground.told.ranks if rank.word.pod in hosts]
        return ground.fail(text, chosen, *_causes(ground, []))
    unknown = sorted({path.name for path in ground.between if path.carrier == networks.UNKNOWN})
    if unknown:
        text = f"it is unknown which transport {wording.listed(unknown)} uses"
        return ground.found.inconclusive(text, UNNAMED)
    gap = ground.gap(_joined(ground) if transport == transports.NVLINK else ground.between)
    if gap is not None:
        return gap
    over = wording.listed(sorted({_label(path) for path in ground.between})) or JOINED
    text = f"none of {ground.world} ranks is on TCP; traffic between nodes uses {over}"
    return ground.found.passed(text)


def _transport(given: subjects.Given) -> str:
    return str(shared.fabric(given).get("transport") or "")


def _label(path: Path) -> str:
    """Return a connection's network as its line has it."""
    return f"{path.kind}/{path.name}" if not path.name.startswith(path.kind) else path.name


def _fits(path: Path, transport: str, given: subjects.Given) -> bool:
    """Report whether a connection between nodes is over the declared transport."""
    if transport == transports.NVLINK:
        return False
    if networks.is_reduction(path.name):
        # Reduction in the network goes beside the network that carries the rest.
        return transport in (transports.SHARP, "NET/IB")
    named = str(shared.fabric(given).get("network") or "")
    if named:
        return path.name.lower() == named.lower()
    known = transports.NETWORKS.get(transport)
    right = known is not None and known.printed.fullmatch(path.name) is not None
    # libfabric may run over TCP: by name it is what was declared, by what carries the bytes it is not.
    return right and (path.carrier != networks.TCP or transport == transports.SOCKETS)


def _joined(ground: Ground) -> list[Path]:
    return [path for path in ground.facts.paths if path.name == JOINED]


def _causes(ground: Ground, strays: list[Path]) -> list[Cause]:
    """Return why a rank is not on the declared network, likeliest first."""
    settings = ground.facts.settings
    found = []
    if "1" in settings.get("NCCL_IB_DISABLE", {}):
        found.append(advice.DISABLED)
    forced = {value for rank in ground.told.ranks for value in rank_logs.unlogged(rank).values()}
    if any(value.lower() == "socket" for value in {*settings.get("NCCL_NET", {}), *forced}):
        found.append(advice.FORCED_SOCKET)
    if any(networks.is_libfabric(path.name) and path.carrier == networks.TCP for path in strays):
        found.append(advice.LIBFABRIC_TCP)
    return [cause(one) for one in (*found, advice.no_device(ground.facts), advice.FORCE)]
