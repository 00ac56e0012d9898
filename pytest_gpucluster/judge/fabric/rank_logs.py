"""What the NCCL logs of a gang's ranks show, read once for all rows that are judged by them."""

import dataclasses

from pytest_gpucluster.evidence.hardware import nccl_logs
from pytest_gpucluster.evidence.hardware.collectives import Rank
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.measure import nccl, transports
from pytest_gpucluster.requirement import Cause

SILENT = Cause(
    "the ranks' NCCL logs are not in the pods' output",
    "look at the end of a pod's log: the lines `nccl-log` give the number of lines",
)
UNLOGGED = ("NCCL_NET",)
"""Variables that NCCL reads and logs in no release from 2.10 to 2.30: only the process itself tells them."""
UNTOLD = Cause(
    "the ranks did not tell the variables of their processes, and NCCL never logs this one",
    "run the row again with the payloads of this version",
)


def unlogged(rank: Rank) -> dict[str, str]:
    """Return what is in force on a rank and in no log: NCCL's files never replace what the environment has."""
    told = rank.environment or {}
    return {name: told[name] for name in UNLOGGED if name in told}


def facts(evidence: Evidence, given: subjects.Given, gang: Gang | None) -> nccl.Facts:
    """Return what the NCCL logs of a gang show."""
    seen = evidence.derived(_Reading(subjects.uids(gang)))
    machines = {} if gang is None else {pod.name: pod.node for pod in gang.pods if pod.node}
    declared = fields.sub(given, "fabric").get("hcas")
    hcas = tuple(str(one) for one in declared) if isinstance(declared, list) and declared else None
    known = nccl.Given(
        ranks=subjects.count(given, "world"),
        nodes=subjects.count(given, "nodes"),
        pod_nodes=machines,
        expected_hcas=hcas,
        networks=_declared(given),
    )
    return nccl.draw(seen, known)


@dataclasses.dataclass(frozen=True)
class _Reading:
    """The pods whose logs are read, or None for all; each judge of the area asks for the same."""

    uids: frozenset[str] | None

    def __call__(self, evidence: Evidence) -> nccl.Seen:
        """Read the logs of their ranks, then what else of NCCL they printed."""
        reader = nccl.Reader()
        for log in nccl_logs.read(evidence, self.uids):
            reader.start(log.pod)
            reader.feed("".join(f"{line}\n" for line in log.lines).encode())
        for stray in nccl_logs.strays(evidence, self.uids):
            reader.start(stray.pod)
            reader.feed("".join(f"{line}\n" for line in stray.lines).encode())
        reader.end()
        return reader.seen


def doubt(facts: nccl.Facts) -> tuple[str, tuple[Cause, ...]] | None:
    """Return the first thing in the logs that nobody understands, cannot be read, or is an error; None for none."""
    for reason in nccl.verdict.doubts(facts):
        return f"the NCCL logs: {reason.text}", tuple(Cause(one.cause, one.fix) for one in reason.advice)
    return None


def _declared(given: subjects.Given) -> dict[str, str]:
    """Return what carries the declared network, where it is of a plugin that nobody knows by name."""
    fabric = fields.sub(given, "fabric")
    network, transport = str(fabric.get("network") or ""), str(fabric.get("transport") or "")
    known = nccl.networks.of(network) != nccl.networks.UNKNOWN or nccl.networks.is_libfabric(network)
    told = transports.NETWORKS.get(transport)
    return {} if known or not network or told is None else {network: told.carrier}


def keys(evidence: Evidence, gang: Gang | None) -> tuple[str, ...]:
    """Return keys of the lines at which the ranks' logs begin."""
    return tuple(log.key for log in nccl_logs.read(evidence, subjects.uids(gang)))[:12]
