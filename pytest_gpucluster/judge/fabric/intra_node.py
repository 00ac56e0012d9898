"""FAB-018: ranks of one node use the declared path between them, not the host's memory or the network."""

from collections import Counter

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import connections
from pytest_gpucluster.judge.fabric.connections import Ground
from pytest_gpucluster.judge.fabric.shared import fabric
from pytest_gpucluster.measure.nccl import line_patterns
from pytest_gpucluster.measure.nccl.facts import Path
from pytest_gpucluster.requirement import Cause, Finding, Verdict

REQUIRED = "ranks on one node are connected by P2P or NVLS; by SHM or NET only if this is declared"

BETTER = ("NET", "SHM", "P2P", "NVLS")
"""Paths, each better than the ones before: what is declared is the least."""
OFF = Cause(
    "P2P is switched off (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL), or the GPUs cannot reach each other: no NVLink and no "
    "common PCIe switch, ACS or an IOMMU between them, a virtual machine without peer access",
    "unset the variables, look at `nvidia-smi topo -p2p r` and `nvidia-smi topo -m` on the node, switch ACS off",
)
APART = Cause(
    "the ranks are in different pods (or containers) on one node, which NCCL takes for two nodes",
    "put all GPUs of a node into one pod, or declare intra_node: NET",
)
NO_SHM = Cause(
    "NCCL does not use the pod's shared memory: /dev/shm is too small, NCCL_SHM_DISABLE is set, or the ranks "
    "do not share "
    "it (several containers)",
    "look at df -h /dev/shm in the pod and for NCCL_SHM_DISABLE in the log; mount an emptyDir with medium: Memory at "
    "/dev/shm",
)
NO_NVLS = Cause(
    "NVLS is not used: it is switched off (NCCL_NVLS_ENABLE), not available (needs NVSwitch of H100 and later, "
    "all GPUs of the node in one pod, fabric manager), or NCCL chose a ring",
    "look for `NVLS multicast support` in the log, at the fabric manager, and at NCCL_ALGO",
)


@subjects.judge
def on_declared_path(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-018."""
    ground = connections.of(evidence, given, REQUIRED, between=False)
    if isinstance(ground, Finding):
        return ground
    each = Counter(rank.node for rank in ground.told.ranks)
    shared = sorted(node for node, count in each.items() if count > 1)
    if not shared:
        return ground.found.not_applicable("every node has one rank: there is no traffic inside a node")
    declared = str(fabric(given).get("intra_node") or "")
    least = BETTER.index(declared) if declared in BETTER else BETTER.index("P2P")
    inside = [path for path in ground.facts.paths if _inside(ground, path)]
    worse = [path for path in inside if BETTER.index(_kind(path)) < min(least, BETTER.index("P2P"))]
    if worse:
        ranks = sorted({path.rank for path in worse})
        seen = wording.listed(
            sorted({path.name if path.kind == line_patterns.INTRA else f"NET/{path.name}" for path in worse})
        )
        text = f"ranks {wording.listed([str(rank) for rank in ranks])} reach others on their node over {seen}"
        net = any(_kind(path) == "NET" for path in worse)
        return ground.fail(text, ranks, *((APART, NO_SHM, OFF) if net else (OFF, APART)))
    lacking = ground.lacking()
    if lacking is not None:
        return lacking
    seen_on = {ground.node(path.rank) for path in inside}
    mute = [node for node in shared if node not in seen_on]
    if mute:
        text = f"no rank on {wording.listed(mute)} printed a connection inside its node"
        return ground.found.inconclusive(text)
    if declared == "NVLS" and ground.facts.nvls != "used":
        text = "NVLS is declared; no log shows it in use"
        verdict = Verdict.FAIL if ground.facts.nvls == "available" else Verdict.INCONCLUSIVE
        return ground.found.of(verdict, text, NO_NVLS)
    over = wording.listed(sorted({path.name for path in inside}))
    also = ", NVLS in use" if ground.facts.nvls == "used" else ""
    text = f"ranks on {wording.listed(shared)} are connected over {over}{also}"
    return ground.found.passed(text)


def _kind(path: Path) -> str:
    """Return what a connection is."""
    if path.kind != line_patterns.INTRA:
        return "NET"
    return "SHM" if path.name.startswith("SHM") or "shared memory" in path.name else "P2P"


def _inside(ground: Ground, path: Path) -> bool:
    """Report whether a connection is between two ranks of one node."""
    own, other = ground.node(path.rank), ground.node(path.peer)
    return bool(own) and own == other
