"""What the rows about the fabric share: the gang, its ranks, what is declared."""

from typing import NamedTuple

from pytest_gpucluster.evidence.hardware import collectives
from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.measure import samples
from pytest_gpucluster.measure.collective import Floor, Shape, floor_of
from pytest_gpucluster.requirement import Cause, Finding, Verdict

CPU = "the ranks compute on CPUs (gloo): the GPU fabric was not used"
NO_RANK = Cause(
    "torchrun did not start the ranks, or they ended before they reported",
    "read the log of the first member: rendezvous (name, port), the image's torch, and GPUs that the pod can see",
)
DIED = Cause(
    "a rank ended early: out of memory, an error of the collective library, a lost GPU (Xid in the node's log)",
    "read the rank's log and `dmesg` of its node; its NCCL log begins with the first warning in time",
)
KILLED = Cause(
    "a signal ended the container of a rank: its memory ran out, the program crashed, or somebody killed it",
    "look at reason and exit code (kubectl describe pod: OOMKilled; 128 and the signal, 137 is SIGKILL, 139 a crash), "
    "and at `dmesg` of its node",
)
SIGNALS = range(129, 256)
"""Exit codes of containers that a signal ended."""
SIGKILL = range(137, 138)
"""Nobody sends it to himself: a rank that gives up ends otherwise."""


def subject(evidence: Evidence, given: subjects.Given, *roles: str) -> Gang | None:
    """Return the gang under judgement; None where the evidence has none."""
    return subjects.first(evidence, given, *(roles or ("subject",)))


def told(evidence: Evidence, gang: Gang | None) -> Told:
    """Return what the ranks of a gang said; of all pods where no gang is known."""
    return collectives.read(evidence, subjects.uids(gang))


def fabric(given: subjects.Given) -> fields.Object:
    """Return what the profile declares of the fabric."""
    return fields.sub(given, "fabric")


def floors(given: subjects.Given) -> list[tuple[Floor, fields.Object]]:
    """Return the floors that are declared, each with what stands in the profile or the list."""
    own = fabric(given)
    defaults = {
        "nics": own.get("nics_per_node"),
        "nic_gbps": own.get("nic_gbps"),
        "link_gbs": own.get("link_gbs"),
        "transport": own.get("transport"),
    }
    # A shipped list speaks of other clusters: what it leaves out is not known from this one.
    return [
        (floor_of(one, defaults if one.get("of", "profile") == "profile" else None), one)
        for one in fields.items(own, "floors")
    ]


def shape(given: subjects.Given, ranks: Told) -> Shape | None:
    """Return the shape of the run: nodes that took part and GPUs of each; None where they are not alike."""
    own = fabric(given)
    by_node: dict[str, int] = {}
    for rank in ranks.ranks:
        by_node[rank.node] = by_node.get(rank.node, 0) + 1
    if not by_node or len(set(by_node.values())) != 1:
        return None
    nics, rate, link = (samples.number(own.get(name)) for name in ("nics_per_node", "nic_gbps", "link_gbs"))
    return Shape(
        len(by_node), next(iter(by_node.values())), None if nics is None else int(nics), rate,
        link, str(own.get("transport") or ""),
    )  # fmt: skip


def nobody(evidence: Evidence, ranks: Told, gang: Gang | None, required: str) -> Finding | None:
    """Return what an evidence without any rank makes of a row; None where ranks said who they are."""
    if ranks.ranks:
        return None
    if ranks.failed:
        word = ranks.failed[0]
        text = f"{word.pod}: {word.data.get('error')}"
        return wording.finding(Verdict.FAIL, required, text, gang, causes=(NO_RANK,), evidence=(word.key,))
    expired = subjects.timed_out(evidence)
    text = "no rank reported"
    if ranks.torn:
        text += f" ({wording.count(ranks.torn, 'line')} cut in the middle)"
    if expired is not None:
        text += f"; waited for {expired[0]}"
    return wording.finding(Verdict.INCONCLUSIVE, required, text, gang, causes=(NO_RANK,))


class Heard(NamedTuple):
    """A gang whose ranks said who they are.

    Attributes:
        gang: the gang, None where it is not known.
        told: what its ranks said.
        found: builds the findings, with the lines by which ranks said who they are.
    """

    gang: Gang | None
    told: Told
    found: wording.Findings


def heard(evidence: Evidence, given: subjects.Given, required: str) -> Heard | Finding:
    """Return the gang under judgement with its ranks, or what an evidence without any rank makes of the row."""
    gang = subject(evidence, given)
    ranks = told(evidence, gang)
    nothing = nobody(evidence, ranks, gang, required)
    return nothing or Heard(gang, ranks, wording.Findings(required, gang, evidence=keys(ranks)))


def heard_on_gpus(evidence: Evidence, given: subjects.Given, required: str) -> Heard | Finding:
    """Return the same of a row about GPUs, or that it does not apply to ranks on CPUs."""
    found = heard(evidence, given, required)
    return found.found.not_applicable(CPU) if isinstance(found, Heard) and found.told.cpu else found


def missing(ranks: Told, world: int) -> list[int]:
    """Return the ranks of a world that said nothing."""
    return payload_lines.absent(world, {rank.rank for rank in ranks.ranks})


def expected(given: subjects.Given, ranks: Told) -> int | None:
    """Return the ranks that the world must have."""
    return subjects.count(given, "world") or ranks.world


def keys(ranks: Told) -> tuple[str, ...]:
    """Return keys of the lines by which ranks said who they are."""
    return tuple(rank.word.key for rank in ranks.ranks)[:12]


def killed(told: Told, codes: range = SIGNALS) -> list[Rank]:
    """Return the ranks that told no end, and whose container a signal ended before their pod was deleted."""
    return [
        rank
        for rank in told.ranks
        if not rank.done and rank.failed is None and rank.stalled is None
        if rank.pod is not None and rank.pod.ended is not None
        if any(code in codes for _, code in rank.pod.exit_codes)
    ]


def lost(found: list[Rank]) -> str:
    """Return what is said of ranks that were killed, before what the others made of it."""
    codes = {code for rank in found if rank.pod is not None for _, code in rank.pod.exit_codes}
    with_ = wording.listed([str(code) for code in sorted(codes)])
    return f"a signal ended {wording.listed(places(found), 4)} (exit code {with_})"


def places(found: list[Rank]) -> tuple[str, ...]:
    """Return ranks with their pods and nodes for `where`, each once."""
    once = {(rank.rank, rank.word.uid): rank for rank in found}
    return wording.shown([rank.where for rank in once.values()])
