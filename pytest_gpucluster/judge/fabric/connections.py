"""The ground of rows that are judged by NCCL's connection lines: who took part, whose log is whole, what is missing.

Only a connection line proves a transport. A violation that a log shows counts whatever else is missing; a pass needs
the whole log of every rank, and connections on every node.
"""

import dataclasses
from collections.abc import Iterable

from pytest_gpucluster.evidence.hardware import nccl_logs
from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import rank_logs, shared
from pytest_gpucluster.measure.nccl import Facts, advice
from pytest_gpucluster.measure.nccl.facts import Path
from pytest_gpucluster.requirement import Cause, Finding, Verdict


@dataclasses.dataclass(frozen=True)
class Ground:
    """What a row about connections stands on.

    Attributes:
        required: what must hold.
        gang: the gang.
        told: its ranks.
        facts: what their logs show.
        world: ranks that there must be.
        logs: the logs.
    """

    required: str
    gang: Gang | None
    told: Told
    facts: Facts
    world: int
    logs: tuple[nccl_logs.Log, ...]

    @property
    def found(self) -> wording.Findings:
        """Return what builds the findings, with the keys of the logs that they were read from."""
        keys = tuple(log.key for log in self.logs)[:12]
        return wording.Findings(self.required, self.gang, evidence=keys or shared.keys(self.told))

    def fail(self, text: str, ranks: Iterable[int], *causes: Cause) -> Finding:
        """Return the finding of a violation, with the ranks that it was seen on and their nodes."""
        return self.found.fail(text, violation=True, causes=causes, where=self.where(ranks))

    def where(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """Return ranks with pods and nodes."""
        wanted = set(ranks)
        known = [rank for rank in self.told.ranks if rank.rank in wanted]
        return shared.places(known) or tuple(f"rank {number}" for number in sorted(wanted))[: wording.MANY]

    def rank(self, number: int) -> Rank | None:
        """Return a rank by its number."""
        return next((rank for rank in self.told.ranks if rank.rank == number), None)

    def node(self, number: int) -> str:
        """Return the node of a rank, "" where it is not known."""
        rank = self.rank(number)
        return "" if rank is None else rank.node

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes of the ranks."""
        return tuple(sorted({rank.node for rank in self.told.ranks}))

    @property
    def between(self) -> tuple[Path, ...]:
        """Return the connections over a network."""
        return tuple(path for path in self.facts.paths if path.carrier)

    def gap(self, paths: Iterable[Path]) -> Finding | None:
        """Return what is missing for a pass: logs of ranks, or connections of these kinds on a node."""
        lacking = self.lacking()
        if lacking is not None:
            return lacking
        seen = {self.node(path.rank) for path in paths}
        mute = [node for node in self.nodes if node not in seen]
        if mute:
            text = f"no rank on {wording.listed(mute)} printed such a connection"
            return self.found.inconclusive(text, cause(advice.LAZY))
        return None

    def lacking(self) -> Finding | None:
        """Return whose log is missing or not whole, or what in the logs is no good news; None for none."""
        heard = {log.rank for log in self.logs if log.whole and log.lines}
        silent = payload_lines.absent(self.world, heard)
        if not silent:
            doubt = rank_logs.doubt(self.facts)
            return None if doubt is None else self.found.inconclusive(doubt[0], *doubt[1])
        text = (
            f"the NCCL log of rank {wording.listed([str(n) for n in silent])} of {self.world} is missing or "
            "incomplete"
        )
        return self.found.inconclusive(text, rank_logs.SILENT, where=self.where(silent))


def of(evidence: Evidence, given: subjects.Given, required: str, *, between: bool) -> Ground | Finding:
    """Return the ground, or the finding where there is none.

    Args:
        evidence: the evidence.
        given: what the judge is told.
        required: what must hold.
        between: whether the row is about traffic between nodes, and so does not apply to one.
    """
    heard = shared.heard(evidence, given, required)
    if isinstance(heard, Finding):
        return heard
    gang, told, _ = heard
    if told.cpu:
        return wording.finding(Verdict.NOT_APPLICABLE, required, shared.CPU, gang)
    world = shared.expected(given, told) or len(told.ranks)
    if between and len({rank.node for rank in told.ranks}) < 2 and (subjects.count(given, "nodes") or 1) < 2:
        text = "all ranks are on one node: there is no traffic between nodes"
        return wording.finding(Verdict.NOT_APPLICABLE, required, text, gang)
    logs = nccl_logs.read(evidence, subjects.uids(gang))
    return Ground(required, gang, told, rank_logs.facts(evidence, given, gang), world, logs)


def cause(one: advice.Advice) -> Cause:
    """Return what the reader of logs advises as a cause of a finding."""
    return Cause(one.cause, one.fix)
