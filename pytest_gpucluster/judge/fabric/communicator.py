"""FAB-004, FAB-005: one communicator with every rank, and the declared adapters behind it."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import connections, shared
from pytest_gpucluster.judge.fabric.connections import cause
from pytest_gpucluster.measure import transports
from pytest_gpucluster.measure.nccl import Facts, advice, networks, verdict
from pytest_gpucluster.requirement import Cause, Finding, Number

ONE = "one communicator holds every rank of the world"
ADAPTERS = "every rank uses the declared adapters, all of them and no others"

PREFIX = Cause(
    "NCCL reads NCCL_IB_HCA as name prefixes: mlx5_1 also matches mlx5_10 to mlx5_19",
    'write the list with "=" in front: NCCL_IB_HCA: "=mlx5_1,mlx5_2"',
)
OTHERS = Cause(
    "NCCL_IB_HCA is not set in the pods, or names other adapters (the image or /etc/nccl.conf may set it), or "
    "the profile's "
    "fabric.hcas is wrong",
    "compare NCCL_IB_HCA in the rank's log (`NCCL_IB_HCA set to`) with fabric.hcas and with ibv_devices in a pod",
)
UNSEEN = Cause(
    "the pod does not see a declared adapter, may not open it, or NCCL_IB_HCA leaves it out",
    "request all adapters of the node in the pod; open each device of /dev/infiniband in it",
)

ON_TCP = Cause(
    "traffic between nodes goes over sockets, so which adapters it would use was not seen",
    "see the rows on the transport first (FAB-001, FAB-003); declare transport: NET/Socket if sockets are meant",
)


@subjects.judge
def holds_all(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-004."""
    ground = connections.of(evidence, given, ONE, between=False)
    if isinstance(ground, Finding):
        return ground
    facts, world = ground.facts, ground.world
    number = Number("ranks of the largest communicator", None if facts.nranks is None else float(facts.nranks),
                    "ranks", float(world), "nodes x GPUs of the gang")  # fmt: skip
    if facts.nranks is not None and facts.nranks > world:
        text = f"a communicator has {facts.nranks} ranks, the world has {world}"
        return ground.fail(text, facts.ranks, cause(advice.ONE_JOB))
    if facts.worlds is not None and facts.worlds > 1 and not _one_holds(facts, world):
        text = f"{facts.worlds} separate communicators of {facts.nranks} ranks"
        return ground.fail(text, facts.ranks, cause(advice.SMALL_WORLD))
    lacking = ground.lacking()
    if lacking is not None:
        return lacking
    if facts.nranks is None:
        text = "the logs show no communicator"
        return ground.found.inconclusive(text, numbers=(number,))
    if facts.nranks < world:
        text = f"the largest communicator has {facts.nranks} of {world} ranks"
        return ground.fail(text, facts.ranks, cause(advice.SMALL_WORLD))
    absent = [rank for rank in range(world) if rank not in facts.ranks]
    if absent:
        text = f"rank {wording.listed([str(rank) for rank in absent])} of {world} is in no communicator of that size"
        return ground.found.inconclusive(text, numbers=(number,), where=ground.where(absent))
    return ground.found.passed(f"one communicator of {world} ranks", numbers=(number,))


def _one_holds(facts: Facts, world: int) -> bool:
    """Report whether one communicator has every rank: a program may make several of the whole world."""
    members: dict[str, set[int]] = {}
    for member in facts.seen.members:
        if member.comm.nranks == world and member.comm.unique:
            members.setdefault(member.comm.unique, set()).add(member.comm.rank)
    return any(len(ranks) == world for ranks in members.values())


@subjects.judge
def declared_adapters(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-005."""
    ground = connections.of(evidence, given, ADAPTERS, between=True)
    if isinstance(ground, Finding):
        return ground
    facts = ground.facts
    declared = [str(one) for one in shared.fabric(given).get("hcas") or []]
    used = wording.listed(list(facts.hcas_used)) or "none known"
    if not declared:
        text = f"no adapters are declared (fabric.hcas); in use: {used}"
        return ground.found.not_applicable(text)
    if shared.fabric(given).get("transport") == transports.SOCKETS:
        return ground.found.not_applicable("sockets are declared (fabric.transport): they use no adapters")
    strange = sorted(set(facts.hcas_used) - set(declared))
    if strange:
        ranks = sorted({path.rank for path in ground.between if set(path.hcas) & set(strange)})
        text = f"declared are {', '.join(declared)}; in use is {', '.join(strange)}"
        longer = any(one != name and one.startswith(name) for one in strange for name in declared)
        return ground.fail(text, ranks, *((PREFIX, OTHERS) if longer else (OTHERS,)))
    if verdict.hca_check(facts) == verdict.FAIL:
        lacks = {
            host: sorted(set(declared) - set(names))
            for host, names in facts.listed.items()
            if set(declared) - set(names)
        }
        listed = wording.listed(
            [f"{host} lacks {', '.join(names)}" for host, names in sorted(lacks.items())], 4
        )
        ranks = [rank.rank for rank in ground.told.ranks if rank.word.pod in lacks]
        return ground.fail(f"declared are {', '.join(declared)}: {listed or used}", ranks, UNSEEN)
    on_tcp = sorted({path.rank for path in ground.between if path.carrier == networks.TCP})
    if on_tcp and not facts.hcas_used:
        text = f"ranks {wording.listed([str(rank) for rank in on_tcp])} are on TCP, which uses no adapters"
        return ground.found.inconclusive(text, ON_TCP, where=ground.where(on_tcp))
    gap = ground.gap(path for path in ground.between if path.hcas)
    if gap is not None:
        return gap
    idle = sorted(set(declared) - set(facts.hcas_used))
    beside = f"; {', '.join(idle)} carried nothing" if idle else ""
    return ground.found.passed(f"in use: {used}, all declared{beside}")
