"""FAB-020: what NCCL or RCCL finds when it tries its own paths.

Its reports fail nothing and leave out what they did not try, so that silence looks like success: a pass needs every
directed pair of GPUs of every node, the report to its end, and each check of RAS over all ranks.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

from pytest_gpucluster.evidence.hardware.collectives import Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import bus_bandwidth, rank_logs, shared
from pytest_gpucluster.measure import samples, transports
from pytest_gpucluster.measure.nccl import diagnostics
from pytest_gpucluster.measure.nccl.diagnostics import Diagnostics
from pytest_gpucluster.plain import versions
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "NCCL tried every directed pair of GPUs of each node and none failed; GPUs, driver, ECC, links and settings are "
    "alike and healthy on all ranks"
)

PATH = Cause(
    "data did not arrive between these GPUs: a link between them, peer access in the driver, PCIe ACS or the IOMMU, or "
    "containers that may not share memory handles",
    "the line of the report names path and handle: look at the links of this pair (nvidia-smi topo -m, nvidia-smi "
    "nvlink -e), at ACS and IOMMU of the host, and repeat with all ranks of the node in one container",
)
NOT_TRIED = Cause(
    "NCCL does not use peer-to-peer paths for these pairs, and so does not try them: NCCL_P2P_DISABLE or "
    "NCCL_P2P_LEVEL is set, GPUs have no direct path, or pods of one node share neither /dev/shm nor processes",
    "look for `set by environment` of NCCL_P2P_* in the ranks' logs (FAB-017), at the path inside the node (FAB-018), "
    "and run one pod per node",
)
INDIRECT = Cause(
    "these pairs reach each other through a third GPU: the board has no link between them (such as DGX-1), or a link "
    "between them is down",
    "compare nvidia-smi topo -m with a healthy node of the same kind, and look at nvidia-smi nvlink -s; FAB-006 and "
    "FAB-012 measure what these paths carry",
)
UNLINKED = Cause(
    "the line about links was lost, or NCCL found no link: the fabric of the board did not come up, or link_gbs of the "
    "profile is not that of these GPUs",
    "look at the state of the GPUs' links and at the log of the board's fabric manager on the nodes, and at "
    "fabric.link_gbs of the profile",
)
LOST = Cause(
    "the report was not printed to its end: its process ended early, or its output was cut",
    "read the end of the first member's log; raise containerLogMaxSize of the kubelet, or follow the log",
)
ECC = Cause(
    "a GPU has counted memory errors since its driver was loaded",
    "drain the node, look at ECC and remapped rows (nvidia-smi -q), reset the GPU, replace it if errors come back",
)
LINK = Cause(
    "a link between GPUs is down", "look at nvidia-smi nvlink -s on the node; drain it and reseat the board"
)
UNLIKE = Cause(
    "nodes of one job differ: another GPU, another driver",
    "give the job nodes of one pool, and bring their drivers to one version",
)
SETTING = Cause(
    "the ranks do not have the same settings of NCCL: images, pod templates or nccl.conf of nodes differ",
    "compare `set by environment` lines of both groups of ranks; set the variable in the pod template of all members",
)
SLOW = Cause(
    "an adapter, its cable or its path to the GPU is slower than those of the other ranks",
    "look at port, rate and PCIe link of the adapter on that node (FAB-007), and at FAB-012",
)
NO_NETWORK = Cause(
    "NCCL's own check of the network did not run: its release has none, the network is not InfiniBand or RoCE, or "
    "ib_write_bw (perftest) is not in the image",
    "put perftest into the image of all members and use a newer NCCL; FAB-012 measures pairs of nodes without it",
)
PCIE_GBS = 128
"""GB/s in one direction that PCIe 6 carries over 16 lanes: a GPU that sends more has other links."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """Who took part.

    Attributes:
        world: ranks.
        nodes: nodes.
        edges: directed pairs of GPUs that have a direct path by the declared topology.
        linked: whether GPUs of a node have links beside PCIe, as declared.
    """

    world: int
    nodes: int
    edges: int
    linked: bool = False


@subjects.judge
def every_edge_tried(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-020."""
    heard = shared.heard_on_gpus(evidence, given, REQUIRED)
    if isinstance(heard, Finding):
        return heard
    gang, told, found = heard
    uids = subjects.uids(gang)
    lines = [
        str(line.data.get("line") or "")
        for line in evidence.lines
        if line.type == "LOG" and (uids is None or line.data.get("uid") in uids)
    ]
    said = diagnostics.read(lines)
    older = _older(rank_logs.facts(evidence, given, gang).versions)
    if older and not said.active and not said.checks:
        return found.not_applicable(f"NCCL {older} has no diagnostics of its own (they came with 2.31)")
    shape = _shape(given, told)
    wrong = list(_wrong(said))
    if wrong:
        return found.fail(
            wording.listed([text for text, _ in wrong], 4),
            violation=True,
            causes=tuple(dict.fromkeys(cause for _, cause in wrong)),
            numbers=_numbers(said, shape),
        )
    unfinished = bus_bandwidth.incomplete(evidence, given, told, gang, REQUIRED)
    if unfinished is not None:
        return unfinished
    open_ = list(_open(said, shape))
    if open_:
        causes = tuple(dict.fromkeys(cause for _, cause in open_ if cause is not None))
        text = wording.listed([text for text, _ in open_], 4)
        return found.inconclusive(text, causes=causes, numbers=_numbers(said, shape))
    return found.passed(_summary(said, shape), numbers=_numbers(said, shape))


def _older(seen: tuple[str, ...]) -> str:
    """Return the version that the ranks loaded if all of them are older than the diagnostics, else ""."""
    parsed = [versions.parse(text) for text in seen]
    old = bool(parsed) and all(one is not None and tuple(one[:2]) < diagnostics.SINCE for one in parsed)
    return " and ".join(seen) if old else ""


def _shape(given: subjects.Given, told: Told) -> Shape:
    by_node = Counter(rank.node for rank in told.ranks)
    world = shared.expected(given, told) or len(told.ranks)
    joined = shared.fabric(given).get("transport") == transports.NVLINK
    groups = [world] if joined else list(by_node.values())
    link = samples.number(shared.fabric(given).get("link_gbs"))
    # RCCL tells nothing about links of its GPUs.
    ours = any("nvidia" in rank.says("device_name").lower() for rank in told.ranks)
    linked = ours and link is not None and link > PCIE_GBS
    return Shape(world, len(by_node), sum(n * (n - 1) for n in groups), linked)


def _wrong(said: Diagnostics) -> Iterator[tuple[str, Cause]]:
    """Yield what the reports found wrong."""
    for edge in said.edges:
        yield edge, PATH
    for report in said.active:
        edges = report.edges
        if edges is not None and edges.passed != edges.tested and not said.edges:
            yield f"{edges.passed} of {edges.tested} directed pairs of GPUs were verified", PATH
    for check in said.checks:
        if not check.bad:
            continue
        cause = ECC if check.label == "ECC" else LINK if "inactive link" in check.text else UNLIKE
        yield f"{check.label}: {check.text}", cause
    if said.differing:
        yield f"settings differ between ranks: {wording.listed(said.differing, 6)}", SETTING
    for outlier in said.outliers:
        yield outlier, SLOW


def _open(said: Diagnostics, shape: Shape) -> Iterator[tuple[str, Cause | None]]:
    """Yield what is missing for a pass, or is not understood."""
    for text in said.stopped:
        yield text, None
    for text in said.strange:
        yield f"not understood: {text[:120]}", None
    if not said.active:
        yield "no report of NCCL's diagnostics was printed", LOST
    elif not any(report.ranks == shape.world for report in said.active):
        ends = [str(report.ranks) for report in said.active if report.ranks is not None]
        of = f"speak of {wording.listed(ends, 4)} ranks" if ends else "have no end"
        yield f"the reports of NCCL's diagnostics {of}; the world has {shape.world}", LOST
    elif any(report.ranks is None for report in said.active):
        yield "a report of NCCL's diagnostics has no end", LOST
    else:
        yield from _untried(said, shape)
    yield from _ras(said, shape)
    if shape.nodes > 1:
        yield from _network(said, shape)


def _untried(said: Diagnostics, shape: Shape) -> Iterator[tuple[str, Cause | None]]:
    """Yield which pairs were not tried in a communicator of all ranks."""
    for report in (one for one in said.active if one.ranks == shape.world):
        edges = report.edges
        known = 0 if edges is None else edges.tested + edges.skipped
        if not shape.edges:
            yield f"no node has two of the {shape.world} GPUs: there is no pair to try", None
        elif edges is None:
            yield (
                f"the report has no line about peer-to-peer paths: none of {shape.edges} pairs was tried",
                NOT_TRIED,
            )
        elif known < shape.edges:
            yield f"{edges.tested} of {shape.edges} directed pairs of GPUs were tried", NOT_TRIED
        elif known > shape.edges:
            yield (
                f"{known} directed pairs were tried; {shape.nodes} nodes of this world have {shape.edges}",
                None,
            )
        elif edges.skipped:
            tried = f"{edges.tested} of {shape.edges} directed pairs of GPUs were tried"
            yield f"{tried}, {edges.skipped} go through a third GPU", INDIRECT


def _ras(said: Diagnostics, shape: Shape) -> Iterator[tuple[str, Cause | None]]:
    """Yield what RAS did not compare."""
    if shape.world not in said.ras_ended or said.ras_begun > len(said.ras_ended):
        yield f"no whole report of RAS over {shape.world} ranks was printed", LOST
        return
    more = [c.label for c in said.checks if c.ok and not c.label.endswith(diagnostics.ALWAYS)]
    for label in dict.fromkeys((*diagnostics.ALWAYS, *more)):
        own = [check for check in said.checks if check.label.endswith(label)]
        if not any(check.ok and check.ranks == shape.world and not check.partial for check in own):
            told = f": {own[0].text}" if own else ""
            yield f"RAS did not compare {label} over all ranks{told}", None
        else:
            # What one report compared, another one may have left out.
            yield from ((f"{check.label}: {check.text}", None) for check in own if not check.ok)
    for check in said.checks:
        if not check.ok and not check.label.endswith((*diagnostics.ALWAYS, *more)):
            yield f"{check.label}: {check.text}", None
    if shape.linked and not any(_has_links(check) for check in said.checks):
        yield "RAS found no links between the GPUs of a node", UNLINKED


def _has_links(check: diagnostics.Check) -> bool:
    return check.label.endswith("NVLink") and "found 0 link" not in check.text


def _network(said: Diagnostics, shape: Shape) -> Iterator[tuple[str, Cause | None]]:
    """Yield what the check of the network between nodes left out."""
    for text in said.untested:
        yield text, NO_NETWORK
    for text in said.contradictions:
        yield text, None
    most: dict[str, int] = {}
    for mode, ranks, _ in said.bandwidths:
        most[mode] = max(ranks, most.get(mode, 0))
    measured = min(most.values(), default=0)
    if not said.untested and measured != shape.world:
        yield f"the network between nodes was measured by {measured} of {shape.world} ranks", NO_NETWORK


def _numbers(said: Diagnostics, shape: Shape) -> tuple[Number, ...]:
    edges = [
        report.edges for report in said.active if report.edges is not None and report.ranks == shape.world
    ]
    verified = (
        [Number("directed pairs of GPUs verified", edges[0].passed, "pairs", shape.edges, "the nodes' GPUs")]
        if edges
        else []
    )
    medians = [
        Number(f"network, {mode}, median", median, "Gbit/s") for mode, _, median in said.bandwidths[:4]
    ]
    return (*verified, *medians)


def _summary(said: Diagnostics, shape: Shape) -> str:
    labels = wording.listed(sorted({check.label for check in said.checks}), 8)
    text = f"all {shape.edges} directed pairs of GPUs on {wording.count(shape.nodes, 'node')} verified"
    net = [f"{median:g} Gbit/s {mode}" for mode, _, median in said.bandwidths]
    return f"{text}; {labels} in order on {shape.world} ranks" + (
        f"; network {wording.listed(net, 4)}" if net else ""
    )
