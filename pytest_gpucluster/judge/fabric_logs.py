"""What the NCCL logs of a gang's ranks show, read once for all rows that are judged by them."""

from pytest_gpucluster.evidence import fields, nccl_logs
from pytest_gpucluster.evidence.gangs import Gang
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.judge import terms
from pytest_gpucluster.measure import nccl
from pytest_gpucluster.requirement import Cause

SILENT = Cause(
    "the ranks' NCCL logs are not in the pods' output",
    "look at the end of the log of a pod: the lines nccl-log say how many lines there were",
)


def facts(evidence: Evidence, given: terms.Given, gang: Gang | None) -> nccl.Facts:
    """Return what the NCCL logs of a gang show."""
    reader = nccl.Reader()
    pods = {} if gang is None else {pod.uid: pod for pod in gang.pods}
    for log in nccl_logs.read(evidence, None if gang is None else pods):
        reader.start(log.pod)
        reader.feed("".join(f"{line}\n" for line in log.lines).encode())
    reader.end()
    machines = {pod.name: pod.node for pod in pods.values() if pod.node}
    declared = fields.sub(given, "fabric").get("hcas")
    hcas = tuple(str(one) for one in declared) if isinstance(declared, list) and declared else None
    known = nccl.Given(
        ranks=terms.count(given, "world"),
        nodes=terms.count(given, "nodes"),
        pod_nodes=machines,
        expected_hcas=hcas,
    )
    return nccl.facts.of(reader.seen, known)


def keys(evidence: Evidence, gang: Gang | None) -> tuple[str, ...]:
    """Return keys of the lines at which the ranks' logs begin."""
    uids = None if gang is None else [pod.uid for pod in gang.pods]
    return tuple(log.key for log in nccl_logs.read(evidence, uids))[:12]
